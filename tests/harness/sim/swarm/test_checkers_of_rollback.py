"""The rules about what a majority has, and about sessions, pins, errors and cursors of several batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from swarm_histories import ADDRESS, heard, op, past, seen, told

from driver import events
from driver.errors import NetworkError, NetworkTimeoutError, ServerError
from harness.sim.swarm.history import (
    DELETION,
    Logged,
    MajorityReached,
    RolledBack,
    RunHistory,
    WorkloadOperation,
)

LIST = "list:1"
ONE: dict[str, Any] = {"write_concern": 1}
MAJORITY: dict[str, Any] = {"write_concern": "majority"}
CAUSAL: dict[str, Any] = {"session": 7, "causal": True}
LSID: dict[str, Any] = {"lsid": {"id": bytes(16)}}


def read(number: int, *result: int, level: str | None = None, **more: Any) -> WorkloadOperation:
    return op(number, "read_list", LIST, result=result, read_concern=level, **more)


def scan(number: int, *keys: str, **more: Any) -> WorkloadOperation:
    return op(number, "scan", LIST, result=tuple((key, ()) for key in keys), **more)


def gone(*writes: tuple[int, str], kept: int = 0) -> dict[str, Any]:
    """Return what a member rolled back, of a history that had two primaries."""
    entries = tuple(Logged(number, key, (kept + place, 0)) for place, (number, key) in enumerate(writes, 1))
    return {"rolled_back": (RolledBack(kept, entries),), "parted": True}


def reached(*positions: tuple[float, int]) -> dict[str, Any]:
    return {"majority": tuple(MajorityReached(at, (count,)) for at, count in positions)}


def started(number: int, request_id: int = 1, **command: Any) -> events.DriverEvent:
    return events.CommandStartedEvent(
        "find", "swarm", request_id, number, ADDRESS, 1, 1, None, command=command
    )


def failed(number: int, failure: Exception, request_id: int = 1) -> events.DriverEvent:
    return events.CommandFailedEvent(
        "find", "swarm", request_id, number, ADDRESS, 1, 1, None, failure=failure
    )


def of_pool(kind: type[events.PoolEvent], *facts: Any) -> events.DriverEvent:
    return kind(ADDRESS, *facts)


def a_lost_connection(*after: events.DriverEvent, error: Exception | None = None) -> RunHistory:
    before = (
        of_pool(events.PoolCreatedEvent),
        of_pool(events.PoolReadyEvent),
        of_pool(events.ConnectionCreatedEvent, 1),
        of_pool(events.ConnectionReadyEvent, 1, 0.1),
        of_pool(events.ConnectionCheckOutStartedEvent),
        of_pool(events.ConnectionCheckedOutEvent, 1, 0.1),
        failed(1, error or NetworkError("lost")),
    )
    back = of_pool(events.ConnectionCheckedInEvent, 1)
    return past(events=heard(*((1.0, each) for each in (*before, *after, back))))


def two_errors(first: Exception, raised: str) -> RunHistory:
    operation = op(1, outcome="failed", error=raised, attempted=raised != SELECTION)
    return past(operation, events=heard((1.0, failed(1, first), 1)))


SELECTION = "ServerSelectionTimeoutError: no server"

HOLDS: dict[str, tuple[str, RunHistory]] = {
    "a write of w: 1 that was rolled back": ("acknowledged", past(op(1, **ONE), log=(), **gone((1, LIST)))),
    "a deletion of w: 1 that was rolled back": (
        "acknowledged",
        past(
            op(1, "insert", "document:1", **MAJORITY),
            op(2, "delete", "document:1", **ONE),
            documents={"node0": {"document:1": 1}, "node1": {"document:1": 1}},
            **gone((DELETION, "document:1"), kept=1),
        ),
    ),
    "a local read of what was rolled back later": (
        "reads",
        past(op(1), op(2, **ONE), read(3, 1, 2), log=[(1, LIST)], **gone((2, LIST), kept=1)),
    ),
    "a majority read of what a majority has": (
        "majority",
        past(op(1), read(2, 1, level="majority"), **reached((0.0, 0), (1.4, 1))),
    ),
    "a local read of more than that": ("majority", past(op(1), read(2, 1), **reached((0.0, 0)))),
    "a majority write that a majority has": ("majority", past(op(1, **MAJORITY), **reached((1.5, 1)))),
    "a write of w: 1 that it has not": ("majority", past(op(1, **ONE), **reached((0.0, 0)))),
    "positions that nobody has noted": ("majority", past(op(1, **MAJORITY))),
    "a causal local read from an old primary": (
        "sessions",
        past(op(1, **CAUSAL, **MAJORITY), read(2, **CAUSAL), parted=True),
    ),
    "all lists, over several batches": ("scans", past(op(1), scan(2, LIST))),
    "a retry in the session that lost a command": (
        "dirty",
        past(
            op(1),
            events=heard(
                (1.0, started(1, **LSID), 1),
                (1.1, failed(1, NetworkError("lost")), 1),
                (1.2, started(1, 2, **LSID), 1),
            ),
        ),
    ),
    "a session of the application that goes on": (
        "dirty",
        past(
            op(1, session=7),
            op(2, session=7),
            events=heard(
                (1.0, started(1, **LSID), 1),
                (1.1, failed(1, NetworkError("x")), 1),
                (1.2, started(2, 2, **LSID), 2),
            ),
        ),
    ),
    "an error of a network that stays": ("errors", two_errors(NetworkError("lost"), "NetworkError: lost")),
    "an error of a selection after a certain one": (
        "errors",
        two_errors(ServerError("no", code=1, labels=["NoWritesPerformed"]), SELECTION),
    ),
    "a pool that was cleared": ("pools", a_lost_connection(of_pool(events.PoolClearedEvent))),
    "a timeout, which clears no pool": ("pools", a_lost_connection(error=NetworkTimeoutError("late"))),
}

BREAKS: dict[str, tuple[str, str, RunHistory]] = {
    "a majority write that was rolled back": (
        "acknowledged",
        "push 1 of list:1 was acknowledged at 1.5 s and is missing in node0",
        past(op(1, **MAJORITY), log=(), **gone((1, LIST))),
    ),
    "a write of w: 1 that is gone, and nobody rolled back": (
        "acknowledged",
        "push 1 of list:1 was acknowledged",
        past(op(1, **ONE), log=(), **gone((2, LIST))),
    ),
    "a majority read of what was rolled back": (
        "reads",
        "read_list 3 of list:1 returned [1, 2], which is no beginning of [1]",
        past(
            op(1), op(2, **ONE), read(3, 1, 2, level="majority"), log=[(1, LIST)], **gone((2, LIST), kept=1)
        ),
    ),
    "a majority read of what no majority had": (
        "majority",
        "read_list 2 of list:1 returned 1 of list:1 at 2.5 s, which no majority had",
        past(op(1), read(2, 1, level="majority"), **reached((0.0, 0), (3.0, 1))),
    ),
    "a majority read of what is gone": (
        "majority",
        "returned 1 of list:1 at 2.5 s, which was rolled back",
        past(op(1, **ONE), read(2, 1, level="majority"), log=(), **reached((0.0, 0)), **gone((1, LIST))),
    ),
    "a majority write that is acknowledged too early": (
        "majority",
        "push 1 of list:1 was acknowledged at 1.5 s, and no majority had it",
        past(op(1, **MAJORITY), **reached((0.0, 0), (1.6, 1))),
    ),
    "a causal majority read from an old primary": (
        "sessions",
        "session 7: read 2 of list:1 saw 0 of its writes (read your writes: 1 since operation 1)",
        past(op(1, **CAUSAL, **MAJORITY), read(2, level="majority", **CAUSAL), parted=True),
    ),
    "a batch that was lost": (
        "scans",
        "scan 3 returned list:1, and there are list:1, list:2",
        past(op(1), op(2, key="list:2"), scan(3, LIST)),
    ),
    "a document twice": ("scans", "scan 2 returned list:1, list:1", past(op(1), scan(2, LIST, LIST))),
    "another operation in the session that lost a command": (
        "dirty",
        "find of operation 2 uses session 00000000000000000000000000000000 at 2 s, in which operation 1 lost",
        past(
            op(1),
            op(2),
            events=heard(
                (1.0, started(1, **LSID), 1),
                (1.1, failed(1, NetworkError("x")), 1),
                (2.0, started(2, 2, **LSID), 2),
            ),
        ),
    ),
    "an error that hides another": (
        "errors",
        "failed with ServerSelectionTimeoutError: no server, which hides NetworkError",
        two_errors(NetworkError("lost"), SELECTION),
    ),
    "a pool that was not cleared": (
        "pools",
        "connection 1 was lost under a command, and the pool was not cleared at 1 s",
        a_lost_connection(),
    ),
}


@pytest.mark.parametrize(("checker", "history"), HOLDS.values(), ids=HOLDS)
def test_what_is_right_holds(checker: str, history: RunHistory) -> None:
    assert told(checker, history) == []


@pytest.mark.parametrize(("checker", "text", "history"), BREAKS.values(), ids=BREAKS)
def test_what_is_wrong_is_named(checker: str, text: str, history: RunHistory) -> None:
    assert any(text in each for each in told(checker, history)), told(checker, history)


def _sent(at: float, server: str, reply: dict[str, Any], **fields: Any) -> Any:

    return replace(seen(at, "update", 1, reply, **fields), server=server)


TXN = {**LSID, "txnNumber": 3, "autocommit": False}


def test_a_transaction_stays_with_its_mongos_until_it_has_met_an_error() -> None:
    stays = (_sent(1.0, "mongos0", {"ok": 1}, **TXN), _sent(1.2, "mongos0", {"ok": 1}, **TXN))
    moves = (stays[0], _sent(1.4, "mongos1", {"ok": 1}, **TXN))
    excused = (_sent(1.0, "mongos0", {"ok": 0}, **TXN), moves[1])
    assert told("pins", past(requests=stays)) == []
    assert told("pins", past(requests=excused)) == []
    assert told("pins", past(requests=moves)) == [
        "update of transaction 3 came to mongos1 at 1.4 s, and update to mongos0"
    ]


def test_a_cursor_stays_with_its_server() -> None:
    opened = _sent(1.0, "node0", {"ok": 1, "cursor": {"id": 9}})
    more = [_sent(2.0, server, {"ok": 1}, getMore=9) for server in ("node0", "node1")]
    assert told("pins", past(requests=(opened, more[0]))) == []
    assert told("pins", past(requests=(opened, more[1]))) == [
        "getMore of cursor 9 came to node1 at 2 s, and the cursor is on node0"
    ]
