"""All mistakes of a file are told at once, each at its place, and none that only follows from another."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from harness.lint.engine import lint_file
from harness.lint.findings import Finding, excerpt
from harness.lint.fixing import fix_file

if TYPE_CHECKING:
    from pathlib import Path

MANY = """\
description: x
schemaVersion: "1.0"
createEntities:
  - client: { id: client, observeEvent: [commandStartedEvent] }
  - database: { id: database, client: client, databaseName: shop }
  - collection: { id: collection, database: database, collectionName: 7 }
tests:
  - description: a
    operations:
      - { name: insertOne, object: collection, arguments: { document: { _id: 99999999999999999999 } } }
      - { nam: find, object: collection, arguments: { filter: {} } }
      - name: failPoint
        object: testRunner
        arguments: { client: client, failPoint: { configureFailPoint: failCommand, mode: sometimes } }
  - descripton: b
    operations: []
  - description: c
    operations:
      - name: runCommand
        object: database
        arguments: { commandName: ping, command: { ping: 1 } }
        expectResult: { ok: { $$exists: maybe } }
      - name: runCommand
        object: database
        arguments: { commandName: ping, command: { ping: 1 } }
        expectError: { errorLabelsContain: [] }
"""


def told(path: Path) -> list[tuple[int, int, str]]:
    return [
        (each.line, each.column, f"{each.message.rsplit(': ')[-1]}; {each.hint}") for each in lint_file(path)
    ]


def test_every_mistake_of_a_file_is_told_with_its_place(write: Any) -> None:
    modes = "off, alwaysOn, {times: n}, {skip: n} or {activationProbability: p}"
    limits = f"integers go from {-(2**63)} to {2**63 - 1}"
    assert told(write(MANY)) == [
        (4, 27, "unknown field; did you mean 'observeEvents'?"),
        (6, 71, "must be a string, is an integer; "),
        (10, 78, f"{20 * '9'} does not fit into the 64 bits of an integer; {limits}"),
        (11, 11, "unknown field; did you mean 'name'?"),
        (14, 90, f"'sometimes' is no mode; modes: {modes}"),
        (15, 5, "unknown field; did you mean 'description'?"),
        (22, 41, "$$exists takes true or false, not 'maybe'; "),
        (26, 44, "is empty; leave it out, or give at least one"),
    ]


BESIDE_ANOTHER = """\
description: x
schemaVersion: "1.0"
runOnRequirements: [{ minServerVersion: "8.0", maxServerVersion: "4.0" }]
createEntities:
  - client: { id: client, observeEvents: [commandStrtedEvent], uriOptions: { w: [1], retryReadz: true } }
  - database: { id: database, client: client, databaseName: 7 }
  - collection: { id: collection, database: database, collectionName: stock }
tests:
  - description: a
    operations:
      - { name: insertOne, object: collection, arguments: { document: { _id: 99999999999999999999 } } }
      - { name: fnd, object: collection }
      - { name: find, object: colection, arguments: { filter: {} } }
"""


def test_what_is_wrong_with_an_entity_hides_no_mistake_in_its_use(write: Any) -> None:
    assert [line for line, *_ in told(write(BESIDE_ANOTHER))] == [3, 5, 5, 5, 6, 11, 12, 13]


def test_what_an_operation_would_have_named_is_no_mistake(write: Any) -> None:
    saved = "{ nam: find, object: collection, saveResultAsEntity: colection }"
    text = BESIDE_ANOTHER.replace("{ name: fnd, object: collection }", saved)
    assert [line for line, *_ in told(write(text))] == [3, 5, 5, 5, 6, 11, 12]


def test_one_mistake_is_not_told_twice(write: Any) -> None:
    text = MANY[: MANY.index("tests:")] + "test: []\n"
    assert [message for *_, message in told(write(text))][-1] == "unknown field; did you mean 'tests'?"


POOL = """\
version: 1
style: unit
description: x
operations:
  - name: checkOut
    label: one
  - name: checkIn
    connection: two
events:
  - type: ConnectionCheckedOut
    pushbackd: { durationMS: { min: 5, max: 1 } }
