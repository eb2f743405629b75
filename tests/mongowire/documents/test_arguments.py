"""What values of each kind may look like, and what they are then."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from control_cases import RIGHT_OF_KIND, WRONG_OF_KIND

from mongowire.documents.arguments import Argument, Kind, bandwidth, duration, rate, seconds
from mongowire.documents.errors import ControlError

READ: list[tuple[Kind, Any, Any]] = [
    (Kind.DURATION, "1m30s", 90.0),
    (Kind.DURATION, "200ms", 0.2),
    (Kind.DURATION, "0", 0.0),
    (Kind.SECONDS, "0.5", 0.5),
    (Kind.SECONDS, 0.5, 0.5),
    (Kind.SECONDS, "2s", 2.0),
    (Kind.RATE, "20/s", 20.0),
    (Kind.RATE, "120/min", 2.0),
    (Kind.SHARE, "2%", 0.02),
    (Kind.SHARE, 1, 1.0),
    (Kind.SIZE, "16KB", 16_000),
    (Kind.SIZE, "1MiB", 1 << 20),
    (Kind.SIZE, "10KB/s", 10_000),
    (Kind.FLAG, "off", False),
    (Kind.SERVERS, "node0, node1", ["node0", "node1"]),
    (Kind.GROUPS, [["node0"], ["node1", "clients"]], [["node0"], ["node1", "clients"]]),
    (Kind.GROUPS, ["node0", "node1"], [["node0", "node1"]]),
    (Kind.GROUPS, ["node0,clients", "node1"], [["node0", "clients"], ["node1"]]),
    (Kind.GROUPS, "node0,clients node1", [["node0", "clients"], ["node1"]]),
    (Kind.GROUPS, '[["node0"], ["node1"]]', [["node0"], ["node1"]]),
    (Kind.CODES, "462, IngressRequestRateLimitExceeded", [462, 462]),
    (Kind.CODES, [91, "OperationFailed"], [91, 96]),
    (Kind.CODES, 463, [463]),
    (Kind.MODE, "3", 3),
    (Kind.MODE, '{"skip": 2}', {"skip": 2}),
    (Kind.DOCUMENT, '{"_id": {"$oid": "000000000000000000000000"}}', None),
    (Kind.DOCUMENTS, {"_id": 1}, [{"_id": 1}]),
]


def _argument(kind: Kind) -> Argument:
    return Argument("what", kind, "what it is")


@pytest.mark.parametrize(("kind", "value", "expected"), READ, ids=repr)
def test_a_value_is_read(kind: Kind, value: Any, expected: Any) -> None:
    found = _argument(kind).parse(value)
    assert expected is None or found == expected


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_takes_a_text_and_refuses_one(kind: Kind) -> None:
    _argument(kind).parse(RIGHT_OF_KIND[kind])
    with pytest.raises(ControlError) as caught:
        _argument(kind).parse(WRONG_OF_KIND[kind])
    assert caught.value.path[0] == "what"


BARE: list[tuple[Any, Any, str]] = [
    (duration, 200, "200 what? Write 200ms or 200s"),
    (duration, "200", "200 what? Write 200ms or 200s"),
    (duration, 0.2, "0.2 what? Write 0.2ms or 0.2s"),
    (rate, 20, "20 what? Write 20/s or 20/min"),
    (rate, "20", "20 what? Write 20/s or 20/min"),
    (bandwidth, 10, "10 what? Write 10KB/s or 10B/s"),
    (bandwidth, "10/s", "'10/s' is no bandwidth; write bytes a second, such as '10KB/s'"),
]
"""A number without its unit, and the question for it with both of its readings."""

NO_TIMES: list[tuple[Any, Any, str]] = [
    (seconds, 1e20, "'1e+20' is more than a year"),
    (seconds, "1e20", "'1e20' is more than a year"),
    (duration, "400d", "'400d' is more than a year"),
    (duration, "-5s", "'-5s' is negative"),
    (duration, -5, "-5 is negative"),
    (seconds, -5, "-5 is negative"),
    (seconds, "1e400", "'1e400' is no number"),
    (duration, "2 weeks", "'2 weeks' is no duration"),
    (rate, "20/week", "'20/week' is no rate; write one with its unit, such as '20/s' or '100/min'"),
    (rate, "20s", "'20s' is no rate"),
]


@pytest.mark.parametrize(("read", "value", "told"), [*BARE, *NO_TIMES])
def test_a_time_or_a_rate_says_its_unit_and_is_one(read: Any, value: Any, told: str) -> None:
    with pytest.raises(ControlError) as caught:
        read(value)
    assert caught.value.message.startswith(told)


@pytest.mark.parametrize("read", [duration, seconds, rate])
@pytest.mark.parametrize("value", [0, 0.0, "0"])
def test_nothing_needs_no_unit(read: Any, value: Any) -> None:
    assert read(value) == 0.0


STRANGE = {"object": object(), "bytes": b"\xff", "nan": float("nan"), "document": {"$x": object()}}


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("value", STRANGE.values(), ids=list(STRANGE))
def test_a_strange_value_is_read_or_refused_and_no_other_error(kind: Kind, value: Any) -> None:
    with suppress(ControlError):
        _argument(kind).parse(value)
