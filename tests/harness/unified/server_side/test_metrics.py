"""`expectMetrics`: which server counts, what changed, what is there at the end, and what is said of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bson import Int64

from harness.adapters.deployment import Topology
from harness.unified.entities import EntityMap
from harness.unified.errors import ScenarioError
from harness.unified.model import UNSET
from harness.unified.server_side.metrics import WrongMetric, judge_metrics, snapshot
from harness.unified.server_side.model import ExpectedMetric, Range
from harness.unified.server_side.seen import StatusSnapshot
from mongowire.documents.marks import Location

if TYPE_CHECKING:
    from collections.abc import Mapping

PLACE = Location(Path("case.yml"), 7)
INSERTS = "opcounters.insert"


def metric(
    path: str = INSERTS, *, on: str | None = None, change: Range | None = None, value: Any = UNSET
) -> ExpectedMetric:
    return ExpectedMetric(path, PLACE, on, change, value)


def taken(primary: str = "node0", **counts: Any) -> StatusSnapshot:
    """Return a snapshot: `node0=3` has 3 inserts, a mapping is a whole reply."""
    replies = {
        name: count if isinstance(count, dict) else {"opcounters": {"insert": count}}
        for name, count in counts.items()
    }
    return StatusSnapshot(primary, replies)


def judged(expected: ExpectedMetric, before: StatusSnapshot, after: StatusSnapshot) -> WrongMetric | None:
    return judge_metrics([expected], before, after, EntityMap())


def exactly(number: float) -> Range:
    return Range(number, number)


BEFORE = taken(node0=10, node1=20)
AFTER = taken(node0=13, node1=20)


@pytest.mark.parametrize(
    "expected",
    [
        metric(change=exactly(3)),
        metric(change=Range(least=3)),
        metric(change=Range(most=3)),
        metric(on="primary", change=Range(2, 4)),
        metric(on="node1", change=exactly(0)),
        metric(on="any", change=exactly(3)),
        metric(on="any", change=exactly(0)),
        metric(on="each", change=Range(0, 3)),
        metric(value=13),
        metric(value={"$$lte": 13}),
        metric(path="opcounters", value={"insert": {"$$type": ["int", "long"]}}),
        metric(path="opcounters.delete", value={"$$exists": False}),
        metric(change=exactly(3), value=13),
    ],
)
def test_what_holds_is_no_failure(expected: ExpectedMetric) -> None:
    assert judged(expected, BEFORE, AFTER) is None


@pytest.mark.parametrize(
    ("expected", "reason", "path"),
    [
        (
            metric(change=exactly(2)),
            "opcounters.insert of node0 changed by +3 during the operations (10 -> 13), expected 2",
            "change",
        ),
        (
            metric(change=Range(least=4)),
            "opcounters.insert of node0 changed by +3 during the operations (10 -> 13), expected at least 4",
            "change",
        ),
        (
            metric(on="each", change=exactly(3)),
            "opcounters.insert of node1 changed by +0 during the operations (20 -> 20), expected 3",
            "change",
        ),
        (
            metric(on="any", change=exactly(1)),
            "opcounters.insert is as expected on no server: node0: 10 -> 13; node1: 20 -> 20",
            "change",
        ),
        (
            metric(value=12),
            "opcounters.insert of node0 is not as expected at the end: expected 12, got 13",
            "value",
        ),
        (
            metric(path="opcounters", value={"insert": 12}),
            "opcounters of node0 is not as expected at the end: insert: expected 12, got 13",
            "value.insert",
        ),
        (
            metric(path="opcounters.inserts", change=exactly(3)),
            "node0 has no opcounters.inserts (did you mean 'insert'?)",
            "change",
        ),
        (
            metric(path="opcounter.insert", value=3),
            (
                "opcounter.insert of node0 is not as expected at the end: is missing (did you mean"
                " 'opcounters'?)"
            ),
            "value",
        ),
    ],
)
def test_what_does_not_hold_is_said_with_both_numbers(
    expected: ExpectedMetric, reason: str, path: str
) -> None:
    wrong = judged(expected, BEFORE, AFTER)
    assert wrong is not None
    assert (wrong.reason, wrong.mismatch.path, wrong.expected) == (reason, path, expected)


def test_the_first_that_does_not_hold_is_said() -> None:
    expected = [metric(change=exactly(3)), metric(on="node1", change=exactly(1)), metric(value=0)]
    wrong = judge_metrics(expected, BEFORE, AFTER, EntityMap())
    assert wrong is not None
    assert wrong.readings[0].server == "node1"


def test_a_metric_that_was_not_there_before_has_counted_from_0() -> None:
    assert judged(metric(change=exactly(2)), taken(node0={}), taken(node0=2)) is None


def test_a_counter_may_be_of_any_type_of_number() -> None:
    assert judged(metric(change=exactly(0.5)), taken(node0=Int64(1)), taken(node0=1.5)) is None


@pytest.mark.parametrize("value", ["many", True, {"a": 1}])
def test_a_change_of_what_is_no_number_is_an_error_of_the_scenario(value: Any) -> None:
    reply = {"opcounters": {"insert": value}}
    with pytest.raises(ScenarioError, match=r"opcounters\.insert of node0 is no number"):
        judged(metric(change=exactly(1)), taken(node0=reply), taken(node0=reply))


@dataclass
class Servers:
    """Deployment whose servers answer serverStatus with a count of the commands that each has seen."""

    topology: Topology = Topology.REPLICA_SET
    addresses: tuple[str, ...] = ("a:1", "b:2", "c:3")
    primary: str | None = "b:2"
    refusing: bool = False

    def __post_init__(self) -> None:
        self.asked: list[str | None] = []

    async def admin(
        self, _database: str, command: Mapping[str, Any], *, address: str | None = None
    ) -> Mapping[str, Any]:
        if "isMaster" in command:
            return {"ok": 1, "primary": self.primary} if self.primary else {"ok": 1}
        self.asked.append(address)
        if self.refusing:
            return {"ok": 0, "errmsg": "too many requests"}
        return {"ok": 1, "of": address}


def asked(expected: list[ExpectedMetric], servers: Servers, primary: str | None = None) -> StatusSnapshot:
    return asyncio.run(snapshot(servers, expected, primary=primary))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("on", "names"),
    [
        (None, ["node1"]),
        ("primary", ["node1"]),
        ("node2", ["node2"]),
        ("each", ["node0", "node1", "node2"]),
        ("any", ["node0", "node1", "node2"]),
    ],
)
def test_only_the_servers_that_are_concerned_are_asked_and_each_once(
    on: str | None, names: list[str]
) -> None:
    servers = Servers()
    found = asked([metric(on=on), metric(on=on)], servers)
    assert list(found.replies) == names
    assert servers.asked == [{"node0": "a:1", "node1": "b:2", "node2": "c:3"}[name] for name in names]


def test_the_primary_is_that_of_the_first_snapshot_after_an_election_too() -> None:
    servers = Servers()
    first = asked([metric()], servers)
    servers.primary = "a:1"
    assert list(asked([metric()], servers, first.primary).replies) == ["node1"]


@pytest.mark.parametrize(
    ("servers", "primary"),
    [
        (Servers(Topology.SHARDED, ("a:1", "b:2"), None), "mongos0"),
        (Servers(Topology.SINGLE, ("a:1",), None), "node0"),
        (Servers(primary=None), "node0"),
    ],
)
def test_where_there_is_no_primary_it_is_the_first_server(servers: Servers, primary: str) -> None:
    assert asked([metric()], servers).primary == primary


def test_a_server_that_is_not_there_is_an_error_with_those_that_are() -> None:
    with pytest.raises(ScenarioError) as raised:
        asked([metric(on="mongos0")], Servers())
    assert raised.value.message == "there is no server 'mongos0' here"
    assert raised.value.fix == "one of primary, each, any, node0, node1, node2"
    assert raised.value.location == PLACE


def test_a_server_that_refuses_is_an_error_that_says_why() -> None:
    with pytest.raises(ScenarioError, match="node1 refused serverStatus: too many requests"):
        asked([metric()], Servers(refusing=True))
