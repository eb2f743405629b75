"""Whatever is wrong with a file, one message names its line and column, and nothing falls over."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from harness.lint.engine import lint_file
from harness.planning.discovery import discover
from harness.planning.plan import load_all
from harness.planning.result import ExitCode
from harness.unified.model import Case
from mongowire.documents.reader import BYTES_MAX, DEPTH_MAX

if TYPE_CHECKING:
    from pathlib import Path

SOUND = """\
description: x
schemaVersion: "1.13"
createEntities:
  - client: { id: client, observeEvents: [commandStartedEvent] }
  - database: { id: database, client: client, databaseName: shop }
  - collection: { id: collection, database: database, collectionName: stock }
tests:
  - description: a
    operations:
      - name: insertOne
        object: collection
        arguments:
          document: { _id: 1 }
        expectResult: { insertedId: { $$unsetOrMatches: 1 } }
    expectEvents:
      - client: client
        events:
          - commandStartedEvent: { commandName: insert }
"""


class Broken(NamedTuple):
    """A broken file, the place of the message, and what it says."""

    content: str | bytes
    place: tuple[int, int]
    says: str
    suffix: str = ".yml"


def changed(old: str, new: str, *place: int, says: str) -> Broken:
    """Return the sound file with one thing changed."""
    assert SOUND.count(old) == 1, old
    line, column = place
    return Broken(SOUND.replace(old, new), (line, column), says)


def laughs() -> str:
    """Return a billion laughs: each anchor is ten aliases of the one before."""
    lines = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    return "\n".join(["a0: &a0 [lol]", *lines]) + "\n"


BROKEN = {
    "indented too little": changed("        object: coll", "       object: coll", 11, 8, says="is not YAML"),
    "indented too far": changed(
        "    operations:", "      operations:", 9, 17, says="is not YAML: mapping values are not allowed"
    ),
    "indented by a tab": changed("    operations:", "\toperations:", 9, 1, says="indents with spaces"),
    "a quote that is never closed": changed('"1.13"', '"1.13', 2, 16, says="is not YAML"),
    "a bracket that is never closed": changed(
        "[commandStartedEvent]", "[commandStartedEvent", 4, 63, says="YAML"
    ),
    "a value with a colon": changed(
        "description: x", "description: x: y", 1, 15, says="mapping values are not allowed"
    ),
    "a key twice": changed(
        "        object: collection\n", "        name: find\n", 11, 9, says="'name' is repeated"
    ),
    "two anchors on one value": changed("id: client,", "id: &a &b client,", 4, 22, says="is not YAML"),
    "an alias without an anchor": changed(
        "database: database", "database: *database", 6, 45, says="alias *database has no anchor before it"
    ),
    "an anchor inside itself": changed("{ _id: 1 }", "&a { _id: *a }", 13, 31, says="contains itself"),
    "a billion laughs": Broken(laughs(), (7, 5), "values once aliases are expanded"),
    "nested without end": Broken("[" * 5000, (1, DEPTH_MAX + 1), "levels deep"),
    "two documents": Broken(SOUND + "---\n" + SOUND, (19, 1), "holds a second document"),
    "a tag of a program": changed(
        "{ _id: 1 }",
        "!!python/object:os.system {}",
        13,
        21,
        says="tag tag:yaml.org,2002:python/object:os.system",
    ),
    "empty": Broken("", (1, 1), "is empty"),
    "only a comment": Broken("# later\n", (1, 1), "is empty"),
    "a byte order mark and nothing else": Broken(b"\xef\xbb\xbf", (1, 1), "is empty"),
    "binary": Broken(b"\x89PNG\r\n\x1a\n\0\0", (3, 1), "is binary, not text"),
    "another encoding": Broken(SOUND.replace(": x", ": \xfc").encode("latin-1"), (1, 14), "is not UTF-8"),
    "UTF-16": Broken(SOUND.encode("utf-16"), (1, 1), "is UTF-16, not UTF-8"),
    "huge": Broken(b"# " + b"x" * BYTES_MAX, (1, 1), f"is larger than {BYTES_MAX} bytes"),
    "a list": Broken("- 1\n", (1, 1), "is a list, not a mapping"),
    "a word": Broken("scenario\n", (1, 1), "is a string, not a mapping"),
    "JSON that ends too soon": Broken('{"schemaVersion": "1.0",', (1, 25), "", ".json"),
    "a JSON key twice": Broken(
        '{"schemaVersion": "1.0",\n "tests": [],\n "tests": []}', (3, 2), "'tests' is repeated", ".json"
    ),
    "a version that is no string": changed('"1.13"', "1.13", 2, 16, says="schemaVersion: must be a string"),
    "a version of the future": changed('"1.13"', '"1.99"', 2, 16, says="schemaVersion 1.99 is not supported"),
    "a field of a later version": changed('"1.13"', '"1.13"\nx-later: 1', 3, 1, says="unknown field"),
    "a misspelt field": changed("tests:", "test:", 7, 1, says="did you mean 'tests'?"),
    "a wrong type": changed(
        "databaseName: shop", "databaseName: [shop]", 5, 61, says="must be a string, is a list"
    ),
    "no cases": Broken(SOUND[: SOUND.index("tests:")] + "tests: []\n", (7, 8), "is empty"),
    "a misspelt event": changed(
        "[commandStartedEvent]", "[commandStartEvent]", 4, 43, says="did you mean 'commandStartedEvent'?"
    ),
    "wrong Extended JSON": changed("{ _id: 1 }", "{ _id: { $oid: 1 } }", 13, 21, says="wrong Extended JSON"),
    "a misspelt operation": changed("insertOne", "insertone", 10, 15, says="did you mean 'insertOne'?"),
    "an operation of something else": changed(
        "object: collection", "object: database", 10, 15, says="a database has no operation 'insertOne'"
    ),
    "a misspelt argument": changed("document:", "documnt:", 13, 11, says="did you mean 'document'?"),
    "an unknown operator": changed(
        "$$unsetOrMatches", "$$unsetOrMatch", 14, 39, says="did you mean '$$unsetOrMatches'?"
    ),
    "an undefined entity": changed(
        "object: collection", "object: colection", 11, 17, says="did you mean 'collection'?"
    ),
    "a name that is taken": changed(
        "createEntities:",
        "createEntities:\n  - client: { id: client }",
        5,
        19,
        says="the name 'client' is taken",
    ),
    "a wrong label": changed(
        "expectResult: { insertedId: { $$unsetOrMatches: 1 } }",
        "expectError: { errorLabelsContain: [RetryableWriteEror] }",
        14,
        45,
        says="did you mean 'RetryableWriteError'?",
    ),
}


def write_all(folder: Path) -> dict[str, Path]:
    paths = {}
    for name, broken in BROKEN.items():
        paths[name] = folder / f"{name.replace(' ', '-')}{broken.suffix}"
        content = broken.content
        paths[name].write_bytes(content.encode() if isinstance(content, str) else content)
    return paths


def test_there_are_enough_ways_to_break_a_file(write: Any) -> None:
    assert len(BROKEN) >= 30
    assert lint_file(write(SOUND.replace("1.13", "1.0"))) == []


@pytest.mark.parametrize("crlf", [False, True], ids=["", "CRLF and BOM"])
@pytest.mark.parametrize("name", BROKEN)
def test_lint_has_one_message_with_line_and_column(name: str, *, crlf: bool, write: Any) -> None:
    broken = BROKEN[name]
    content = broken.content
    if crlf:
        if not isinstance(content, str) or not content:
            return
        content = "\ufeff" + content.replace("\n", "\r\n")
    (finding,) = lint_file(write(content, f"case{broken.suffix}"))
    assert finding.refused
    assert broken.says in str(finding)
    assert (finding.line, finding.column) == broken.place


def test_conform_has_the_same_message_for_each(tmp_path: Path) -> None:
    for name, path in write_all(tmp_path).items():
        load = load_all([path])
        flaws = (case.flaw for case in load.cases if isinstance(case, Case))
        (message,) = (*load.complaints, *(flaw.complaint for flaw in flaws if flaw))
        line, column = BROKEN[name].place
        assert re.match(rf"{re.escape(str(path))}:{line}:{column}: ", message), message
        assert BROKEN[name].says in message
        assert "\n" not in message


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["lint", "conform"])
def test_the_command_ends_with_2_and_without_a_traceback(verb: str, tmp_path: Path, pushbackd: Any) -> None:
    paths = write_all(tmp_path).values()
    done = pushbackd(verb, *paths)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "Traceback" not in done.output
    said = done.stdout if verb == "lint" else done.stderr
    lines = [line for line in said.splitlines() if str(tmp_path) in line]
    assert len(lines) == len(BROKEN)
    assert discover(paths) == tuple(paths)


@pytest.mark.slow
def test_record_refuses_each_with_the_same_message(tmp_path: Path, pushbackd: Any) -> None:
    for name, path in write_all(tmp_path).items():
        if path.suffix == ".yml":
            line, column = BROKEN[name].place
            done = pushbackd("record", path)
            assert done.exit_code == ExitCode.BAD_INPUT, name
            assert f"{path}:{line}:{column}: " in done.stderr
            assert "Traceback" not in done.output


def test_a_sound_file_may_have_a_byte_order_mark_and_carriage_returns(write: Any) -> None:
    text = SOUND.replace("1.13", "1.0")
    assert lint_file(write("\ufeff" + text.replace("\n", "\r\n"))) == []
    assert (
        lint_file(
            write(
                json.dumps(
                    {
                        "description": "x",
                        "schemaVersion": "1.0",
                        "tests": [{"description": "a", "skipReason": "later", "operations": []}],
                    }
                ),
                "case.json",
            )
        )
        == []
    )
