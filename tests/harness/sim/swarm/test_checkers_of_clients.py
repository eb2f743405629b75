"""The rules about clients: pools, deadlines, attempts, waits, recovery, and what is left."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from pool_traces import Trace, on_state, traces
from swarm_histories import ADDRESS, heard, op, past, seen, told

from driver import events
from driver.errors import NetworkError, ServerError
from harness.sim.swarm.history import ClientSetup, Heard, Leftover, comment_of, number_of

if TYPE_CHECKING:
    from harness.sim.swarm.history import RunHistory

# --- pools ---

CREATED = events.PoolCreatedEvent(ADDRESS)
READY = events.PoolReadyEvent(ADDRESS)
CLEARED = events.PoolClearedEvent(ADDRESS)
CLOSED = events.PoolClosedEvent(ADDRESS)
ASKED = events.ConnectionCheckOutStartedEvent(ADDRESS)
REFUSED = events.ConnectionCheckOutFailedEvent(ADDRESS, "timeout", 0.1)


def born(number: int) -> events.DriverEvent:
    return events.ConnectionCreatedEvent(ADDRESS, number)


def greeted(number: int) -> events.DriverEvent:
    return events.ConnectionReadyEvent(ADDRESS, number, 0.1)


def lent(number: int) -> events.DriverEvent:
    return events.ConnectionCheckedOutEvent(ADDRESS, number, 0.1)


def back(number: int) -> events.DriverEvent:
    return events.ConnectionCheckedInEvent(ADDRESS, number)


def gone(number: int, reason: str = "stale") -> events.DriverEvent:
    return events.ConnectionClosedEvent(ADDRESS, number, reason)


OPENED = (CREATED, READY, ASKED, born(1), greeted(1), lent(1))


def pool(*series: events.DriverEvent) -> RunHistory:
    """Return a history with events of one pool of at most two connections, one a second."""
    return past(events=heard(*((float(at), event) for at, event in enumerate(series))))


POOLS_HOLD: dict[str, RunHistory] = {
    "a connection that is used twice": pool(*OPENED, back(1), ASKED, lent(1), back(1), gone(1), CLOSED),
    "a clear with a connection in use, which is closed afterwards": pool(
        *OPENED, CLEARED, back(1), gone(1), READY
    ),
    "a clear while a connection is established": pool(
        CREATED, READY, born(1), CLEARED, gone(1), READY, born(2)
    ),
    "a check-out that failed": pool(CREATED, ASKED, REFUSED),
    "a connection that is closed after its pool": pool(*OPENED, CLOSED, back(1), gone(1)),
    "a server that came back": pool(CREATED, CLOSED, CREATED, READY, born(1)),
}

POOLS_BREAK: dict[str, tuple[RunHistory, str]] = {
    "no pool was created": (pool(READY), "poolReady of a pool that is unknown"),
    "a pool is created twice": (pool(CREATED, CREATED), "poolCreated of a pool that is paused"),
    "a pool is ready twice": (pool(CREATED, READY, READY), "poolReady of a pool that is ready"),
    "a paused pool is cleared": (pool(CREATED, CLEARED), "poolCleared of a pool that is paused"),
    "a pool is closed twice": (pool(CREATED, CLOSED, CLOSED), "poolClosed of a pool that is closed"),
    "a paused pool connects": (pool(CREATED, born(1)), "connectionCreated 1 of a pool that is paused"),
    "a connection is used before it is ready": (
        pool(CREATED, READY, ASKED, born(1), lent(1)),
        "connectionCheckedOut of connection 1, which is pending",
    ),
    "a connection is lent to two": (
        pool(*OPENED, ASKED, lent(1)),
        "connectionCheckedOut of connection 1, which is in use",
    ),
    "a connection is given back twice": (
        pool(*OPENED, back(1), back(1)),
        "connectionCheckedIn of connection 1, which is available",
    ),
    "a connection is closed twice": (
        pool(*OPENED, back(1), gone(1), gone(1)),
        "connection 1, which is closed",
    ),
    "a connection is closed in use": (pool(*OPENED, gone(1)), "connection 1, which is in use"),
    "a stale connection is lent": (
        pool(*OPENED, back(1), CLEARED, READY, ASKED, lent(1)),
        "connection 1 was checked out after the clear that made it stale",
    ),
    "a paused pool lends": (
        pool(CREATED, READY, CLEARED, ASKED, born(1), greeted(1), lent(1)),
        "connectionCheckedOut 1 of a pool that is paused",
    ),
    "more connections than maxPoolSize": (
        pool(CREATED, READY, *(each(number) for number in (1, 2, 3) for each in (born, greeted))),
        "3 connections, 2 allowed",
    ),
    "more connections in the making than maxConnecting": (
        pool(CREATED, READY, born(1), born(2), born(3)),
        "3 connections are established at once, 2 allowed",
    ),
    "a check-out ends that did not begin": (pool(CREATED, REFUSED), "without a check-out that had started"),
    "a check-out never ends": (pool(CREATED, READY, ASKED, CLOSED), "1 check-outs never ended"),
    "a connection stays after its pool": (
        pool(*OPENED, CLOSED),
        "connection 1 is in use though the pool was",
    ),
}


@pytest.mark.parametrize("history", POOLS_HOLD.values(), ids=POOLS_HOLD)
def test_the_grammar_of_pools_allows(history: RunHistory) -> None:
    assert told("pools", history) == []


@pytest.mark.parametrize(("history", "text"), POOLS_BREAK.values(), ids=POOLS_BREAK)
def test_the_grammar_of_pools_is_broken_where(history: RunHistory, text: str) -> None:
    assert any(text in each for each in told("pools", history)), told("pools", history)


def test_each_client_and_server_has_a_pool_of_its_own() -> None:
    other = events.PoolCreatedEvent("node1:1")
    clients = tuple(ClientSetup(number=number, edition="2026-02-20") for number in (1, 2))
    both = heard((0.0, CREATED), (0.0, other)) + heard((0.0, CREATED), client=2)
    assert told("pools", past(clients=clients, events=both)) == []


@pytest.mark.slow
@given(traces())
@settings(max_examples=15)
def test_what_the_driver_s_pool_tells_keeps_to_the_grammar(trace: Trace) -> None:
    client = ClientSetup(number=1, edition="2026-02-20", max_pool_size=trace.max_size)
    lived = tuple(Heard(at, 1, _event(kind, number)) for at, kind, number, _ in on_state(trace))
    assert told("pools", past(clients=(client,), events=lived)) == []


def _event(kind: str, number: int | None) -> events.DriverEvent:
    kind_of: Any = KINDS[f"{kind}Event"]
    values: dict[str, Any] = {"address": ADDRESS, "connection_id": number, "reason": "", "duration": 0.0}
    event: events.DriverEvent = kind_of(
        **{name: values[name] for name in values.keys() & set(kind_of.__match_args__)}
    )
    return event


KINDS = {each.kind: each for name, each in vars(events).items() if name.endswith("Event")}


# --- deadlines, recovery, what is left ---

OTHERS_HOLD: dict[str, tuple[str, RunHistory]] = {
    "an operation without a deadline": ("deadlines", past(op(1))),
    "an operation that returned at its deadline": ("deadlines", past(op(1, deadline=1.5))),
    "a transaction that was aborted after its deadline": (
        "deadlines",
        past(op(1, "mark", "", argument=(), deadline=1.3, outcome="failed")),
    ),
    "a cursor that was closed in a transaction that was aborted after its deadline": (
        "deadlines",
        past(op(1, "read_accounts", "", result={}, deadline=1.2)),
    ),
    "an operation that failed while a fault lasted": (
        "recovery",
        past(op(1, outcome="failed"), calm_from=5.0, recovery=1.0),
    ),
    "an operation that failed soon after a fault": (
        "recovery",
        past(op(6, outcome="failed"), calm_from=5.5, recovery=1.0),
    ),
    "an unacknowledged write": ("recovery", past(op(9, outcome="unknown"), calm_from=5.0, recovery=1.0)),
}

OTHERS_BREAK: dict[str, tuple[str, RunHistory, str]] = {
    "an operation outlived its deadline": (
        "deadlines",
        past(op(1, deadline=1.4)),
        "returned 0.100 s after its",
    ),
    "a transaction outlived its deadline twice": (
        "deadlines",
        past(op(1, "mark", "", argument=(), deadline=1.2)),
        "returned 0.300 s after its deadline",
    ),
    "an operation never returned": ("deadlines", past(op(1, completed=inf)), "push 1 never returned"),
    "an operation failed long after the last fault": (
        "recovery",
        past(op(9, outcome="failed", error="no server"), calm_from=5.0, recovery=1.0),
        "push 9 failed 4.000 s after the last fault, where 1 s are allowed: no server",
    ),
    "a task is left": (
        "leftovers",
        past(leftovers=(Leftover("task", "monitor of node0"),)),
        "a task still runs: monitor of node0",
    ),
}


@pytest.mark.parametrize(("name", "history"), OTHERS_HOLD.values(), ids=OTHERS_HOLD)
def test_a_rule_of_clients_holds_for(name: str, history: RunHistory) -> None:
    assert told(name, history) == []


@pytest.mark.parametrize(("name", "history", "text"), OTHERS_BREAK.values(), ids=OTHERS_BREAK)
def test_a_rule_of_clients_is_broken_where(name: str, history: RunHistory, text: str) -> None:
    assert any(text in each for each in told(name, history)), told(name, history)


# --- attempts ---

OVERLOAD: dict[str, Any] = {"ok": 0, "code": 462, "errorLabels": ["SystemOverloadedError", "RetryableError"]}
OK: dict[str, Any] = {"ok": 1}
TXN: dict[str, Any] = {"lsid": {"id": b"s"}, "txnNumber": 1, "autocommit": False}


def tries(
    times: int, reply: dict[str, Any] | None = None, name: str = "update", comment: Any = 1, **more: Any
) -> Any:
    return tuple(seen(1 + at / 10, name, comment, reply, **more) for at in range(times))


def client(edition: str = "2026-02-20", **options: Any) -> dict[str, Any]:
    return {"clients": (ClientSetup(number=1, edition=edition, **options),)}


REFUSED_IN_1 = heard((1.0, REFUSED, 1))
MARK = op(1, "mark", "", argument=("list:1", "list:2"))

ATTEMPTS_HOLD: dict[str, RunHistory] = {
    "one retry": past(op(1), requests=tries(2)),
    "five retries of an overload in one edition": past(op(1), requests=tries(6, OVERLOAD)),
    "two retries of an overload in the other": past(
        op(1), requests=tries(3, OVERLOAD), **client("2026-07-08")
    ),
    "as many retries of an overload as the client asked for": past(
        op(1), requests=tries(9, OVERLOAD), **client("2026-07-08", max_adaptive_retries=8)
    ),
    "any number of retries with timeoutMS": past(op(1, deadline=3.0), requests=tries(20)),
    "retries after check-outs that failed": past(op(1), requests=tries(4), events=REFUSED_IN_1),
    "a cursor's many getMores": past(op(1, "read_list", result=()), requests=tries(9, OK, "getMore")),
    "two updates in each of two transactions": past(
        MARK,
        requests=tuple(
            seen(1.0, "update", comment_of(1, step), OK, **TXN | {"txnNumber": number})
            for step in (1, 2)
            for number in (1, 2)
        ),
    ),
    "another's requests": past(op(1), requests=tries(9, comment=None) + tries(9, comment=44)),
}

ATTEMPTS_BREAK: dict[str, tuple[RunHistory, str]] = {
    "two retries": (past(op(1), requests=tries(3)), "was attempted 3 times, 2 allowed by 2026-02-20"),
    "six retries of an overload": (past(op(1), requests=tries(7, OVERLOAD)), "7 times, 6 allowed"),
    "three retries of an overload in the edition of two": (
        past(op(1), requests=tries(4, OVERLOAD), **client("2026-07-08")),
        "4 times, 3 allowed by 2026-07-08",
    ),
    "more retries of an overload than the client asked for": (
        past(op(1), requests=tries(2, OVERLOAD), **client("2026-07-08", max_adaptive_retries=0)),
        "2 times, 1 allowed",
    ),
    "overload retries without end with timeoutMS": (
        past(op(1, deadline=9.0), requests=tries(7, OVERLOAD)),
        "7 times, 6 allowed",
    ),
    "a retry without retryWrites": (
        past(op(1), requests=tries(2), **client(retry_writes=False)),
        "2 times, 1",
    ),
    "a retry without retryReads": (
        past(op(1, "read_list", result=()), requests=tries(2, name="find"), **client(retry_reads=False)),
        "find of operation 1 (read_list) was attempted 2 times, 1 allowed",
    ),
    "a retry within a transaction": (
        past(MARK, requests=tries(2, comment=comment_of(1, 1), **TXN)),
        "update of operation 1 (mark) was attempted 2 times, 1 allowed",
    ),
    "three aborts of a transaction": (
        past(
            MARK,
            requests=(
                *tries(1, OK, comment=comment_of(1, 1), **TXN),
                *tries(3, name="abortTransaction", comment=None, **TXN),
            ),
        ),
        "abortTransaction of operation 1 (mark) was attempted 3 times, 2 allowed",
    ),
}


@pytest.mark.parametrize("history", ATTEMPTS_HOLD.values(), ids=ATTEMPTS_HOLD)
def test_editions_allow(history: RunHistory) -> None:
    assert told("attempts", history) == []


@pytest.mark.parametrize(("history", "text"), ATTEMPTS_BREAK.values(), ids=ATTEMPTS_BREAK)
def test_editions_do_not_allow(history: RunHistory, text: str) -> None:
    assert any(text in each for each in told("attempts", history)), told("attempts", history)


def test_a_comment_tells_whose_command_it_is() -> None:
    comments = (comment_of(5), comment_of(5, 2), "of somebody else", None)
    assert [number_of(comment) for comment in comments] == [5, 5, None, None]


# --- waits ---


def command(kind: type[events.CommandEvent], **more: Any) -> events.DriverEvent:
    return kind("update", "d", 1, 1, ADDRESS, 1, 1, None, **more)


STARTED = command(events.CommandStartedEvent)
SUCCEEDED = command(events.CommandSucceededEvent, reply=OK)
LOST = command(events.CommandFailedEvent, failure=NetworkError("lost"))
OVERLOADED = command(
    events.CommandFailedEvent, failure=ServerError("busy", labels=OVERLOAD["errorLabels"], response=OVERLOAD)
)
ADVISED = command(
    events.CommandFailedEvent,
    failure=ServerError("busy", labels=OVERLOAD["errorLabels"], response=OVERLOAD | {"baseBackoffMS": 1000}),
)
NOT_GREETED = events.ConnectionCheckOutFailedEvent(
    ADDRESS, "connectionError", 0.1, NetworkError("lost", labels=OVERLOAD["errorLabels"])
)
CONCERN = command(events.CommandSucceededEvent, reply=OK | {"writeConcernError": {"code": 91}})
NEWS = events.ServerHeartbeatSucceededEvent(ADDRESS, awaited=True, duration=0.1, reply={})


def waits(*series: tuple[float, events.DriverEvent], kind: Any = "push", **more: Any) -> RunHistory:
    return past(op(1, kind, argument=("list:1",)), events=heard(*((*each, 1) for each in series)), **more)


FIRST = ((1.0, ASKED), (1.0, STARTED))

WAITS_HOLD: dict[str, RunHistory] = {
    "a retry at once": waits(*FIRST, (1.5, LOST), (1.5, ASKED), (1.5, STARTED)),
    "a retry after a failed check-out": waits((1.0, ASKED), (1.5, REFUSED), (1.5, ASKED)),
    "a backoff within its bound": waits(*FIRST, (1.5, OVERLOADED), (1.6, ASKED), (1.6, STARTED)),
    "backoffs that grow": waits(*FIRST, (1.5, LOST), (1.5, ASKED), (2.0, OVERLOADED), (2.2, ASKED)),
    "a longer backoff that the server asked for": waits(
        *FIRST, (1.5, ADVISED), (3.5, ASKED), **client("2026-07-08")
    ),
    "an overload after a write concern error": waits(
        *FIRST, (1.5, CONCERN), (1.5, ASKED), (2.0, OVERLOADED), (2.2, ASKED)
    ),
    "an overload after a check-out whose end another operation told": waits(
        (1.0, ASKED), (1.5, ASKED), (1.5, STARTED), (2.0, OVERLOADED), (2.2, ASKED)
    ),
    "another operation's failed check-out": waits(*FIRST, (1.2, REFUSED), (1.5, OVERLOADED), (1.6, ASKED)),
    "another operation's failed check-out before the own one": waits(
        (1.0, ASKED), (1.1, REFUSED), (1.5, STARTED), (1.6, SUCCEEDED), (2.0, ASKED)
    ),
    "another operation's failed check-out within a backoff": waits(
        (1.0, ASKED), (1.5, NOT_GREETED), (1.55, REFUSED), (1.6, ASKED)
    ),
    "a command after one that succeeded": waits(*FIRST, (2.0, SUCCEEDED), (9.0, ASKED)),
    "a wait for a connection": waits(*FIRST, (1.5, LOST), (1.5, ASKED), (9.0, STARTED)),
    "a wait for a server": waits(*FIRST, (1.5, LOST), (4.0, NEWS), (4.0, ASKED)),
    "a wait before a transaction runs again": waits(*FIRST, (1.5, LOST), (2.0, ASKED), kind="mark"),
}

WAITS_BREAK: dict[str, tuple[RunHistory, str]] = {
    "a retry waited without an overload": (
        waits(*FIRST, (1.5, LOST), (1.7, ASKED)),
        "retry 1 of operation 1 (push) began 0.200 s after the failure, 0 s allowed",
    ),
    "a backoff was too long": (
        waits(*FIRST, (1.5, OVERLOADED), (1.7, ASKED)),
        "began 0.200 s after the failure, 0.1 s allowed",
    ),
    "a second backoff was too long": (
        waits(*FIRST, (1.1, OVERLOADED), (1.2, ASKED), (1.2, STARTED), (1.5, OVERLOADED), (1.8, ASKED)),
        "retry 2 of operation 1 (push) began 0.300 s after the failure, 0.2 s allowed",
    ),
    "advice was taken by the edition without it": (
        waits(*FIRST, (1.5, ADVISED), (2.4, ASKED)),
        "began 0.900 s after the failure, 0.1 s allowed",
    ),
    "news came before the backoff ended, and not after": (
        waits(*FIRST, (1.5, OVERLOADED), (1.55, NEWS), (1.9, ASKED)),
        "began 0.400 s",
    ),
}


@pytest.mark.parametrize("history", WAITS_HOLD.values(), ids=WAITS_HOLD)
def test_there_may_be(history: RunHistory) -> None:
    assert told("waits", history) == []


@pytest.mark.parametrize(("history", "text"), WAITS_BREAK.values(), ids=WAITS_BREAK)
def test_a_wait_was_longer_than_its_bound_where(history: RunHistory, text: str) -> None:
    assert any(text in each for each in told("waits", history)), told("waits", history)