"""


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (
            "connection: two",
            "connection: two",
            ":8:17: operations[1].connection: there is no connection 'two'",
        ),
        (
            "connection: two",
            "connection: one",
            ":11:30: events[0].pushbackd.durationMS: min 5 is above max 1; exchange",
        ),
        ("label: one", "lable: one", ":6:5: operations[0].lable: unknown field; did you mean 'label'?"),
        ("version: 1", "version: 100000000000000000000", "does not fit into the 64 bits"),
    ],
)
def test_files_about_pools_are_examined_as_far_as_a_run_would(
    right: str, wrong: str, said: str, write: Any
) -> None:
    assert said in "\n".join(map(str, lint_file(write(POOL.replace(right, wrong)))))


def test_all_names_and_ranges_of_a_pool_are_told_at_once(write: Any) -> None:
    sizes, ready = "{ minPoolSize: 5, maxPoolSize: 2 }", "{ name: ready, thread: three }"
    text = POOL.replace("operations:", f"poolOptions: {sizes}\noperations:\n  - {ready}")
    found = told(write(text))
    assert [line for line, *_ in found] == [4, 6, 10, 13]


def test_a_comment_allows_a_warning_and_no_error(write: Any) -> None:
    text = dedent("""\
        description: x
        schemaVersion: "1.4"  # lint: allow schema-version
        tests:
          - description: a
            # lint: allow empty-case, it is about to be written
            operations: []
    """)
    assert lint_file(write(text)) == []
    wrong = text.replace("operations", "operatons").replace(
        "# lint: allow empty-case", "# lint: allow schema"
    )
    assert [each.rule for each in lint_file(write(wrong))] == ["schema"]


# --- what is certain is mended ---

SLIPS = """\
descripton: x
schemaVersion: "1.0"
runOnRequirements: [{ topologies: [sharding] }]
createEntities:
  - client: { id: &client client, observeEvents: [commandStartedEvent] }
  - database: { id: &database database, client: *client, databaseName: &nobody shop }
  - collection: { id: collection, database: *database, collectionName: stock }
tests:
  - description: a
    operations:
      - { name: insertone, object: colection, arguments: { documnt: { _id: 1 } } }
      - { name: wait, object: testRunner, arguments: { ms: 0 } }  # lint: allow timed-wait
"""
MENDED = (
    SLIPS.replace("descripton", "description")
    .replace("insertone", "insertOne")
    .replace("colection", "collection")
    .replace("documnt", "document")
)


def test_slips_are_mended_and_what_is_no_slip_is_left(write: Any) -> None:
    path = write(SLIPS)
    fixes = fix_file(path)
    assert path.read_text() == MENDED
    assert [str(each).removeprefix(f"{path}:") for each in fixes][:1] == ["1: descripton → description"]
    assert [each.hint for each in lint_file(path)] == ["did you mean 'sharded'?"]


def test_a_mended_file_is_mended_no_further(write: Any) -> None:
    path = write(MENDED)
    assert fix_file(path) == []


def test_versions_and_anchors_are_mended_where_nothing_else_is_wrong(write: Any) -> None:
    sound = MENDED.replace("sharding", "sharded")
    path = write(sound)
    assert [str(each).removeprefix(f"{path}:") for each in fix_file(path)] == [
        '2: "1.0" → "1.10"',
        "6: &nobody → (removed)",
    ]
    assert path.read_text() == sound.replace('"1.0"', '"1.10"').replace("&nobody ", "")
    assert lint_file(path) == []


def test_a_file_in_utf_16_is_saved_as_utf_8(write: Any) -> None:
    sound = MENDED.replace("sharding", "sharded")
    path = write(sound.encode("utf-16"))
    assert next(each.before for each in fix_file(path)) == "UTF-16"
    assert path.read_text().splitlines()[2:] == sound.replace("&nobody ", "").splitlines()[2:]


# --- the excerpt ---


def at(line: int, column: int) -> Finding:
    return Finding("x.yml", line, column, "schema", "wrong")


def test_the_caret_is_below_the_word() -> None:
    assert excerpt(at(2, 6), ["a: 1", "  b: wrong word"], 80) == [
        "    2 |   b: wrong word",
        "      |      ^^^^^",
    ]


@pytest.mark.parametrize("column", [1, 30, 100, 190, 200])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_an_excerpt_fits_the_terminal_and_shows_the_place(column: int, width: int) -> None:
    line = "".join(chr(97 + index % 26) for index in range(200))
    shown, carets = excerpt(at(1, column), [line], width)
    assert max(len(shown), len(carets)) <= width
    assert shown[carets.index("^")] == line[column - 1]


@pytest.mark.parametrize(("lines", "line"), [([], 1), ([""], 1), (["a"], 3)])
def test_what_has_no_line_has_no_excerpt(lines: list[str], line: int) -> None:
    assert excerpt(at(line, 1), lines, 80) == []
