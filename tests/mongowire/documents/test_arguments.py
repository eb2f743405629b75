"""What values of each kind may look like, and what they are then."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from control_cases import RIGHT_OF_KIND, WRONG_OF_KIND

from mongowire.documents.arguments import Argument, Kind
from mongowire.documents.errors import ControlError

READ: list[tuple[Kind, Any, Any]] = [
    (Kind.DURATION, "1m30s", 90.0),
    (Kind.DURATION, "200ms", 0.2),
    (Kind.DURATION, "0.5", 0.5),
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


STRANGE = {"object": object(), "bytes": b"\xff", "nan": float("nan"), "document": {"$x": object()}}


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("value", STRANGE.values(), ids=list(STRANGE))
def test_a_strange_value_is_read_or_refused_and_no_other_error(kind: Kind, value: Any) -> None:
    with suppress(ControlError):
        _argument(kind).parse(value)
