"""Operations of the runner itself (`object: testRunner`): fail points, waits and assertions.

Unified Test Format: Special Test Operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import EntityKind, Feature
from harness.unified.arguments import arguments
from harness.unified.creation import create_entity
from harness.unified.errors import ScenarioError
from harness.unified.event_matcher import match_event
from harness.unified.matcher import match_exactly
from harness.unified.observation import checked_out, observed
from harness.unified.operations.spec import OperationSpec, Result
from harness.unified.outcome import CaseFailedError
from harness.unified.schema.events import TOPOLOGY_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.adapters.base import SessionState, TopologyReport
    from harness.unified.entities import Entity
    from harness.unified.operations.spec import Context, Run

PATIENCE: Final = 10.0
"""Seconds after which something awaited counts as not happening."""

_MISSING_COLLECTION: Final = 26


async def _fail_point(context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]) -> None:
    """Set it by the driver's own client, so that the connection taken counts among its events."""
    del entity, name
    client = context.entities.client(given["client"])
    _remember_fail_point(context, given["failPoint"])
    admin = await context.adapter.create(
        EntityKind.DATABASE, client.handle, {"id": "admin", "databaseName": "admin"}
    )
    command = {"command": given["failPoint"], "commandName": "configureFailPoint"}
    await context.adapter.call(admin, EntityKind.DATABASE, "runCommand", command)


async def _targeted_fail_point(
    context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]
) -> None:
    del entity, name
    state = await _session_state(context, given)
    if state.pinned is None:
        raise CaseFailedError(f"session {given['session']!r} is not pinned to a server")
    _remember_fail_point(context, given["failPoint"])
    reply = await context.deployment.admin("admin", given["failPoint"], address=state.pinned)
    if not reply.get("ok"):
        raise ScenarioError(f"the fail point was refused: {reply.get('errmsg')}")


def _remember_fail_point(context: Context, command: Any) -> None:
    if not isinstance(command, dict) or not isinstance(command.get("configureFailPoint"), str):
        raise ScenarioError("failPoint must be a configureFailPoint command")
    context.fail_points.append(command["configureFailPoint"])


async def _session_state(context: Context, given: Mapping[str, Any]) -> SessionState:
    session = context.entities.session(given["session"])
    return await context.adapter.session_state(session.handle)


async def _transaction_state(
    context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]
) -> None:
    _one_of(given, "state", _TRANSACTION_STATES)
    await _in_state(context, entity, name, given)


_TRANSACTION_STATES: Final = ("none", "starting", "in_progress", "committed", "aborted")


def _one_of(given: Mapping[str, Any], name: str, known: Sequence[str]) -> None:
    if given[name] not in known:
        raise ScenarioError(f"{name} cannot be {given[name]!r}", fix=f"one of {', '.join(known)}")


def _asserts_session(holds: Callable[[SessionState, Mapping[str, Any]], bool], what: str) -> Run:
    """Return an operation that asserts a state of a session."""

    async def run(context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]) -> None:
        del entity, name
        state = await _session_state(context, given)
        if not holds(state, given):
            wanted = what.format(**given)
            raise CaseFailedError(f"session {given['session']!r} is expected to be {wanted}; it is {state}")

    return run


_in_state: Final = _asserts_session(
    lambda state, given: state.transaction == given["state"], "in state {state}"
)


async def _check_lsids(context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]) -> None:
    del entity
    events = [
        event
        for event in observed(context.entities.client(given["client"]))
        if event.kind == "commandStartedEvent"
    ]
    lsids = [event.fields["command"].get("lsid") for event in events[-2:]]
    if len(lsids) < 2 or None in lsids:  # noqa: PLR2004  # the last two commands
        raise CaseFailedError(f"expected two commands with an lsid, the last have {lsids}")
    same = match_exactly(lsids[0], lsids[1]) is None
    if same != (name == "assertSameLsidOnLastTwoCommands"):
        raise CaseFailedError(f"the lsids of the last two commands are {'the same' if same else 'different'}")


