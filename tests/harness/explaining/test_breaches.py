"""Rules that what servers saw contradicts: found in a driver that breaks them, and in no other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from seen import LSID, OK, OVERLOADED, request, requests
from written_wire import PLACE, Wire, used

from driver.policy.backpressure import Backoff
from harness.adapters.base import EntityKind, ErrorReport, OperationFailed
from harness.explaining.breaches import breaches
from harness.explaining.seen_case import SeenCase, SeenStep, alone
from harness.planning.discovery import bundled_root
from harness.planning.plan import Settings, load_all, plan
from harness.running.executor import ItemExecutor
from harness.unified.account import PerformedOperation
from harness.unified.model import Case, EntitySpec, Operation
from harness.unified.server_side.attempt import attempts_of
from harness.unified.server_side.rules import EDITIONS, Timing
from harness.unified.server_side.seen import connections_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.explaining.seen_case import Cause
    from harness.unified.server_side.seen import SeenRequest

EDITION = EDITIONS["2026-02-20"]
LABELLED = {"ok": 0, "code": 462, "errorLabels": ["SystemOverloadedError"]}
DUPLICATE = {"ok": 0, "code": 11000}


def insert(at: float, reply: dict[str, Any] | None, *, number: int = 1, **fields: Any) -> SeenRequest:
    command = {"insert": "stock", "$db": "pushbackd", "lsid": LSID, "txnNumber": number}
    return replace(request(at, reply, **fields), command=command)


def step(
    sent: Sequence[SeenRequest], *, fails: bool = True, client: dict[str, Any] | None = None, **arguments: Any
) -> SeenStep:
    """Return an operation with what servers saw of it, by default one that fails."""
    performed = PerformedOperation(Operation("find", "collection0", arguments, PLACE), 0.0, 100.0, 0, 1 << 30)
    performed.error = OperationFailed(ErrorReport("overloaded")) if fails else None
    spec = EntitySpec(EntityKind.CLIENT, "client", client or {"id": "client"}, PLACE)
    return SeenStep(performed, attempts_of(sent, Timing(round_trip=0.0)), spec)


def found(*steps: SeenStep) -> list[tuple[str, tuple[str, ...]]]:
    return [(cause.name, cause.rules) for cause in breaches(SeenCase(EDITION, steps))]


def options(**uri: Any) -> dict[str, Any]:
    return {"id": "client", "uriOptions": uri}


FULL = requests(0.1, 0.2, 0.4, 0.8, 1.6)

BROKEN = {
    "no backoff": (step(requests(0, 0, 0, 0, 0)), "no backoff", ("CB-2",)),
    "one retry at once": (step([*requests(0)[:1], request(0.0)], fails=False), "no backoff", ("CB-2",)),
    "a sixth retry": (
        step(requests(0.1, 0.2, 0.4, 0.8, 1.6, 1.6)),
        "too many retries after overload",
        ("CB-13",),
    ),
    "one label": (
        step([request(0, LABELLED), request(0.1)], fails=False),
        "retries overload without RetryableError",
        ("CB-29",),
    ),
    "an error of the data": (
        step([insert(0, DUPLICATE), insert(0.1, OK)], fails=False),
        "retries what is not retryable",
        ("RW-42",),
    ),
    "reads switched off": (
        step(FULL, client=options(retryReads=False)),
        "retries though switched off",
        ("CB-32",),
    ),
    "writes switched off": (
        step(
            [insert(0, None, end="server", ended=0.1), insert(0.2, OK)],
            client=options(retryWrites=False),
            fails=False,
        ),
        "retries though switched off",
        ("RW-60",),
    ),
    "another number": (
        step([insert(0, None, end="server", ended=0.1), insert(0.2, OK, number=2)], fails=False),
        "a new number for each attempt",
        ("RW-51",),
    ),
    "another number after a write concern error": (
        step(
            [insert(0, {"ok": 1, "writeConcernError": {"code": 91}}), insert(0.1, OK, number=2)], fails=False
        ),
        "a new number for each attempt",
        ("RW-51",),
    ),
    "two retries only": (step(requests(0.1, 0.2)), "gives up after overload", ("CB-36",)),
    "a lost write": (
        step([insert(0, None, end="server", ended=0.1)]),
        "a lost write is not sent again",
        ("RW-24", "RW-26"),
    ),
}


@pytest.mark.parametrize(("wrong", "name", "rules"), BROKEN.values(), ids=BROKEN)
def test_what_a_rule_forbids_is_named_with_the_rule(
    wrong: SeenStep, name: str, rules: tuple[str, ...]
) -> None:
    assert found(wrong) == [(name, rules)]


KEPT = {
    "five retries": step(FULL),
    "a wait that may be chance": step([*requests(0.001)[:2], request(0.2)], fails=False),
    "jitter that the scenario sets to nothing": step(
        requests(0, 0, 0, 0, 0), client={"id": "client", "pushbackd": {"jitter": 0}}
    ),
    "overload that a limit of time ends": step(requests(0.1), timeoutMS=50),
    "an aggregate that writes, without retries of reads": step(
        [
            replace(each, command={"aggregate": "stock", "pipeline": [{"$out": "copy"}]})
            for each in [request(0, OVERLOADED), request(0.1)]
        ],
        client=options(retryReads=False),
        fails=False,
    ),
    "overload without retries": step(requests(), client=options(retryReads=False)),
    "overload within a write concern": step(
        [insert(0, {"ok": 1, "writeConcernError": {"code": 64, **OVERLOADED}})]
    ),
    "another command after an error": step(
        [insert(0, DUPLICATE), request(0.1, command={"find": "stock"})], fails=False
    ),
    "two statements of one bulk write": step(
        [insert(0, {"ok": 1, "writeErrors": [{"code": 11000}]}), insert(0, OK, number=2)], fails=False
    ),
    "a retry with its number": step([insert(0, None, end="server", ended=0.1), insert(0.2, OK)], fails=False),
}


@pytest.mark.parametrize("right", KEPT.values(), ids=KEPT)
def test_what_no_rule_forbids_is_no_breach(right: SeenStep) -> None:
    assert found(right) == []


@pytest.mark.parametrize(
    ("spans", "left"),
    [
        ([(1, 2), (3, 4)], [1, 3]),
        ([(1, 4), (2, 3)], []),
        ([(1, 6), (2, 3), (4, 5), (7, 8)], [7]),
        ([(1, None), (2, 3)], []),
        ([(3, 4), (1, 2)], [1, 3]),
    ],
)
def test_operations_that_overlap_in_time_are_left_out(
    spans: list[tuple[int, int | None]], left: list[int]
) -> None:
    """Which of them sent a request would be a guess."""
    operation = Operation("find", "collection0", {}, PLACE)
    steps = [
        PerformedOperation(operation, began, ended, began_seq=began, ended_seq=ended or 0)
        for began, ended in spans
    ]
    assert [each.began_seq for each, _ in alone([(each, []) for each in steps])] == left


def wire_of_stale(*, anew: bool) -> SeenCase:
    """Return two connections of which one breaks; an operation begins after that, or before, on the other."""
    wire = Wire()
    broken, kept = used(wire), used(wire)
    wire.ask(broken, {"find": "stock"})
    wire.wait(0.1)
    wire.close(broken, "server")
    broke = wire.now
    wire.wait(0.1)
    wire.say(kept, "find")
    began = broke + 0.09 if anew else broke - 0.05
    last = connections_of(wire.entries)[1].requests[-1]
    performed = PerformedOperation(Operation("find", "collection0", {}, PLACE), began, 10.0)
    spec = EntitySpec(EntityKind.CLIENT, "client", options(appName="app"), PLACE)
    later = SeenStep(performed, attempts_of([last], Timing()), spec)
    return SeenCase(EDITION, [later], wire.seen())


def test_a_connection_used_across_a_clear_is_seen_without_events_of_pools() -> None:
    (cause,) = breaches(wire_of_stale(anew=True))
    assert (cause.name, cause.rules) == ("a connection used across a clear", ("CMAP-78", "CMAP-155"))
    assert cause.text.startswith(
        "connection 2 to node0 was used after connection 1 to node0 of the same pool"
    )


def test_an_operation_that_held_its_connection_before_another_broke_may_go_on() -> None:
    assert list(breaches(wire_of_stale(anew=False))) == []


@pytest.mark.parametrize(
    "group",
    [
        *("client-backpressure/which-errors", "client-backpressure/number-of-retries"),
        *("retryable-writes/at-most-once", "retryable-writes/cleared-pools", "retryable-reads/overload"),
    ],
)
def test_the_reference_driver_breaks_no_rule(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, Cause]] = []
    explained: Callable[..., Any] = ItemExecutor._explained

    def spy(
        self: ItemExecutor, result: Any, item: Any, outcome: Any, account: Any, *rest: Any, **named: Any
    ) -> Any:
        if isinstance(item.case(), Case) and account.began is not None:
            seen = SeenCase.of(item.case(), account.steps, named["wire_record"], item.edition)
            said.extend((item.id, cause) for cause in breaches(seen))
            ran.append(item.id)
        return explained(self, result, item, outcome, account, *rest, **named)

    ran: list[str] = []
    monkeypatch.setattr(ItemExecutor, "_explained", spy)
    cases = tuple(load_all([bundled_root() / f"{group}.yml"]).cases)
    with ItemExecutor(Settings(time="virtual")) as executor:
        for item in plan(cases, drivers={"reference": EDITION.name}, topologies=["replicaset"]):
            executor.run(item)
    assert ran
    assert said == []


@pytest.mark.parametrize(
    "case",
    [
        "client-backpressure/backoff::waits are spread evenly between nothing and their bound",
        "client-side-operations-timeout/backoff::a wait that would end after timeoutMS is not begun",
    ],
)
def test_a_missing_backoff_is_called_so(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backoff, "before", lambda *_, **__: 0.0)
    group, _, description = case.partition("::")
    cases = load_all([bundled_root() / f"{group}.yml"]).cases
    chosen = [each for each in cases if each.description == description]
    (item,) = plan(chosen, drivers={"reference": EDITION.name}, topologies=["replicaset"])
    with ItemExecutor(Settings(time="virtual")) as executor:
        result = executor.run(item)
    assert (result.cause, result.rules) == ("no backoff", ("CB-2",))
    assert result.causes[0].endswith("[CB-2]")
