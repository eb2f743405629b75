"""Operations of the runner itself (`object: testRunner`): fail points, waits and assertions.

Unified Test Format: Special Test Operations.

Every row is made by `_row` and takes its arguments as they stand in the file: names of entities are looked up
here. Three kinds of failure must be kept apart: an assertion that does not hold is the driver's
(`CaseFailedError`), a value that no assertion has is the scenario's (`ScenarioError`), and what did not come
because a thread could do nothing is a reason to skip (`skipped_on_thread`). What waits, waits on the
deployment's clock for `PATIENCE` at most.
"""

from __future__ import annotations

from math import isclose
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import EntityKind, Feature, Invocation, UnsupportedOperation
from harness.unified.arguments import signature
from harness.unified.creation import create_entity
from harness.unified.errors import ScenarioError
from harness.unified.matching.event_matcher import match_event
from harness.unified.matching.matcher import match_exactly
from harness.unified.observation import checked_out, observed
from harness.unified.operations.spec import OperationSpec, ResultComparison
from harness.unified.outcome import CaseFailedError, CaseSkippedError
from harness.unified.schema.events import SDAM_EVENTS, TOPOLOGY_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.adapters.base import SessionState, TopologyReport
    from harness.unified.operations.spec import Context, Run


PATIENCE: Final = 10.0
"""Seconds after which something awaited counts as not happening."""

_MISSING_COLLECTION: Final = 26


async def _fail_point(context: Context, call: Invocation[Any]) -> None:
    """Set it by the driver's own client, so that the connection taken counts among its events."""
    client = context.entities.client(call.arguments["client"])
    # Noted before it is sent: where the reply is lost, the fail point may be set all the same and must be
    # turned off.
    _remember_fail_point(context, call.arguments["failPoint"])
    admin = await context.adapter.create(
        EntityKind.DATABASE, client.handle, {"id": "admin", "databaseName": "admin"}
    )
    command = {"command": call.arguments["failPoint"], "commandName": "configureFailPoint"}
    await context.adapter.call(Invocation(admin, EntityKind.DATABASE, "runCommand", command))


async def _targeted_fail_point(context: Context, call: Invocation[Any]) -> None:
    """Set a fail point on the mongos to which a session is pinned.

    By the deployment's client and to the address to which the session is pinned: the driver under test would
    choose a mongos by itself.
    """
    state = await _session_state(context, call.arguments)
    if state.pinned is None:
        raise CaseFailedError(f"session {call.arguments['session']!r} is not pinned to a server")
    _remember_fail_point(context, call.arguments["failPoint"])
    reply = await context.deployment.admin("admin", call.arguments["failPoint"], address=state.pinned)
    if not reply.get("ok"):
        raise ScenarioError(f"the fail point was refused: {reply.get('errmsg')}")


def _remember_fail_point(context: Context, command: Any) -> None:
    if not isinstance(command, dict) or not isinstance(command.get("configureFailPoint"), str):
        raise ScenarioError("failPoint must be a configureFailPoint command")
    context.fail_points.append(command["configureFailPoint"])


async def _session_state(context: Context, arguments: Mapping[str, Any]) -> SessionState:
    session = context.entities.session(arguments["session"])
    return await context.adapter.session_state(session.handle)


async def _transaction_state(context: Context, call: Invocation[Any]) -> None:
    _one_of(call.arguments, "state", _TRANSACTION_STATES)
    await _in_state(context, call)


_TRANSACTION_STATES: Final = ("none", "starting", "in_progress", "committed", "aborted")


def _one_of(arguments: Mapping[str, Any], name: str, known: Sequence[str]) -> None:
    if arguments[name] not in known:
        raise ScenarioError(f"{name} cannot be {arguments[name]!r}", fix=f"one of {', '.join(known)}")


def _asserts_session(holds: Callable[[SessionState, Mapping[str, Any]], bool], what: str) -> Run:
    """Return an operation that asserts a state of a session."""

    async def run(context: Context, call: Invocation[Any]) -> None:
        state = await _session_state(context, call.arguments)
        if not holds(state, call.arguments):
            name, wanted = call.arguments["session"], what.format(**call.arguments)
            raise CaseFailedError(f"session {name!r} is expected to be {wanted}; it is {state}")

    return run


_in_state: Final = _asserts_session(
    lambda state, arguments: state.transaction == arguments["state"], "in state {state}"
)