async def _has_collection(context: Context, given: Mapping[str, Any]) -> bool:
    command = {"listCollections": 1, "filter": {"name": given["collectionName"]}, "nameOnly": True}
    reply = await context.deployment.admin(given["databaseName"], command)
    return bool(_first_batch(reply))


async def _has_index(context: Context, given: Mapping[str, Any]) -> bool:
    reply = await context.deployment.admin(given["databaseName"], {"listIndexes": given["collectionName"]})
    if reply.get("code") == _MISSING_COLLECTION:
        return False
    return any(index["name"] == given["indexName"] for index in _first_batch(reply))


def _first_batch(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not reply.get("ok"):
        raise ScenarioError(f"the server refused to list: {reply.get('errmsg')}")
    batch: list[dict[str, Any]] = reply["cursor"]["firstBatch"]
    return batch


def _asserts_namespace(test: Callable[..., Any], field: str, *, there: bool) -> Run:
    """Return an operation that asserts that a collection or an index exists, or that it does not."""

    async def run(context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]) -> None:
        del entity, name
        if await test(context, given) != there:
            where = f"{given['databaseName']}.{given['collectionName']}"
            wanted = "to exist" if there else "not to exist"
            raise CaseFailedError(f"{field} {given[field]!r} ({where}) was expected {wanted}")

    return run


async def _create_entities(
    context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]
) -> None:
    del entity, name
    for spec in given["entities"]:
        await create_entity(context, spec)


async def _connections(context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]) -> None:
    del entity, name
    expected = _integer(given, "connections")
    actual = checked_out(context.entities.client(given["client"]))
    if actual != expected:
        raise CaseFailedError(f"expected {expected} connections checked out, there are {actual}")


async def _run_on_thread(
    context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]
) -> None:
    del entity, name
    thread = context.entities.thread(given["thread"])
    if thread.ended:
        raise ScenarioError(
            f"thread {given['thread']!r} takes no more operations", fix="waitForThread was its last"
        )
    thread.run(lambda: context.execute(context, given["operation"]))


async def _wait_for_thread(
    context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]
) -> None:
    del entity, name
    await end_thread(context, given["thread"])


async def end_thread(context: Context, name: str) -> None:
    """Wait for a thread's last operation. Raises what went wrong on it, or `CaseFailedError` in the end."""
    thread = context.entities.thread(name)
    thread.ended = True
    if not await context.wait_until(lambda: thread.idle, within=PATIENCE):
        raise CaseFailedError(f"thread {name!r} was still running after {PATIENCE:g} s")
    await thread.join()


def _integer(given: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """Return an argument that counts something. Raises `ScenarioError` when it is no integer from 0 on."""
    value = given.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ScenarioError(f"{name} must be an integer from 0 on, is {value!r}")
    return value


def _count(context: Context, given: Mapping[str, Any]) -> int:
    client = context.entities.client(given["client"])
    matching = [match_event(given["event"], event, entities=context.entities) for event in observed(client)]
    return matching.count(None)


async def _wait_for_event(
    context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]
) -> None:
    del entity, name
    wanted, kind = _integer(given, "count"), given["event"].kind
    if not await context.wait_until(lambda: _count(context, given) >= wanted, within=PATIENCE):
        seen = _count(context, given)
        raise CaseFailedError(f"{seen} of {wanted} {kind} were observed within {PATIENCE:g} s")


async def _event_count(context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]) -> None:
    del entity, name
    wanted, seen = _integer(given, "count"), _count(context, given)
    if seen != wanted:
        raise CaseFailedError(f"expected {wanted} {given['event'].kind}, {seen} were observed")


async def _wait(context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]) -> None:
    del entity, name
    clock = context.deployment.clock
    await clock.sleep_until(clock.now() + _integer(given, "ms") / 1000)


async def _record_topology(
    context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]
) -> None:
    del entity, name
    report = await context.adapter.topology(context.entities.client(given["client"]).handle)
    context.entities.add(EntityKind.TOPOLOGY_DESCRIPTION, given["id"], report)


