"""The rules about data: each holds for what is right, and names what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from swarm_histories import ACCOUNTS, op, past, told

from harness.sim.swarm.checkers import CHECKERS, violations
from harness.sim.swarm.history import StreamEvent, WatchedStream

if TYPE_CHECKING:
    from harness.sim.swarm.history import RunHistory, WorkloadOperation

LIST = "list:1"
FAILED: dict[str, Any] = {"outcome": "failed", "error": "lost"}
NOT_WRITTEN = FAILED | {"labels": frozenset({"NoWritesPerformed"})}
CAUSAL: dict[str, Any] = {"session": 7, "causal": True, "read_preference": "secondary"}


def mark(number: int, **more: Any) -> WorkloadOperation:
    return op(number, "mark", "", argument=("list:1", "list:2"), **more)


def transfer(number: int, **more: Any) -> WorkloadOperation:
    return op(number, "transfer", "list:9", argument=(*ACCOUNTS, 5), **more)


def read(number: int, *result: int, key: str = LIST, **more: Any) -> WorkloadOperation:
    return op(number, "read_list", key, result=result, **more)


def stream(*events: tuple[int, str], drained: bool = True, opened: float = 0.0) -> dict[str, Any]:
    returned = tuple(StreamEvent(50.0 + place, *event) for place, event in enumerate(events))
    return {"streams": (WatchedStream(number=3, client=1, opened=opened, events=returned, drained=drained),)}


HOLDS: dict[str, tuple[str, RunHistory]] = {
    "each kind of write, acknowledged and there": (
        "acknowledged",
        past(
            op(1, "insert", "document:1"),
            op(2),
            op(3, "increment", "counter:1", argument=4),
            op(4, "write", "register:1"),
            op(5, "swap", "register:1", result=4),
            mark(6),
            transfer(7),
        ),
    ),
    "an insert that was deleted": (
        "acknowledged",
        past(op(1, "insert", "document:1"), op(2, "delete", "document:1")),
    ),
    "an insert that failed, and came after its deletion": (
        "acknowledged",
        past(
            op(1, "insert", "document:1", **FAILED),
            op(2, "delete", "document:1"),
            documents={"node0": {"document:1": 1}},
        ),
    ),
    "a write that failed and is there": ("failed", past(op(1, **FAILED), log=[(1, LIST)])),
    "a write that failed and is not there": ("failed", past(op(1, **FAILED))),
    "a write of an unknown outcome that is there": (
        "failed",
        past(op(1, outcome="unknown"), log=[(1, LIST)]),
    ),
    "a mark in both lists, and one in none": ("transactions", past(mark(1), mark(2, **FAILED))),
    "transfers and the balances that they give": ("transactions", past(transfer(1), transfer(2, **FAILED))),
    "a snapshot between transfers": (
        "transactions",
        past(op(1, "read_accounts", "", result={"account:1": 95, "account:2": 105})),
    ),
    "the same documents on all members": ("members", past(op(1))),
    "reads of beginnings of a list": ("reads", past(op(1), op(2), read(3), read(4, 1), read(5, 1, 2))),
    "a read of a register that nobody wrote": ("reads", past(op(1, "read", "register:1"))),
    "a stale read of a session without causal consistency": (
        "sessions",
        past(op(1, session=7), read(2, session=7)),
    ),
    "a stale read of another session": (
        "sessions",
        past(op(1, **CAUSAL), read(2, **CAUSAL | {"session": 8})),
    ),
    "a session that sees ever more": (
        "sessions",
        past(op(1, **CAUSAL), read(2, 1, **CAUSAL), op(3), read(4, 1, 3, **CAUSAL)),
    ),
    "a stale read of what an operation that failed may have written": (
        "sessions",
        past(op(1, **CAUSAL, **FAILED), read(2, **CAUSAL), log=[(1, LIST)]),
    ),
    "a stream that returned all": ("streams", past(op(1), op(2), **stream((1, LIST), (2, LIST)))),
    "a stream that was opened after a write": (
        "streams",
        past(op(1), op(2), **stream((2, LIST), opened=1.6)),
    ),
    "a stream that ended before the last event": (
        "streams",
        past(op(1), op(2), **stream((1, LIST), drained=False)),
    ),
}

BREAKS: dict[str, tuple[str, RunHistory, str]] = {
    "an acknowledged write is missing": ("acknowledged", past(op(1), log=[]), "is missing in node0"),
    "an acknowledged write was applied twice": (
        "acknowledged",
        past(op(1), log=[(1, LIST), (1, LIST)]),
        "is there 2 times in node0",
    ),
    "an acknowledged write is missing on one member": (
        "acknowledged",
        past(op(1), documents={"node1": {LIST: ()}}),
        "is missing in node1",
    ),
    "an increment was applied twice": (
        "acknowledged",
        past(op(1, "increment", "counter:1", argument=1), log=[(1, "counter:1")] * 2),
        "is there 2 times in the log",
    ),
    "a counter is not the sum of the log": (
        "acknowledged",
        past(op(1, "increment", "counter:1", argument=1), documents={"node0": {"counter:1": 2}}),
        "counter:1 is 2 on node0, and 1 by the log",
    ),
    "a register is not what was written last": (
        "acknowledged",
        past(
            op(1, "write", "register:1"),
            op(2, "write", "register:1"),
            documents={"node1": {"register:1": 1}},
        ),
        "register:1 is 1 on node1, and 2 by the log",
    ),
    "a deleted document is there again": (
        "acknowledged",
        past(
            op(1, "insert", "document:1"),
            op(2, "delete", "document:1"),
            documents={"node0": {"document:1": 1}},
        ),
        "was deleted by operation 2 and is there on node0",
    ),
    "a write that failed was applied twice": (
        "failed",
        past(op(1, **FAILED), log=[(1, LIST), (1, LIST)]),
        "push 1 of list:1 failed and is there 2 times",
    ),
    "a write of an unknown outcome was applied twice": (
        "failed",
        past(op(1, outcome="unknown"), log=[(1, LIST), (1, LIST)]),
        "had an unknown outcome and is there 2 times",
    ),
    "a write whose error says that nothing was written is there": (
        "failed",
        past(op(1, **NOT_WRITTEN), log=[(1, LIST)]),
        "failed with NoWritesPerformed and is there 1 times",
    ),
    "something is there that nobody wrote": (
        "failed",
        past(log=[(9, LIST)]),
        "has 9 on node0, which no operation",
    ),
    "half of a transaction was applied": (
        "transactions",
        past(mark(1, **FAILED), log=[(1, "list:1")]),
        "transaction 1 is in list:1 on node0, and not in list:2",
    ),
    "a transfer is in its list and not in the balances": (
        "transactions",
        past(transfer(1), documents={"node0": {"account:1": 100}}),
        "account:1 has 100 on node0, and 95 by the transfers",
    ),
    "a transfer is in the balances and not in its list": (
        "transactions",
        past(transfer(1, **FAILED), documents={"node0": {"account:2": 105}}),
        "account:2 has 105 on node0, and 100 by the transfers",
    ),
    "a snapshot saw half of a transfer": (
        "transactions",
        past(op(1, "read_accounts", "", result={"account:1": 95, "account:2": 100})),
        "sums up to 195 instead of 200",
    ),
    "a member has other documents": (
        "members",
        past(op(1), documents={"node1": {LIST: ()}}),
        "list:1 is () on node1, and (1,) on node0",
    ),
    "a read skipped a write": ("reads", past(op(1), op(2), read(3, 2)), "is no beginning of [1, 2]"),
    "a read returned what was never committed": ("reads", past(read(1, 5)), "returned [5]"),
    "a read of a register returned what was never written": (
        "reads",
        past(op(1, "read", "register:1", result=5)),
        "returned 5, which was not written",
    ),
    "a session did not read its write": (
        "sessions",
        past(op(1, **CAUSAL), read(2, **CAUSAL)),
        "saw 0 of its writes (read your writes: 1 since operation 1)",
    ),
    "a session did not read its write to a register": (
        "sessions",
        past(op(1, "write", "register:1", **CAUSAL), op(2, "read", "register:1", **CAUSAL)),
        "read your writes: 1 since operation 1",
    ),
    "a session read an older version after a newer one": (
        "sessions",
        past(op(1), read(2, 1, **CAUSAL), read(3, **CAUSAL)),
        "saw 0 of its writes (monotonic reads: 1 since operation 2)",
    ),
    "a session saw an answer, and not the question": (
        "sessions",
        past(
            op(1),
            read(2, 1, **CAUSAL),
            op(3, key="list:2", **CAUSAL),
            read(4, 3, key="list:2", **CAUSAL | {"session": 8}),
            read(5, **CAUSAL | {"session": 8}),
        ),
        "writes follow reads: 1 since operation 3",
    ),
    "a stream returned an event again": (
        "streams",
        past(op(1), op(2), **stream((1, LIST), (2, LIST), (1, LIST))),
        "by operation 1 again at 52 s",
    ),
    "a stream returned events out of order": (
        "streams",
        past(op(1), op(2), op(3), **stream((1, LIST), (3, LIST), (2, LIST))),
        "by operation 2 out of order",
    ),
    "a stream missed an event": (
        "streams",
        past(op(1), op(2), op(3), **stream((1, LIST), (3, LIST))),
        "missed the write of list:1 by operation 2",
    ),
    "a stream missed the first event": (
        "streams",
        past(op(1), op(2), **stream((2, LIST), drained=False)),
        "missed the write of list:1 by operation 1",
    ),
    "a stream that was drained missed the last event": (
        "streams",
        past(op(1), op(2), **stream((1, LIST))),
        "missed the write of list:1 by operation 2",
    ),
    "a stream returned what nobody has written": (
        "streams",
        past(op(1), **stream((1, LIST), (8, LIST))),
        "by operation 8 that nobody has seen",
    ),
}


@pytest.mark.parametrize(("name", "history"), HOLDS.values(), ids=HOLDS)
def test_a_rule_of_data_holds_for(name: str, history: RunHistory) -> None:
    assert told(name, history) == []


@pytest.mark.parametrize(("name", "history", "text"), BREAKS.values(), ids=BREAKS)
def test_a_rule_of_data_is_broken_where(name: str, history: RunHistory, text: str) -> None:
    assert any(text in each for each in told(name, history)), told(name, history)


def test_a_history_without_operations_breaks_no_rule() -> None:
    assert violations(past()) == ()


def test_a_violation_names_its_rule() -> None:
    lost = violations(past(op(1), log=[]))
    assert {violation.checker for violation in lost} == {"acknowledged"}
    assert str(lost[0]).startswith("acknowledged: push 1 of list:1 was acknowledged at 1.5 s")


def test_every_rule_has_a_sentence() -> None:
    assert all(checker.rule.endswith(".") and name == checker.name for name, checker in CHECKERS.items())
