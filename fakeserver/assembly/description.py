"""A deployment as the pytest fixtures are told of it: names and values, checked, and the spec that they make.

The values come from an ini file or a command line (all of them text), from a marker or from a call. Every
mistake raises a `ControlError` whose path names the value, with the name or the value that was meant.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fakeserver.deployment.spec import ClusterSpec, MemberSpec, Topology, topology_name
from fakeserver.errors import CommandError
from fakeserver.profile import PROFILES, Profile
from fakeserver.settings import failpoints, server_parameters
from mongowire.documents.arguments import count, text
from mongowire.documents.errors import ControlError, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.control.scenario.model import Scenario

UNMET: Final = ("fail", "ignore")
"""What becomes of a test whose fault or expectation was never met; the first is the default."""

_OF_SPEC: Final = tuple(field.name for field in fields(ClusterSpec))
KNOWN: Final = (*_OF_SPEC, "scenario", "unmet")
"""The names of all values."""

_BESIDE_SCENARIO: Final = frozenset({"scenario", "parameters", "seed", "unmet"})
"""The values that do not contradict a scenario file, which describes the deployment itself."""

_MAKERS: Final[Mapping[str, Callable[..., ClusterSpec]]] = {
    Topology.SINGLE: ClusterSpec.standalone,
    Topology.REPLICA_SET: ClusterSpec.replica_set,
    Topology.SHARDED: ClusterSpec.sharded,
    Topology.LOAD_BALANCED: ClusterSpec.load_balanced,
}
_NOT_OF: Final[Mapping[str, frozenset[str]]] = {
    Topology.SINGLE: frozenset({"members", "mongos", "shards"}),
    Topology.REPLICA_SET: frozenset({"mongos", "shards"}),
}
"""The values that a topology has no use for; the ini file may have them for tests with another one."""


@dataclass(frozen=True, slots=True)
class Description:
    """A deployment for a test. `unmet` says what a fault that was never met does to the test."""

    spec: ClusterSpec
    unmet: str = UNMET[0]
    scenario: Scenario | None = None

    @property
    def started(self) -> ClusterSpec | Scenario:
        """What a `BackgroundCluster` is made of."""
        return self.spec if self.scenario is None else self.scenario


def describe(
    values: Mapping[str, Any], defaults: Mapping[str, Any] | None = None, *, folder: Path | None = None
) -> Description:
    """Return what the values describe, over defaults; `folder` is where a scenario file is looked for.

    Raises `ControlError`.
    """
    for name in values:
        if name not in KNOWN:
            raise unknown("argument", name, KNOWN)
    parsed = {name: _parsed(name, value) for name, value in {**(defaults or {}), **values}.items()}
    unmet = parsed.pop("unmet", UNMET[0])
    file = parsed.pop("scenario", None)
    if file is not None:
        scenario = _scenario(file, values, parsed, folder or Path())
        return Description(scenario.spec, unmet, scenario)
    topology = parsed.pop("topology", Topology.REPLICA_SET)
    for name in _NOT_OF.get(topology, ()):
        parsed.pop(name, None)
    try:
        spec = _MAKERS[topology](**parsed)
    except (TypeError, ValueError) as error:
        raise ControlError(str(error)) from None
    _check_parameters(spec)
    return Description(spec, unmet)


def _scenario(file: str, values: Mapping[str, Any], parsed: Mapping[str, Any], folder: Path) -> Scenario:
    from fakeserver.control.scenario.building import load_scenario  # noqa: PLC0415 - it loads a YAML parser

    for name in values:
        if name not in _BESIDE_SCENARIO:
            raise ControlError(
                "a scenario file describes the deployment itself; leave this out", path=(name,)
            )
    beside = folder / file
    try:
        scenario = load_scenario(beside if beside.exists() else file)
    except ValueError as error:  # what is wrong has its file and its line
        raise ControlError(str(error), path=("scenario",)) from None
    changes = {name: parsed[name] for name in ("parameters", "seed") if name in values}
    if "parameters" in changes:
        changes["parameters"] = {**scenario.spec.parameters, **changes["parameters"]}
    spec = replace(scenario.spec, **changes)
    _check_parameters(spec)
    return scenario.on(spec)


def _parsed(name: str, value: Any) -> Any:
    try:
        return _PARSERS.get(name, _as_it_is)(value)
    except ControlError as error:
        raise error.within(name) from None


def _as_it_is(value: Any) -> Any:
    return value


def _topology(value: Any) -> str:
    known = [each.value for each in Topology]
    spelled = topology_name(value) if isinstance(value, str) else value
    if spelled not in known:
        raise unknown("topology", value, known)
    return str(spelled)


def _members(value: Any) -> Any:
    if isinstance(value, list | tuple):
        for each in value:
            if not isinstance(each, MemberSpec):
                raise ControlError(f"{each!r} is no MemberSpec")
        return tuple(value)
    return count(value)


def _profile(value: Any) -> str:
    if value not in PROFILES:
        raise unknown("release", value, PROFILES)
    return str(value)


def _unmet(value: Any) -> str:
    if value not in UNMET:
        raise unknown("value", value, UNMET)
    return str(value)


def _parameters(value: Any) -> dict[str, Any]:
    if not hasattr(value, "keys"):
        raise ControlError(f"{value!r} is no dictionary of server parameters")
    prefix = server_parameters.FAIL_POINT_PREFIX
    for name in value:
        if str(name).startswith(prefix):
            point = str(name).removeprefix(prefix)
            if point not in failpoints.NAMES:
                raise unknown("fail point", point, failpoints.NAMES)
        elif name not in server_parameters.TABLE:
            raise unknown("server parameter", name, server_parameters.TABLE)
    return dict(value)


def _check_parameters(spec: ClusterSpec) -> None:
    """Read the values of server parameters as a start does. Raises `ControlError`."""
    try:
        server_parameters.ServerParameters(Profile.named(spec.profile), spec.parameters)
    except CommandError as error:
        raise ControlError(error.message.strip(), path=("parameters",)) from None


_PARSERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "topology": _topology,
    "members": _members,
    "mongos": count,
    "shards": count,
    "profile": _profile,
    "seed": count,
    "parameters": _parameters,
    "scenario": text,
    "unmet": _unmet,
}
