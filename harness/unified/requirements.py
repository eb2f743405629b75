"""Requirements of a case: whether it may run on a deployment with a driver, and if not, the reason.

Unified Test Format: runOnRequirement. Everything is decided from facts that are at hand before a run
(`KnownServers` where servers have not even been started), so that a skipped case costs nothing and touches
nothing. Each test returns the first thing that does not hold as a sentence with both what is needed and what
is here, or None. The reason stands in reports and is all that a reader gets; two alternatives that fail are
joined by "or".

A driver that lacks a feature is a reason too. It is looked for in what the case asks of it: entities,
options, observed events. Features that single operations need are known only when their entity is (`runner`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from driver.editions import DEFAULT
from harness.adapters.base import EntityKind, Feature
from harness.adapters.deployment import Topology
from harness.unified.model import Requirement, nested
from harness.unified.observation import kind_of
from harness.unified.schema.events import COMMAND_EVENTS, POOL_EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from harness.adapters.deployment import Deployment, KnownServers
    from harness.unified.model import Case, EntitySpec

    Servers: TypeAlias = Deployment | KnownServers

FAIL_POINT_SETTERS: Final = frozenset({"failPoint", "targetedFailPoint"})
"""The operations of the runner that set one."""


def skip_reason(
    case: Case, deployment: Servers, features: frozenset[Feature], edition: str = DEFAULT.name
) -> str | None:
    """Return why a case cannot run on this deployment with a driver of an edition, or None when it can."""
    if case.skip_reason is not None:
        return case.skip_reason
    # The author's reason, then the servers', then the driver's: who reads a report asks in this order whether
    # the case could have run at all.
    return (
        unmet_reason(case.file_requirements, deployment, features)
        or unmet_reason(case.requirements, deployment, features)
        or _no_fail_points(case, deployment)
        or _not_run_on(case, deployment, features, edition)
        or missing_feature(case, features)
    )


def unmet_reason(
    requirements: Sequence[Requirement], deployment: Servers, features: frozenset[Feature] = frozenset()
) -> str | None:
    """Return why none of the alternatives holds, or None when one does or none is asked for.

    The order of `_TESTS` decides which reason is told where several hold: kind of deployment before version
    before parameters, as the most telling one.
    """
    reasons: list[str] = []
    for requirement in requirements:
        failed = filter(None, (test(requirement, deployment) for test in _TESTS))
        reason = next(failed, None) or _csfle(requirement, deployment, features)
        if reason is None:
            return None
        reasons.append(reason)
    return "; or ".join(dict.fromkeys(reasons)) or None


def _no_fail_points(case: Case, deployment: Servers) -> str | None:
    """Return a reason when a case sets a fail point and the servers take none.

    A deployment that cannot be asked for its parameters is taken to have test commands.
    """
    if deployment.parameters.get("enableTestCommands", True):
        return None
    names = {operation.name for operation in nested(case.operations)}
    return None if names.isdisjoint(FAIL_POINT_SETTERS) else "needs fail points, which the servers refuse"


def _not_run_on(case: Case, deployment: Servers, features: frozenset[Feature], edition: str) -> str | None:
    """Return why a case with the key `pushbackd` does not run here, by its `runOn` and by what it expects."""
    own = case.server_side
    if own is None:
        return None
    run_on, time = own.run_on, "real" if deployment.network is None else "virtual"
    if own.is_judged and deployment.wire_record is None:
        return "needs servers that record what they see (pushbackd), which the fake servers do"
    if run_on.time not in (None, time):
        return f"needs {run_on.time} time (pushbackd.runOn)"
    if run_on.editions and edition not in run_on.editions:
        return f"needs edition {' or '.join(run_on.editions)}, the driver follows {edition} (pushbackd.runOn)"
    missing = next((Feature[name] for name in run_on.features if Feature[name] not in features), None)
    if missing is not None:
        return f"pushbackd.runOn needs a driver with {missing.name}: {missing.value}"
    requirement = Requirement(min_server_version=run_on.least_profile, max_server_version=run_on.most_profile)
    # Version profiles: a maximum of two numbers holds for all patches.
    high = requirement.max_server_version
    if high is not None:
        parts = len(high.split("."))
        if (*deployment.server_version, 0, 0, 0)[:parts] == version_of(high)[:parts]:
            requirement = replace(requirement, max_server_version=None)
    return _version(requirement, deployment)


def version_of(text: str) -> tuple[int, int, int]:
    """Unified Test Format: Version String. Return three numbers; what is missing is zero."""
    numbers = [int(part) for part in text.partition("-")[0].split(".")[:3]]
    # A pre-release such as 8.0.0-rc1 counts as its release.
    major, minor, patch = (*numbers, 0, 0)[:3]
    return major, minor, patch


def is_impossible(low: str, high: str) -> bool:
    """Return whether no version is `low` or newer and `high` or older; two numbers stand for all patches."""
    parts = len(high.partition("-")[0].split("."))
    return version_of(low)[:parts] > version_of(high)[:parts]


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _version(requirement: Requirement, deployment: Servers) -> str | None:
    here = (*deployment.server_version, 0, 0, 0)[:3]
    low, high = requirement.min_server_version, requirement.max_server_version
    if low is not None and high is not None and is_impossible(low, high):
        return f"asks for server {low} or newer and {high} or older, which none is: exchange the two"
    if low is not None and here < version_of(low):
        return f"needs server {low} or newer, this is {_dotted(here)}"
    if high is not None and here > version_of(high):
        return f"needs server {high} or older, this is {_dotted(here)}"
    return None


def _topology(requirement: Requirement, deployment: Servers) -> str | None:
    wanted, here = requirement.topologies, deployment.topology
    if not wanted or any(_satisfies(here, name, deployment.server_version) for name in wanted):
        return None
    return f"needs topology {' or '.join(wanted)}, this is {here}"


_REPLICATED_SHARDS_FROM: Final = (3, 6)


def _satisfies(here: Topology, wanted: str, version: tuple[int, ...]) -> bool:
    """Return whether a deployment counts as a topology: since 3.6 every shard is a replica set."""
    if wanted == Topology.SHARDED:
        return here in (Topology.SHARDED, Topology.SHARDED_REPLICA_SET)
    if wanted == Topology.SHARDED_REPLICA_SET and here is Topology.SHARDED:
        return version >= _REPLICATED_SHARDS_FROM
    return here == wanted


def _auth(requirement: Requirement, deployment: Servers) -> str | None:
    if requirement.auth is None or requirement.auth == deployment.auth:
        return None
    return f"needs authentication {'on' if requirement.auth else 'off'}"


def _serverless(requirement: Requirement, _deployment: Servers) -> str | None:
    # `forbid` and `allow` always hold: no deployment is taken for serverless.
    return "needs a serverless instance" if requirement.serverless == "require" else None


def _server_parameters(requirement: Requirement, deployment: Servers) -> str | None:
    for name, wanted in requirement.server_parameters.items():
        if name not in deployment.parameters:
            return f"needs server parameter {name} to be {wanted!r}, the server does not have it"
        here = deployment.parameters[name]
        # Numbers of any type compare by value, as in assertions; but true is no number.
        if isinstance(wanted, bool) != isinstance(here, bool) or wanted != here:
            return f"needs server parameter {name} to be {wanted!r}, it is {here!r}"
    return None


def _auth_mechanism(requirement: Requirement, deployment: Servers) -> str | None:
    wanted = requirement.auth_mechanism
    # Absent where getParameter is refused; then no mechanism is known to be offered, and the case is skipped.
    offered = deployment.parameters.get("authenticationMechanisms", ())
    if wanted is None or wanted.lower() in (name.lower() for name in offered):
        return None
    return f"needs authentication mechanism {wanted}, the server offers {', '.join(offered) or 'none'}"


_ENCRYPTED_FROM: Final = (4, 2)


def _csfle(requirement: Requirement, deployment: Servers, features: frozenset[Feature]) -> str | None:
    """Client-side encryption takes a driver that declares it, and a server that knows it."""
    wanted = requirement.csfle
    if wanted is None:
        return None
    supported = Feature.ENCRYPTION in features and deployment.server_version >= _ENCRYPTED_FROM
    if wanted is False:
        return "needs a driver without client-side encryption (csfle)" if supported else None
    if not supported:
        return "needs client-side encryption (csfle)"
    if isinstance(wanted, dict):
        # Skipped and not run on a guess: a library that is too old fails in ways that look like the driver's.
        version = wanted["minLibmongocryptVersion"]
        return f"needs libmongocrypt {version} or newer, and adapters do not say which they have"
    return None


_TESTS: Final[Sequence[Callable[[Requirement, Servers], str | None]]] = (
    _serverless,
    _topology,
    _version,
    _auth,
    _auth_mechanism,
    _server_parameters,
)


def missing_feature(case: Case, features: frozenset[Feature]) -> str | None:
    """Return the first thing that a case asks of the driver beyond its features, or None."""
    for feature, what in _asked(case):
        if feature not in features:
            return f"{what} needs a driver with {feature.name}: {feature.value}"
    return None


def _asked(case: Case) -> Iterator[tuple[Feature, str]]:
    created = (
        spec
        for operation in nested(case.operations)
        # Entities that are made within a case ask for features as those of the file do, but only on the
        # runner.
        if operation.name == "createEntities" and operation.object == EntityKind.TEST_RUNNER.value
        for spec in operation.arguments.get("entities", ())
    )
    for spec in (*case.entities, *created):
        yield from _asked_by(spec)
    if case.expected_logs:
        yield Feature.LOG_MESSAGES, "expectLogMessages"
    if case.expected_spans:
        yield Feature.TRACING, "expectTracingMessages"


def _asked_by(spec: EntitySpec) -> Iterator[tuple[Feature, str]]:
    if spec.kind in _FEATURE_OF_ENTITY:
        yield _FEATURE_OF_ENTITY[spec.kind], f"{spec.kind.value} entity {spec.id!r}"
    for name, feature in _FEATURE_OF_FIELD.items():
        if name in spec.body:
            yield feature, name
    stored = (name for each in spec.body.get("storeEventsAsEntities", ()) for name in each["events"])
    if "jitter" in spec.body.get("pushbackd", {}):
        yield Feature.JITTER, "jitter"
    for event in (*spec.body.get("observeEvents", ()), *map(kind_of, stored)):
        yield feature_of_event(event), event
    for field in ("databaseOptions", "collectionOptions", "bucketOptions", "uriOptions"):
        if "timeoutMS" in spec.body.get(field, {}):
            yield Feature.TIMEOUT_MS, f"{field}.timeoutMS"


_FEATURE_OF_ENTITY: Final[Mapping[EntityKind, Feature]] = {
    EntityKind.SESSION: Feature.SESSIONS,
    EntityKind.BUCKET: Feature.GRIDFS,
    EntityKind.CLIENT_ENCRYPTION: Feature.ENCRYPTION,
}
_FEATURE_OF_FIELD: Final[Mapping[str, Feature]] = {
    "autoEncryptOpts": Feature.ENCRYPTION,
    "awaitMinPoolSizeMS": Feature.POOL_EVENTS,
    "serverApi": Feature.SERVER_API,
    "observeLogMessages": Feature.LOG_MESSAGES,
    "observeTracingMessages": Feature.TRACING,
}


def feature_of_event(kind: str) -> Feature:
    """Return the feature by which events of a kind are observed."""
    if kind in COMMAND_EVENTS:
        return Feature.COMMAND_EVENTS
    return Feature.POOL_EVENTS if kind in POOL_EVENTS else Feature.SDAM_EVENTS
