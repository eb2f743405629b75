"""Entities, made: from their documents in the file to the driver's objects.

Unified Test Format: entity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import ClientSpec, EntityKind
from harness.unified.deployment import Topology
from harness.unified.entities import ClientEntity, SessionEntity, ThreadEntity
from harness.unified.errors import ScenarioError
from harness.unified.observation import ALWAYS, READY, told
from harness.unified.outcome import CaseFailedError, CaseSkippedError
from harness.unified.requirements import FAIL_POINT_SETTERS
from harness.unified.uri import host_count, with_options

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from harness.unified.deployment import Deployment
    from harness.unified.model import EntitySpec
    from harness.unified.operations.spec import Context

_HEARTBEAT_MS: Final = 500
"""The shortest heartbeat frequency that drivers accept: fail points make servers unknown for that long."""


async def create_entity(context: Context, spec: EntitySpec) -> None:
    """Create an entity and store it. Raises `EntityError` when a name in it does not lead anywhere."""
    try:
        await _MAKERS[spec.kind](context, spec)
    except ScenarioError as error:
        raise error.at(spec.location) from error


async def _client(context: Context, spec: EntitySpec) -> None:
    body = spec.body
    if "storeEventsAsEntities" in body:
        raise CaseSkippedError("storeEventsAsEntities (deprecated) collects events for an outer program")
    observed, logs = frozenset(body.get("observeEvents", ())), body.get("observeLogMessages", {})
    handle = await context.adapter.create_client(
        ClientSpec(
            uri=_client_uri(context, body),
            options=body.get("uriOptions", {}),
            observe_events=observed | ALWAYS | told(context.adapter.features),
            observe_logs=frozenset(logs),
            observe_spans=body.get("observeTracingMessages"),
            server_api=body.get("serverApi"),
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
    if "awaitMinPoolSizeMS" in body:
        await _await_min_pool_size(context, client, spec)


def _client_uri(context: Context, body: Mapping[str, Any]) -> str:
    options = dict(body.get("uriOptions", {}))
    if _sets_fail_points(context) and "heartbeatfrequencyms" not in (name.lower() for name in options):
        options["heartbeatFrequencyMS"] = _HEARTBEAT_MS
    return with_options(_deployment_uri(context.deployment, body.get("useMultipleMongoses")), options)


def _sets_fail_points(context: Context) -> bool:
    names = (operation.name for operation in context.case.operations)
    return any(name in FAIL_POINT_SETTERS for name in names)


def _deployment_uri(deployment: Deployment, multiple: bool | None) -> str:  # noqa: FBT001  # useMultipleMongoses: true, false or not given
    topology = deployment.topology
    if not topology.has_mongos:
        return deployment.uri
    if multiple is None:
        multiple = topology is Topology.LOAD_BALANCED
    if multiple and topology is not Topology.LOAD_BALANCED and host_count(deployment.uri_multi) == 1:
        raise CaseSkippedError("useMultipleMongoses needs a deployment with two mongos")
    return deployment.uri_multi if multiple else deployment.uri


async def _await_min_pool_size(context: Context, client: ClientEntity, spec: EntitySpec) -> None:
    """Wait until every pool has its `minPoolSize`, then forget the pool and SDAM events so far."""
    servers = 1 if context.deployment.topology.has_mongos else len(context.deployment.addresses)
    wanted = spec.body.get("uriOptions", {}).get("minPoolSize", 0) * servers
    timeout_ms = spec.body["awaitMinPoolSizeMS"]

    def filled() -> bool:
        return sum(event.kind == READY for event in client.read()) >= int(wanted)

    if not await context.wait_until(filled, within=timeout_ms / 1000):
        raise CaseFailedError(
            f"client {spec.id!r} did not have {wanted} connections after {timeout_ms} ms",
            location=spec.location,
        )
    client.skipped = len(client.read())


async def _database(context: Context, spec: EntitySpec) -> None:
    client = context.entities.client(_name_in(spec, "client"))
    handle = await context.adapter.create(EntityKind.DATABASE, client.handle, spec.body)
    context.entities.add(EntityKind.DATABASE, spec.id, handle, client=spec.body["client"])


def _below_database(kind: EntityKind) -> Callable[[Context, EntitySpec], Awaitable[None]]:
    async def make(context: Context, spec: EntitySpec) -> None:
        parent = context.entities.get(EntityKind.DATABASE, _name_in(spec, "database"))
        client = context.entities.find(spec.body["database"]).client
        handle = await context.adapter.create(kind, parent, spec.body)
        context.entities.add(kind, spec.id, handle, client=client)

    return make


async def _session(context: Context, spec: EntitySpec) -> None:
    client = context.entities.client(_name_in(spec, "client"))
    body = {**spec.body, "sessionOptions": _resolved(context, spec.body.get("sessionOptions", {}))}
    handle = await context.adapter.create(EntityKind.SESSION, client.handle, body)
    state = await context.adapter.session_state(handle)
    if context.cluster_time is not None:
        await context.adapter.advance_cluster_time(handle, context.cluster_time)
    entity = SessionEntity(handle, state.lsid)
    context.entities.add(EntityKind.SESSION, spec.id, entity, client=spec.body["client"])


def _resolved(context: Context, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return session options in which `snapshotTime` is the saved result that it names."""
    name = options.get("snapshotTime")
    if isinstance(name, str):
        return {**options, "snapshotTime": context.entities.document(name)}
    return dict(options)


async def _thread(context: Context, spec: EntitySpec) -> None:
    context.entities.add(EntityKind.THREAD, spec.id, ThreadEntity())


async def _client_encryption(context: Context, spec: EntitySpec) -> None:
    options = spec.body["clientEncryptionOpts"]
    client = context.entities.client(options["keyVaultClient"])
    handle = await context.adapter.create(EntityKind.CLIENT_ENCRYPTION, client.handle, spec.body)
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
