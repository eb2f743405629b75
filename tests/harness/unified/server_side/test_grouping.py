"""Which operation of the scenario sent a request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from seen import request

from harness.unified.account import PerformedOperation
from harness.unified.model import Operation
from harness.unified.server_side.grouping import by_operation
from mongowire.documents.marks import Location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.unified.server_side.seen import SeenRequest

ANY = Location(Path("case.yml"))


def operation(name: str = "find", target: str = "collection0", **arguments: Any) -> Operation:
    return Operation(name, target, arguments, ANY)


def step(of: Operation, began: int, ended: int | None) -> PerformedOperation:
    return PerformedOperation(of, 0.0, None if ended is None else 0.0, began, ended or 0)


def names(
    sent: Sequence[tuple[int, bytes | None]], steps: Sequence[PerformedOperation], *operations: Operation
) -> list[tuple[str, list[int]]]:
    requests = [
        request(seq=seq, connection=9, command={"lsid": None if lsid is None else {"id": lsid}})
        for seq, lsid in sent
    ]
    found = by_operation(requests, steps, operations or [each.operation for each in steps])
    return [(each.operation.name, [request.seq for request in of_step]) for each, of_step in found]


def test_what_is_sent_while_an_operation_runs_is_its_own() -> None:
    first, second = operation("find"), operation("insertOne")
    sent = [(2, b"a"), (3, b"a"), (7, b"a")]
    assert names(sent, [step(first, 1, 4), step(second, 6, 9)]) == [("find", [2, 3]), ("insertOne", [7])]


def test_what_is_sent_while_none_runs_belongs_to_none() -> None:
    assert names([(5, b"a"), (12, b"a")], [step(operation(), 1, 4), step(operation(), 6, 9)]) == []


def test_an_operation_that_has_not_ended_goes_on_to_the_end() -> None:
    assert names([(2, b"a"), (99, b"a")], [step(operation(), 1, None)]) == [("find", [2, 99])]


def test_what_a_callback_sends_belongs_to_its_transaction() -> None:
    inner = operation("insertOne")
    outer = operation("withTransaction", "session0", callback=(inner,))
    steps = [step(outer, 1, 20), step(inner, 2, 5), step(inner, 8, 11)]
    assert names([(3, b"a"), (6, b"a"), (9, b"a")], steps, outer) == [("withTransaction", [3, 6, 9])]


def test_operations_at_once_have_the_requests_that_fit_them() -> None:
    first, second = operation(comment="a"), operation(comment="b")
    steps = [step(first, 1, 9), step(second, 2, 9)]
    sent = [request(seq=seq, connection=seq, command={"comment": comment}) for seq, comment in SENT]

    def fits(of: Operation, seen: SeenRequest) -> bool:
        return bool(of.arguments["comment"] == seen.command["comment"])

    found = by_operation(sent, steps, [first, second], fits=fits)
    assert [(of.operation, [each.seq for each in seen]) for of, seen in found] == [
        (second, [3, 5]),
        (first, [4]),
    ]


SENT = ((3, "b"), (4, "a"), (5, "b"))


def test_each_turn_of_a_loop_is_an_operation_of_its_own() -> None:
    inner = operation("find")
    outer = operation("loop", "testRunner", operations=(inner,))
    steps = [step(outer, 1, 20), step(inner, 2, 5), step(inner, 8, 11)]
    assert names([(3, b"a"), (4, b"a"), (9, b"a")], steps, outer) == [("find", [3, 4]), ("find", [9])]


def test_operations_at_one_time_are_told_apart_by_their_sessions() -> None:
    steps = [step(operation("find"), 1, 20), step(operation("count"), 2, 19)]
    sent = [(3, b"a"), (4, b"b"), (5, b"b"), (6, b"a")]
    assert names(sent, steps) == [("find", [3, 6]), ("count", [4, 5])]


def test_a_session_that_another_operation_uses_later_is_with_that_one() -> None:
    steps = [
        step(operation("find"), 1, 5),
        step(operation("count"), 2, 19),
        step(operation("insertOne"), 6, 19),
    ]
    sent = [(3, b"a"), (4, b"b"), (7, b"a"), (8, b"b")]
    assert names(sent, steps) == [("find", [3]), ("count", [4, 8]), ("insertOne", [7])]


def test_commands_without_a_session_are_told_apart_by_their_connections() -> None:
    steps = [step(operation("find"), 1, 20), step(operation("count"), 2, 19)]
    requests = [request(seq=3 + n, connection=n % 2, command={"lsid": None}) for n in range(4)]
    found = by_operation(requests, steps, [each.operation for each in steps])
    assert [[each.connection for each in sent] for _, sent in found] == [[0, 0], [1, 1]]


def test_the_application_name_says_whose_an_operation_is() -> None:
    steps = [step(operation("find", "a"), 1, 20), step(operation("count", "b"), 2, 19)]
    sent = request(seq=3, app_name="b")
    ((found, _),) = by_operation([sent], steps, [], lambda each: each.object)
    assert found.operation.name == "count"


def test_waiting_for_a_thread_sends_nothing_itself() -> None:
    steps = [step(operation("waitForThread", "testRunner"), 1, 20), step(operation("find"), 2, 19)]
    assert names([(3, b"a")], steps) == [("find", [3])]


def test_what_only_the_runner_can_have_sent_is_the_runners() -> None:
    assert names([(3, b"a")], [step(operation("failPoint", "testRunner"), 1, 20)]) == [("failPoint", [3])]