def _topology(context: Context, name: str) -> TopologyReport:
    report: TopologyReport = context.entities.get(EntityKind.TOPOLOGY_DESCRIPTION, name)
    return report


async def _topology_type(
    context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]
) -> None:
    del entity, name
    _one_of(given, "topologyType", TOPOLOGY_TYPES)
    actual = _topology(context, given["topologyDescription"]).type
    if actual != given["topologyType"]:
        raise CaseFailedError(f"expected topology type {given['topologyType']}, it is {actual}")


async def _primary_change(
    context: Context, entity: Entity | None, name: str, given: Mapping[str, Any]
) -> None:
    del entity, name
    clock, handle = context.deployment.clock, context.entities.client(given["client"]).handle
    before = _topology(context, given["priorTopologyDescription"]).primary
    timeout = _integer(given, "timeoutMS", round(PATIENCE * 1000)) / 1000
    deadline = clock.now() + timeout
    while (await context.adapter.topology(handle)).primary in (None, before):
        if clock.now() >= deadline:
            raise CaseFailedError(f"the primary was still {before} after {timeout:g} s")
        await clock.sleep_until(min(clock.now() + 0.01, deadline))


def _row(name: str, run: Run, required: str = "", optional: str = "", *features: Feature) -> OperationSpec:
    return OperationSpec(
        name, (), arguments(required, optional), run, frozenset(features), result=Result.NOTHING
    )


_NAMESPACE: Final = "databaseName collectionName"

TABLE = (
    _row("failPoint", _fail_point, "client failPoint"),
    _row("targetedFailPoint", _targeted_fail_point, "session failPoint"),
    _row("assertSessionDirty", _asserts_session(lambda state, _: state.dirty, "dirty"), "session"),
    _row("assertSessionNotDirty", _asserts_session(lambda state, _: not state.dirty, "not dirty"), "session"),
    _row(
        "assertSessionPinned",
        _asserts_session(lambda state, _: state.pinned is not None, "pinned"),
        "session",
    ),
    _row(
        "assertSessionUnpinned",
        _asserts_session(lambda state, _: state.pinned is None, "unpinned"),
        "session",
    ),
    _row("assertSessionTransactionState", _transaction_state, "session state"),
    _row("assertSameLsidOnLastTwoCommands", _check_lsids, "client"),
    _row("assertDifferentLsidOnLastTwoCommands", _check_lsids, "client"),
    _row(
        "assertCollectionExists",
        _asserts_namespace(_has_collection, "collectionName", there=True),
        _NAMESPACE,
    ),
    _row(
        "assertCollectionNotExists",
        _asserts_namespace(_has_collection, "collectionName", there=False),
        _NAMESPACE,
    ),
    _row(
        "assertIndexExists",
        _asserts_namespace(_has_index, "indexName", there=True),
        f"{_NAMESPACE} indexName",
    ),
    _row(
        "assertIndexNotExists",
        _asserts_namespace(_has_index, "indexName", there=False),
        f"{_NAMESPACE} indexName",
    ),
    _row("createEntities", _create_entities, "entities"),
    _row("assertNumberConnectionsCheckedOut", _connections, "client connections", "", Feature.POOL_EVENTS),
    _row("runOnThread", _run_on_thread, "thread operation"),
    _row("waitForThread", _wait_for_thread, "thread"),
    _row("waitForEvent", _wait_for_event, "client event count"),
    _row("assertEventCount", _event_count, "client event count"),
    _row("wait", _wait, "ms"),
    _row("recordTopologyDescription", _record_topology, "client id", "", Feature.SDAM_EVENTS),
    _row("assertTopologyType", _topology_type, "topologyDescription topologyType"),
    _row(
        "waitForPrimaryChange",
        _primary_change,
        "client priorTopologyDescription",
        "timeoutMS",
        Feature.SDAM_EVENTS,
    ),
)
