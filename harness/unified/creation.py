"""Entities, made: from their documents in the file to the driver's objects.

Unified Test Format: entity.

One function a kind, in `_MAKERS`. Each looks up what the entity is made from, checks the options that the
schema leaves open, has the adapter make the driver's object, and stores both under the name in the file. The
runner calls `create_entity` for the file's own entities in their order, and `createEntities` calls it in the
middle of a case, where nothing was validated before.

A client takes most of it: its connection string is the deployment's with the entity's `uriOptions` on top, it
is asked to collect more events than the scenario observes (the runner counts some, reports show others), and
it may have to fill its pools before the case goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import ClientSpec, EntityKind
from harness.adapters.deployment import Topology
from harness.unified.arguments import check_options, check_session_options
from harness.unified.entities import ClientEntity, SessionEntity, ThreadEntity
from harness.unified.errors import EntityError, ScenarioError
from harness.unified.model import nested
from harness.unified.observation import ALWAYS, READY, EventList, kind_of, reported
from harness.unified.outcome import CaseFailedError, CaseSkippedError
from harness.unified.placeholders import replaced
from harness.unified.requirements import FAIL_POINT_SETTERS
from harness.unified.uri import host_count, with_options

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from harness.adapters.deployment import Deployment
    from harness.unified.model import EntitySpec
    from harness.unified.operations.spec import Context

SEEDED: Final = "seeded"
_HEARTBEAT_MS: Final = 500
"""The shortest heartbeat frequency that drivers accept: fail points make servers unknown for that long."""


async def create_entity(context: Context, spec: EntitySpec) -> None:
    """Create an entity and store it. Raises `EntityError` when a name in it does not lead anywhere."""
    try:
        await _MAKERS[spec.kind](context, spec)
    except ScenarioError as error:
        raise error.at(spec.location) from error


async def _client(context: Context, spec: EntitySpec) -> None:
    body, options = spec.body, replaced(spec.body.get("uriOptions", {}), "uriOptions")
    observed, logs = frozenset(body.get("observeEvents", ())), body.get("observeLogMessages", {})
    stored = _stored_kinds(body)
    uri = _client_uri(context, body.get("useMultipleMongoses"), options)
    handle = await context.adapter.create_client(
        ClientSpec(
            uri=uri,
            options=options,
            observe_events=observed.union(ALWAYS, reported(context.adapter.features), *stored.values()),
            observe_logs=frozenset(logs),
            observe_spans=body.get("observeTracingMessages"),
            server_api=body.get("serverApi"),
            auto_encryption=_with_credentials(body.get("autoEncryptOpts")),
            **_jitter(context, spec),
        )
    )
    client = ClientEntity(
        handle=handle,
        observed=observed,
        ignored_commands=frozenset({"configureFailPoint", *body.get("ignoreCommandMonitoringEvents", ())}),
        observe_sensitive=bool(body.get("observeSensitiveCommands")),
        read=lambda: context.adapter.events(handle),
        observed_logs=logs,
    )
    context.entities.add(EntityKind.CLIENT, spec.id, client)
    context.account.clients[spec.id] = client.read
    for name, kinds in stored.items():
        events = EventList(kinds, client.read, context.deployment.clock)
        context.entities.add(EntityKind.EVENT_LIST, name, events, client=spec.id)
    if "awaitMinPoolSizeMS" in body:
        direct = _option(options, "directConnection") is True
        hosts_only = context.deployment.topology.has_mongos or direct  # others discover the replica set
        servers = host_count(uri) if hosts_only else len(context.deployment.addresses)
        await _await_min_pool_size(context, client, spec, servers=servers)


def _jitter(context: Context, spec: EntitySpec) -> dict[str, Any]:
    """Return how the client's jitter is set. A seed comes from the run's random numbers, and is its own."""
    wanted = spec.body.get("pushbackd", {}).get("jitter")
    if wanted == SEEDED:
        random = context.deployment.rng.spawn(f"jitter of {spec.id}")
        return {"jitter_seed": int.from_bytes(random.randbytes(4))}
    return {} if wanted is None else {"jitter": wanted}


def _stored_kinds(body: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """Return the events to store, by name. Raises `EntityError` for a name that stands there twice."""
    kinds: dict[str, frozenset[str]] = {}
    for stored in body.get("storeEventsAsEntities", ()):
        if stored["id"] in kinds:
            raise EntityError(
                f"entity {stored['id']!r} already exists (eventList)", fix="entity names are written once"
            )
        kinds[stored["id"]] = frozenset(map(kind_of, stored["events"]))
    return kinds


def _with_credentials(options: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return options of an encryption, with the environment's credentials for placeholders."""
    if options is None:
        return None
    return {**options, "kmsProviders": replaced(options["kmsProviders"], "kmsProviders")}


def _client_uri(context: Context, multiple: bool | None, options: Mapping[str, Any]) -> str:  # noqa: FBT001  # useMultipleMongoses: true, false or absent
    """Return the connection string of a client entity.

    The entity's own options win over those of the deployment, and over the short heartbeat of cases with fail
    points.
    """
    sets_fail_points = any(
        operation.name in FAIL_POINT_SETTERS for operation in nested(context.case.operations)
    )
    if sets_fail_points and _option(options, "heartbeatFrequencyMS") is None:
        options = {**options, "heartbeatFrequencyMS": _HEARTBEAT_MS}
    return with_options(_deployment_uri(context.deployment, multiple), options)