async def _check_lsids(context: Context, call: Invocation[Any]) -> None:
    events = [
        event
        for event in observed(context.entities.client(call.arguments["client"]))
        if event.kind == "commandStartedEvent"
    ]
    lsids = [event.fields["command"].get("lsid") for event in events[-2:]]
    if len(lsids) < 2 or None in lsids:  # noqa: PLR2004  # the last two commands
        raise CaseFailedError(f"expected two commands with an lsid, the last have {lsids}")
    # By value: a driver may report each command with a copy of its lsid.
    same = match_exactly(lsids[0], lsids[1]) is None
    if same != (call.operation == "assertSameLsidOnLastTwoCommands"):
        raise CaseFailedError(f"the lsids of the last two commands are {'the same' if same else 'different'}")


async def _has_collection(context: Context, arguments: Mapping[str, Any]) -> bool:
    command = {"listCollections": 1, "filter": {"name": arguments["collectionName"]}, "nameOnly": True}
    reply = await context.deployment.admin(arguments["databaseName"], command)
    return bool(_first_batch(reply))


async def _has_index(context: Context, arguments: Mapping[str, Any]) -> bool:
    reply = await context.deployment.admin(
        arguments["databaseName"], {"listIndexes": arguments["collectionName"]}
    )
    # A collection that is not there has no index, which is what assertIndexNotExists may be about.
    if reply.get("code") == _MISSING_COLLECTION:
        return False
    return any(index["name"] == arguments["indexName"] for index in _first_batch(reply))


