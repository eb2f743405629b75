"""What a client does before the first operation is one line, and the whole of it where that is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from made_results import asked, marked

from harness.cli import cli
from harness.explaining.journal import two_columns
from harness.explaining.sequence import read
from harness.explaining.text import folded
from harness.planning.result import Moment
from harness.report.picture import svg

if TYPE_CHECKING:
    from pathlib import Path

EARLY = [
    marked(0.0, "poolCreatedEvent"),
    marked(0.001, "connectionCreatedEvent", text="localhost:1 connection 1"),
    marked(0.002, "connectionAccepted", source="node0", side="server"),
]
OPERATION = Moment(0.01, "test", "collection", "operation", "insertOne", None, "insertOne {}")
LATE = marked(0.02, "connectionCreatedEvent")
LINE = "3 pool and connection events of client0, node0 before the first operation"


def test_pool_and_connection_events_before_the_first_operation_are_one_line_with_their_count() -> None:
    first, operation, late = two_columns([*EARLY, OPERATION, LATE])
    assert first == f"   0.000000  {LINE}"
    assert "insertOne" in operation
    assert "connectionCreatedEvent" in late


def test_what_else_happens_before_the_first_operation_keeps_its_line() -> None:
    election = marked(0.0005, "primaryElected", source="node0", side="server")
    kinds = [moment.kind for moment in folded([EARLY[0], election, *EARLY[1:], OPERATION]).moments]
    assert kinds == ["connected", "primaryElected", "operation"]


@pytest.mark.parametrize(
    "timeline",
    [
        pytest.param([EARLY[0], OPERATION], id="a single event"),
        pytest.param([OPERATION, *EARLY], id="after the first operation"),
        pytest.param(EARLY, id="no operation"),
        pytest.param([asked(0, 1), OPERATION], id="a command"),
    ],
)
def test_nothing_else_is_folded(timeline: list[Moment]) -> None:
    assert list(folded(timeline).moments) == timeline


def test_a_picture_has_one_row_that_holds_them_all() -> None:
    rows = read([*EARLY, OPERATION], whole=False).rows
    assert [row.kind for row in rows] == ["mark", "operation"]
    assert rows[0].moments == EARLY
    picture = svg([*EARLY, OPERATION], title="a")
    assert ">3 pool and connection events</text>" in picture
    assert "localhost:1 connection 1" in picture
    assert ">3 pool" not in svg([*EARLY, OPERATION], title="a", whole=True)


SCENARIO = """
description: early
schemaVersion: "1.26"
createEntities:
  - client: {id: client, uriOptions: {minPoolSize: 2}, awaitMinPoolSizeMS: 5000}
  - database: {id: db, client: client, databaseName: shop}
  - collection: {id: stock, database: db, collectionName: stock}
tests:
  - description: a
    operations:
      - {name: insertOne, object: stock, arguments: {document: {_id: 1, text: TEXT}}}
"""


def test_explain_folds_cuts_and_names_and_vv_does_the_first_two_no_more(tmp_path: Path) -> None:
    text = "x" * 5000
    path = tmp_path / "early.yml"
    path.write_text(SCENARIO.replace("TEXT", text))
    short, whole = (CliRunner().invoke(cli, ["explain", str(path), *more]).output for more in ((), ("-vv",)))
    assert "pool and connection events of client" in short
    assert text not in short
    assert "poolCreatedEvent" not in short
    assert "pool and connection events of client" not in whole
    assert "poolCreatedEvent" in whole
    (received,) = [
        line for line in whole.splitlines() if "messageReceived" in line and '"insert": "stock"' in line
    ]
    assert received.split()[1] == "node0"
    assert f'"{text}"' in received
    (started,) = [line for line in whole.splitlines() if "commandStartedEvent  insert" in line]
    assert f'"{text}"' in started