def _option(options: Mapping[str, Any], name: str) -> Any:
    """Return the value of a URI option, whose name counts in any case."""
    return next((value for other, value in options.items() if other.lower() == name.lower()), None)


def _deployment_uri(deployment: Deployment, multiple: bool | None) -> str:  # noqa: FBT001  # useMultipleMongoses: true, false or absent
    topology = deployment.topology
    if not topology.has_mongos:
        return deployment.uri
    if multiple is None:
        # Absent, it leaves the number to the runner. With one mongos, a fail point is hit where it was set.
        multiple = topology is Topology.LOAD_BALANCED
    # true asks for two seeds. With one, a case about the choice between mongos would pass without a choice.
    if multiple and topology is not Topology.LOAD_BALANCED and host_count(deployment.uri_multi) == 1:
        raise CaseSkippedError("useMultipleMongoses needs a deployment with two mongos")
    return deployment.uri_multi if multiple else deployment.uri


async def _await_min_pool_size(
    context: Context, client: ClientEntity, spec: EntitySpec, *, servers: int
) -> None:
    """Wait until every pool has its `minPoolSize`, then forget what was observed so far."""
    # Events of all pools are counted together: which pool a driver fills first is its own matter.
    wanted = (_option(spec.body.get("uriOptions", {}), "minPoolSize") or 0) * servers
    timeout_ms = spec.body["awaitMinPoolSizeMS"]

    def filled() -> bool:
        return sum(event.kind == READY for event in client.read()) >= int(wanted)

    if not await context.wait_until(filled, within=timeout_ms / 1000):
        raise CaseFailedError(
            f"client {spec.id!r} did not have {wanted} connections after {timeout_ms} ms",
            location=spec.location,
        )
    # awaitMinPoolSizeMS: what filling the pools took is no part of the events that a scenario expects.
    client.skipped = len(client.read())


async def _database(context: Context, spec: EntitySpec) -> None:
    client = context.entities.client(_name_in(spec, "client"))
    check_options(spec.body.get("databaseOptions", {}))
    handle = await context.adapter.create(EntityKind.DATABASE, client.handle, spec.body)
    context.entities.add(EntityKind.DATABASE, spec.id, handle, client=spec.body["client"])


def _below_database(kind: EntityKind) -> Callable[[Context, EntitySpec], Awaitable[None]]:
    async def make(context: Context, spec: EntitySpec) -> None:
        parent = context.entities.get(EntityKind.DATABASE, _name_in(spec, "database"))
        client = context.entities.find(spec.body["database"]).client
        check_options(spec.body.get(f"{kind.value}Options", {}))
        # The name of the client travels along, so that an operation on a collection is known to be its
        # client's.
        handle = await context.adapter.create(kind, parent, spec.body)
        context.entities.add(kind, spec.id, handle, client=client)

    return make


async def _session(context: Context, spec: EntitySpec) -> None:
    client = context.entities.client(_name_in(spec, "client"))
    options = dict(spec.body.get("sessionOptions", {}))
    check_session_options(options)
    if isinstance(options.get("snapshotTime"), str):  # the name of a saved result
        options["snapshotTime"] = context.entities.document(options["snapshotTime"])
    body = {**spec.body, "sessionOptions": options}
    handle = await context.adapter.create(EntityKind.SESSION, client.handle, body)
    # The lsid is read now: a driver may not tell it any more when the session has ended.
    state = await context.adapter.session_state(handle)
    if context.cluster_time is not None:
        # Or a transaction on a mongos could begin at a time when the collections were not there yet.
        await context.adapter.advance_cluster_time(handle, context.cluster_time)
    entity = SessionEntity(handle, state.lsid)
    context.entities.add(EntityKind.SESSION, spec.id, entity, client=spec.body["client"])


async def _thread(context: Context, spec: EntitySpec) -> None:
    context.entities.add(EntityKind.THREAD, spec.id, ThreadEntity())


async def _client_encryption(context: Context, spec: EntitySpec) -> None:
    """Make a ClientEncryption.

    It belongs to the client of its key vault: by that client's name its commands are told apart.
    """
    options = spec.body["clientEncryptionOpts"]
    client = context.entities.client(options["keyVaultClient"])
    body = {**spec.body, "clientEncryptionOpts": _with_credentials(options)}
    handle = await context.adapter.create(EntityKind.CLIENT_ENCRYPTION, client.handle, body)
    context.entities.add(EntityKind.CLIENT_ENCRYPTION, spec.id, handle, client=options["keyVaultClient"])


def _name_in(spec: EntitySpec, field: str) -> str:
    """Return the entity that another is made from. Entities made inside tests have not been validated."""
    name = spec.body.get(field)
    if not isinstance(name, str):
        raise ScenarioError(f"{spec.kind.value} {spec.id!r} needs the name of its {field}")
    return name


_MAKERS: Final[Mapping[EntityKind, Callable[[Context, EntitySpec], Awaitable[None]]]] = {
    EntityKind.CLIENT: _client,
    EntityKind.DATABASE: _database,
    EntityKind.COLLECTION: _below_database(EntityKind.COLLECTION),
    EntityKind.BUCKET: _below_database(EntityKind.BUCKET),
    EntityKind.SESSION: _session,
    EntityKind.THREAD: _thread,
    EntityKind.CLIENT_ENCRYPTION: _client_encryption,
}