def _first_batch(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not reply.get("ok"):
        raise ScenarioError(f"the server refused to list: {reply.get('errmsg')}")
    batch: list[dict[str, Any]] = reply["cursor"]["firstBatch"]
    return batch


def _asserts_namespace(test: Callable[..., Any], field: str, *, there: bool) -> Run:
    """Return an operation that asserts that a collection or an index exists, or that it does not."""

    async def run(context: Context, call: Invocation[Any]) -> None:
        if await test(context, call.arguments) != there:
            where = f"{call.arguments['databaseName']}.{call.arguments['collectionName']}"
            wanted = "to exist" if there else "not to exist"
            raise CaseFailedError(f"{field} {call.arguments[field]!r} ({where}) was expected {wanted}")

    return run


async def _create_entities(context: Context, call: Invocation[Any]) -> None:
    for spec in call.arguments["entities"]:
        await create_entity(context, spec)


async def _connections(context: Context, call: Invocation[Any]) -> None:
    expected = _integer(call.arguments, "connections")
    actual = checked_out(context.entities.client(call.arguments["client"]))
    if actual != expected:
        raise CaseFailedError(f"expected {expected} connections checked out, there are {actual}")


async def _run_on_thread(context: Context, call: Invocation[Any]) -> None:
    thread = context.entities.thread(call.arguments["thread"])
    if thread.ended:
        raise ScenarioError(
            f"thread {call.arguments['thread']!r} takes no more operations", fix="waitForThread was its last"
        )
    # Started and not awaited; how it ends is told by waitForThread, or at the end of the case.
    thread.run(lambda: context.execute(context, call.arguments["operation"]))


async def _wait_for_thread(context: Context, call: Invocation[Any]) -> None:
    await end_thread(context, call.arguments["thread"])


async def end_thread(context: Context, name: str) -> None:
    """Wait for a thread's last operation. Raises what went wrong on it, or `CaseFailedError` in the end."""
    thread = context.entities.thread(name)
    thread.ended = True
    if not await context.wait_until(lambda: thread.idle, within=PATIENCE):
        raise CaseFailedError(f"thread {name!r} was still running after {PATIENCE:g} s")
    await thread.join()


def skipped_on_thread(context: Context) -> BaseException | None:
    """Return what an operation on a thread needs and the driver lacks: what it would bring will not come."""
    failures = (entity.value.failure for entity in context.entities.of(EntityKind.THREAD))
    return next(
        (each for each in failures if isinstance(each, (CaseSkippedError, UnsupportedOperation))), None
    )


def _integer(arguments: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """Return an argument that counts something. Raises `ScenarioError` when it is no integer from 0 on."""
    value = arguments.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ScenarioError(f"{name} must be an integer from 0 on, is {value!r}")
    return value


def _count(context: Context, arguments: Mapping[str, Any]) -> int:
    client = context.entities.client(arguments["client"])
    matching = [
        match_event(arguments["event"], event, entities=context.entities) for event in observed(client)
    ]
    return matching.count(None)


async def _wait_for_event(context: Context, call: Invocation[Any]) -> None:
    wanted, kind = _integer(call.arguments, "count"), call.arguments["event"].kind

    def is_over() -> bool:
        return _count(context, call.arguments) >= wanted or skipped_on_thread(context) is not None

    # Counted once more after it: the wait also ends where a thread was skipped, and at its deadline.
    await context.wait_until(is_over, within=PATIENCE)
    seen = _count(context, call.arguments)
    if seen < wanted:
        raise CaseFailedError(f"{seen} of {wanted} {kind} were observed within {PATIENCE:g} s")


async def _event_count(context: Context, call: Invocation[Any]) -> None:
    wanted, kind = _integer(call.arguments, "count"), call.arguments["event"].kind
    # Waits for enough and then counts exactly, so that too many are found, too. In virtual time nothing is
    # late.
    if kind in SDAM_EVENTS and context.deployment.network is None:
        await context.wait_until(lambda: _count(context, call.arguments) >= wanted, within=_PUBLISHING)
    seen = _count(context, call.arguments)
    if seen != wanted:
        raise CaseFailedError(f"expected {wanted} {kind}, {seen} were observed")


_PUBLISHING: Final = 1.5
"""Seconds on the wall clock within which a driver publishes what its monitors saw, on a thread of its own.

PyMongo's wakes once a second.
"""


async def _wait(context: Context, call: Invocation[Any]) -> None:
    clock = context.deployment.clock
    await clock.sleep_until(clock.now() + _integer(call.arguments, "ms") / 1000)


async def _record_topology(context: Context, call: Invocation[Any]) -> None:
    report = await context.adapter.topology(context.entities.client(call.arguments["client"]).handle)
    context.entities.add(EntityKind.TOPOLOGY_DESCRIPTION, call.arguments["id"], report)


def _topology(context: Context, name: str) -> TopologyReport:
    report: TopologyReport = context.entities.get(EntityKind.TOPOLOGY_DESCRIPTION, name)
    return report


async def _topology_type(context: Context, call: Invocation[Any]) -> None:
    _one_of(call.arguments, "topologyType", TOPOLOGY_TYPES)
    actual = _topology(context, call.arguments["topologyDescription"]).type
    if actual != call.arguments["topologyType"]:
        raise CaseFailedError(f"expected topology type {call.arguments['topologyType']}, it is {actual}")


async def _primary_change(context: Context, call: Invocation[Any]) -> None:
    clock, handle = context.deployment.clock, context.entities.client(call.arguments["client"]).handle
    before = _topology(context, call.arguments["priorTopologyDescription"]).primary
    timeout = _integer(call.arguments, "timeoutMS", round(PATIENCE * 1000)) / 1000
    deadline = clock.now() + timeout
    # None while there is no primary: only another one is a change.
    while (await context.adapter.topology(handle)).primary in (None, before):
        if clock.now() >= deadline:
            raise CaseFailedError(f"the primary was still {before} after {timeout:g} s")
        # Asked of the adapter, which may be a process of its own: less often than events are looked for.
        await clock.sleep_until(min(clock.now() + 0.01, deadline))


def _row(name: str, run: Run, required: str = "", optional: str = "", *features: Feature) -> OperationSpec:
    return OperationSpec(
        name,
        (EntityKind.TEST_RUNNER,),
        signature(required, optional),
        run,
        frozenset(features),
        result=ResultComparison.NOTHING,
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


# `assertRetryTokens`: the number of tokens in a client's retry token bucket. Our own.
#
# Client Backpressure: Token Bucket. The commands that the runner sends through the client count, too:
# `failPoint` succeeds, and returns 0.1. Null stands for a client without a bucket.


_TOLERANCE: Final = 1e-6
"""Tokens by which sums of 0.1 may differ, whatever type of number a driver counts in."""


async def _assert_retry_tokens(context: Context, call: Invocation[Any]) -> None:
    value = call.arguments["tokens"]
    if value is None:
        expected = None
    elif not isinstance(value, (int, float)) or isinstance(value, bool) or value < 0:
        raise ScenarioError(f"tokens must be a number from 0 on, or null for no token bucket, is {value!r}")
    else:
        expected = value
    name = call.arguments["client"]
    tokens = await context.adapter.retry_tokens(context.entities.client(name).handle)
    # A client with no bucket and one with an empty bucket retry differently, so null and 0 are two
    # expectations.
    if expected is None and tokens is not None:
        raise CaseFailedError(f"expected no token bucket, client {name!r} has one with {tokens:.10g} tokens")
    if expected is None:
        return
    if tokens is None:
        raise CaseFailedError(
            f"expected {expected:g} retry tokens, client {name!r} has no token bucket (adaptiveRetries)"
        )
    if not isclose(tokens, expected, rel_tol=0, abs_tol=_TOLERANCE):
        raise CaseFailedError(f"expected {expected:g} retry tokens, client {name!r} has {tokens:.10g}")


RETRY_TOKENS = (
    OperationSpec(
        "assertRetryTokens",
        (EntityKind.TEST_RUNNER,),
        signature("client tokens"),
        _assert_retry_tokens,
        frozenset({Feature.RETRY_TOKENS}),
        result=ResultComparison.NOTHING,
    ),
)
