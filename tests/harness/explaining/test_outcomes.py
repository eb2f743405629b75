"""How a command ended, in a few words: a reply that holds errors is nowhere `ok`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from harness.adapters.base import Event
from harness.cli import cli
from harness.explaining.journal import CaseTimeline
from harness.explaining.sequence import read
from harness.explaining.text import outcome_of

if TYPE_CHECKING:
    from pathlib import Path

    from harness.planning.result import Moment

ERRORS: dict[str, Any] = {"ok": 1, "n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "E11000"}]}
CONCERN: dict[str, Any] = {"ok": 1, "n": 1, "writeConcernError": {"code": 91, "errmsg": "shutdown"}}
BULK: dict[str, Any] = {
    "ok": 1,
    "nErrors": 1,
    "cursor": {"firstBatch": [{"ok": 1, "idx": 0}, {"ok": 0, "idx": 1, "code": 121}]},
}


@pytest.mark.parametrize(
    ("kind", "fields", "outcome"),
    [
        ("commandSucceededEvent", {"reply": {"ok": 1}}, "ok"),
        ("commandSucceededEvent", {"reply": ERRORS}, "write error 11000"),
        ("commandSucceededEvent", {"reply": CONCERN}, "write concern error 91"),
        ("commandSucceededEvent", {"reply": ERRORS | CONCERN}, "write error 11000, write concern error 91"),
        ("commandSucceededEvent", {"reply": BULK}, "write error 121"),
        ("commandFailedEvent", {"failure": {"ok": 0, "code": 462}}, "error 462"),
        (
            "commandFailedEvent",
            {"failure": {**CONCERN, "ok": 0, "code": 112}},
            "error 112, write concern error 91",
        ),
        ("commandFailedEvent", {"failure": ConnectionError("reset")}, "failed"),
        ("commandFinished", {"outcome": "ok"}, "ok"),
        ("commandFinished", {"outcome": "disconnect"}, "disconnect"),
        ("commandFinished", {"outcome": "ok", "write_error": 11000}, "write error 11000"),
        (
            "commandFinished",
            {"outcome": 10107, "write_concern_error": 64},
            "error 10107, write concern error 64",
        ),
        ("poolReadyEvent", {}, ""),
    ],
)
def test_an_event_about_the_end_of_a_command_says_how_it_ended(
    kind: str, fields: dict[str, Any], outcome: str
) -> None:
    assert outcome_of(kind, fields) == outcome


def moments(*replies: dict[str, Any]) -> list[Moment]:
    """Return the timeline of inserts with these replies, of servers that keep no journal."""
    events = []
    for number, reply in enumerate(replies):
        fields = {"commandName": "insert", "requestId": number}
        events += [
            Event("commandStartedEvent", {**fields, "command": {"insert": "c"}}, number),
            Event("commandSucceededEvent", {**fields, "reply": reply}, number + 0.5),
        ]
    return [event.to_moment() for event in CaseTimeline.of((), {"client0": events}, origin=0.0).events]


def test_a_picture_without_a_journal_has_the_errors_of_the_reply() -> None:
    rows = read(moments(ERRORS, CONCERN)).rows
    assert [(row.label, row.bad) for row in rows if row.kind == "reply"] == [
        ("write error 11000", True),
        ("write concern error 91", True),
    ]


def test_what_follows_a_write_concern_error_may_be_a_retry_and_what_follows_a_write_error_is_none() -> None:
    attempts = [row.command.attempt for row in read(moments(ERRORS, CONCERN, ERRORS)).rows if row.command]
    assert attempts == [1, 1, 1, 1, 2, 2]


SCENARIO = """
description: errors within a reply
schemaVersion: "1.23"
createEntities:
  - client: {id: client, observeEvents: [commandStartedEvent]}
  - database: {id: db, client: client, databaseName: shop}
  - collection: {id: stock, database: db, collectionName: stock}
initialData:
  - {databaseName: shop, collectionName: stock, documents: [{_id: 1}]}
tests:
  - description: a duplicate
    operations:
      - name: insertOne
        object: stock
        arguments: {document: {_id: 1}}
        expectError: {errorCode: 11000}
  - description: a duplicate among several namespaces
    operations:
      - name: clientBulkWrite
        object: client
        arguments: {models: [{insertOne: {namespace: shop.stock, document: {_id: 1}}}]}
        expectError: {isClientError: false}
  - description: a write that waited in vain
    operations:
      - name: failPoint
        object: testRunner
        arguments:
          client: client
          failPoint:
            configureFailPoint: failCommand
            mode: {times: 1}
            data: {failCommands: [insert], writeConcernError: {code: 64, errmsg: "waited in vain"}}
      - name: insertOne
        object: stock
        arguments: {document: {_id: 2}}
        expectError: {isClientError: false}
"""


@pytest.mark.parametrize(
    ("case", "command", "outcome"),
    [
        ("a duplicate", "insert", "write error 11000"),
        ("a duplicate among several namespaces", "bulkWrite", "write error 11000"),
        ("a write that waited in vain", "insert", "write concern error 64"),
    ],
)
def test_a_reply_with_errors_is_drawn_with_them_in_text_and_picture(
    tmp_path: Path, case: str, command: str, outcome: str
) -> None:
    scenario, svg = tmp_path / "errors.yml", tmp_path / "errors.svg"
    scenario.write_text(SCENARIO)
    done = CliRunner().invoke(cli, ["explain", f"{scenario}::{case}", "--svg", str(svg)])
    (served,) = [line for line in done.output.splitlines() if f"commandFinished  {command} on" in line]
    assert f" → {outcome} (connection" in served
    assert f">{outcome}</text>" in svg.read_text()
