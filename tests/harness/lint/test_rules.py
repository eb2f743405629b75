"""Every rule finds what it is for, where it stands, and leaves the sound form of the same alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.lint.engine import REFUSING, lint_file
from harness.lint.rules import READING, RULES

Write = Callable[..., Path]

ENTITIES = """\
  - client: { id: client, observeEvents: [commandStartedEvent], ignoreCommandMonitoringEvents: [ping] }
  - database: { id: database, client: client, databaseName: shop }
  - collection: { id: collection, database: database, collectionName: stock }
"""
INSERT = "- { name: insertOne, object: collection, arguments: { document: { _id: 1 } } }"
EVENT = "- commandStartedEvent: { commandName: insert }"
FAIL_POINT = """\
- name: failPoint
  object: testRunner
  arguments:
    client: client
    failPoint: { configureFailPoint: failCommand, mode: { times: 1 }, data: { failCommands: [%s] } }
"""


def text(
    operations: str = INSERT, *, entities: str = "", version: str = "1.0", more: str = "", file: str = ""
) -> str:
    """Return a scenario of one case; `more` is added to the case, `file` to the file."""
    return (
        f'description: x\nschemaVersion: "{version}"\n{file}createEntities:\n{ENTITIES}{entities}'
        f"tests:\n  - description: a\n{indent(more, '    ')}    operations:\n{indent(operations, '      ')}\n"
    )


def events(*kinds: str, client: str = "client", more: str = "") -> str:
    """Return the field `expectEvents` of a case, for one client."""
    listed = "".join(f"    {kind}\n" for kind in kinds)
    return f"expectEvents:\n- client: {client}\n{more}  events:\n{listed}"


def runner(name: str, arguments: str) -> str:
    return f"- {{ name: {name}, object: testRunner, arguments: {{ {arguments} }} }}"


def expecting(field: str) -> str:
    return INSERT.replace(" } }", f" }} }}, {field}", 1)


THREADS = "  - thread: { id: one }\n  - thread: { id: two }\n"


def on_thread(name: str) -> str:
    return runner("runOnThread", f"thread: {name}, operation: {INSERT[2:]}")


READER = "  - client: { id: reader, uriOptions: { appName: reader } }\n"
SESSION = "  - session: { id: s, client: client }\n"

SET_AND_HIT = text(FAIL_POINT % "insert" + INSERT)


def seen(element: str, section: str = "expectAttempts") -> str:
    return f"pushbackd: {{ {section}: [{{ {element} }}] }}\n"


PING = "- { name: runCommand, object: its, arguments: { commandName: ping, command: { ping: 1 } } }\n"


def with_options(options: str) -> str:
    database = "  - database: { id: its, client: other, databaseName: shop }\n"
    entities = f"  - client: {{ id: other, uriOptions: {options} }}\n{database}"
    return text(PING + INSERT, entities=entities)


ON_ANOTHER = (
    "- { name: runCommand, object: its, arguments: { commandName: ping, command: { ping: 1 } } }\n" + INSERT
)


BAD_AND_GOOD = [
    (
        "empty-range",
        text(more=seen("command: insert, count: { min: 3, max: 2 }")),
        text(more=seen("command: insert, count: { min: 2, max: 3 }")),
    ),
    (
        "empty-range",
        text(more='pushbackd: { runOn: { profile: { min: "9.0", max: "8.2" } } }\n'),
        text(more='pushbackd: { runOn: { profile: { min: "8.2", max: "8.2" } } }\n'),
    ),
    (
        "no-server",
        text(more='runOnRequirements: [{ minServerVersion: "9.0", maxServerVersion: "8.0.99" }]\n'),
        text(more='runOnRequirements: [{ minServerVersion: "8.0.4", maxServerVersion: "8.0" }]\n'),
    ),
    (
        "no-server",
        text(file='runOnRequirements: [{ minServerVersion: "9.0", maxServerVersion: "8.0" }]\n'),
        text(file='runOnRequirements: [{ minServerVersion: "8.0", maxServerVersion: "9.0" }]\n'),
    ),
    ("wrong-option", with_options("{ retryWrites: maybe }"), with_options("{ retryWrites: false }")),
    ("wrong-option", with_options("{ maxpoolsize: many }"), with_options("{ maxpoolsize: 3 }")),
    ("wrong-option", with_options("{ w: { a: 1 } }"), with_options("{ w: majority }")),
    (
        "wrong-option",
        with_options("{ minPoolSize: 5, maxPoolSize: 2 }"),
        with_options("{ minPoolSize: 5, maxPoolSize: 0 }"),
    ),
    ("empty-case", text("[]", entities=""), text()),
    ("empty-case", text("[]"), text() + "  - { description: b, skipReason: later, operations: [] }\n"),
    (
        "unknown-operator",
        text(expecting("expectResult: { x: { $$exists: maybe } }")),
        text(expecting("expectResult: { x: { $$exists: false } }")),
    ),
    (
        "unknown-selector",
        text(more=seen("command: insrt, count: 1")),
        text(more=seen("command: insert, count: 1")),
    ),
    (
        "unknown-selector",
        text(more=seen("appName: redaer, open: 1", "expectConnections"), entities=READER),
        text(more=seen("appName: reader, open: 1", "expectConnections"), entities=READER),
    ),
    (
        "undefined-entity",
        text(more=seen("command: insert, count: 1, session: s")),
        text(more=seen("command: insert, count: 1, session: s"), entities=SESSION),
    ),
    (
        "expects-nothing",
        text(more=seen("command: insert")),
        text(more=seen("command: insert, each: { meets: ok }")),
    ),
    ("undefined-entity", text(INSERT.replace("collection", "colection")), text()),
    ("undefined-entity", text(entities="  - session: { id: s, client: nobody }\n"), text()),
    (
        "undefined-entity",
        text(expecting("expectResult: { $$matchesEntity: saved }")),
        text(
            expecting("saveResultAsEntity: saved")
            + "\n"
            + expecting("expectResult: { $$matchesEntity: saved }")
        ),
    ),
    ("wrong-entity", text(entities="  - session: { id: s, client: database }\n"), text()),
    ("wrong-entity", text(INSERT.replace("document:", "session: client, document:")), text()),
    ("duplicate-entity", text(entities="  - client: { id: client }\n"), text()),
    ("duplicate-entity", text(expecting("saveResultAsEntity: client")), text()),
    (
        "unused-entity",
        text(entities="  - session: { id: s, client: client }\n"),
        text(
            INSERT.replace("document:", "session: s, document:"),
            entities="  - session: { id: s, client: client }\n",
        ),
    ),
    ("unknown-operation", text(INSERT.replace("insertOne", "insertTwo")), text()),
    ("unknown-operation", text(INSERT.replace("object: collection", "object: database")), text()),
    ("wrong-argument", text(INSERT.replace("document", "documnt")), text()),
    ("wrong-argument", text(INSERT.replace("document: { _id: 1 }", "")), text()),
    (
        "wrong-argument",
        text("- { name: bulkWrite, object: collection, arguments: { requests: [{ insertOn: {} }] } }"),
        text(
            "- { name: bulkWrite, object: collection,"
            " arguments: { requests: [{ insertOne: { document: {} } }] } }"
        ),
    ),
    (
        "unknown-operator",
        text(expecting("expectResult: { x: { $$exist: true } }")),
        text(expecting("expectResult: { x: { $$exists: true } }")),
    ),
    (
        "unknown-operator",
        text(expecting("expectResult: { x: { $$type: integer } }")),
        text(expecting("expectResult: { x: { $$type: [int, long] } }")),
    ),
    (
        "unknown-operator",
        text(expecting("expectResult: { x: { $$exists: true, y: 1 } }")),
        text(expecting("expectResult: { x: { $$exists: true }, y: 1 }")),
    ),
    (
        "unknown-label",
        text(expecting("expectError: { errorLabelsContain: [RetryableWriteEror] }")),
        text(expecting("expectError: { errorLabelsContain: [RetryableWriteError] }")),
    ),
    (
        "unknown-label",
        text(expecting("expectError: { errorLabelsContain: [Mine] }")),
        text(
            (FAIL_POINT % "insert").replace("data: {", "data: { errorLabels: [Mine],")
            + expecting("expectError: { errorLabelsContain: [Mine] }")
        ),
    ),
    (
        "vacuous-label",
        text(expecting("expectError: { errorLabelsOmit: [RetryableWriteConcern] }")),
        text(expecting("expectError: { errorLabelsOmit: [RetryableWriteError] }")),
    ),
    ("unobserved-event", text(more=events("- commandFailedEvent: {}")), text(more=events(EVENT))),
    (
        "unobserved-event",
        text(more=events("- commandStartedEvent: { commandName: ping }")),
        text(more=events(EVENT)),
    ),
    (
        "unobserved-event",
        text(more=events("- commandStartedEvent: { commandName: saslStart }")),
        text(more=events(EVENT)),
    ),
    (
        "unobserved-event",
        text(
            runner("waitForEvent", "client: client, count: 1, event: { poolReadyEvent: {} }"), version="1.10"
        ),
        text(
            runner("assertEventCount", "client: client, count: 0, event: { poolReadyEvent: {} }")
            + "\n"
            + INSERT,
            version="1.10",
        ),
    ),
    (
        "racy-events",
        text(
            on_thread("one") + "\n" + on_thread("two"),
            entities=THREADS,
            more=events(EVENT, EVENT),
            version="1.10",
        ),
        text(
            on_thread("one") + "\n" + on_thread("two"),
            entities=THREADS,
            more=events(EVENT, EVENT, more="  ignoreExtraEvents: true\n"),
            version="1.10",
        ),
    ),
    (
        "racy-events",
        text(
            on_thread("one") + "\n" + INSERT,
            entities="  - thread: { id: one }\n",
            more=events(EVENT, EVENT),
            version="1.10",
        ),
        text(
            on_thread("one") + "\n" + runner("waitForThread", "thread: one") + "\n" + INSERT,
            entities="  - thread: { id: one }\n",
            more=events(EVENT, EVENT),
            version="1.10",
        ),
    ),
    (
        "timed-wait",
        text(runner("wait", "ms: 100") + "\n" + INSERT, version="1.10"),
        text(
            INSERT
            + "\n"
            + runner("waitForEvent", "client: client, count: 1, event: { commandStartedEvent: {} }"),
            version="1.10",
        ),
    ),
    ("unhit-fail-point", text(FAIL_POINT % "update" + INSERT), text(FAIL_POINT % "insert" + INSERT)),
    ("unhit-fail-point", text(INSERT + "\n" + FAIL_POINT % "insert"), text(FAIL_POINT % "ping" + INSERT)),
    *(
        ("wrong-fail-point", text(FAIL_POINT.replace(right, wrong) % "insert" + INSERT), SET_AND_HIT)
        for right, wrong in {
            "{ times: 1 }": "{ time: 1 }",
            "mode: { times: 1 }": "mode: always",
            "mode: { times: 1 },": "",
            "times: 1": "activationProbability: 2",
            "times: 1 ": "times: 1, skip: 1 ",
            "data: {": "data: { errorCode: NotWritablePrimary,",
            "data: { failCommands: [%s] }": "data: [%s]",
            "failCommands: [%s]": "failCommands: %s",
            "data: { ": "data: { closeConnection: 1, ",
        }.items()
    ),
    *(
        ("unknown-fail-point", text(FAIL_POINT.replace(right, wrong) % "insert" + INSERT), SET_AND_HIT)
        for right, wrong in {
            "failCommand,": "failCommands,",
            "data: {": "dats: {}, data: {",
            "data: { ": "data: { closeConection: true, ",
            "[%s]": "[%s, isert]",
        }.items()
    ),
    (
        "unknown-fail-point",
        text(
            (FAIL_POINT % "insert").replace("data: {", "data: { errorLabels: [RetryableWriteEror],") + INSERT
        ),
        text((FAIL_POINT % "insert").replace("data: {", "data: { errorLabels: [Mine],") + INSERT),
    ),
    (
        "unknown-code-name",
        text(expecting("expectError: { errorCodeName: NotWriteablePrimary }")),
        text(expecting("expectError: { errorCodeName: NotWritablePrimary }")),
    ),
    (
        "unknown-option",
        text().replace("id: client,", "id: client, uriOptions: { retryWriets: true },"),
        text().replace("id: client,", "id: client, uriOptions: { retryWrites: true, appname: x },"),
    ),
    ("wrong-argument", text(INSERT.replace("{ _id: 1 }", "1")), text()),
    ("wrong-argument", text(INSERT.replace("} }", "}, bypassDocumentValidation: 1 }")), text()),
    (
        "racy-fail-point",
        text(FAIL_POINT % "insert, hello" + INSERT),
        text(FAIL_POINT.replace("[%s]", "[hello], appName: shop") + INSERT),
    ),
    (
        "fail-point-left-on",
        text(
            "- { name: runCommand, object: database, arguments: { commandName: configureFailPoint,"
            " command: { configureFailPoint: failCommand, mode: alwaysOn } } }\n" + INSERT
        ),
        text(
            "- { name: runCommand, object: database, arguments: { commandName: configureFailPoint,"
            " command: { configureFailPoint: failCommand, mode: 'off' } } }\n" + INSERT
        ),
    ),
    ("schema-version", text(version="1.4"), text(version="1.0")),
    ("schema-version", text(runner("wait", "ms: 1"), version="1.9"), text()),
    (
        "duplicate-description",
        text() + "  - { description: a, skipReason: later, operations: [] }\n",
        text() + "  - { description: b, skipReason: later, operations: [] }\n",
    ),
    (
        "unused-anchor",
        text(expecting("expectResult: &result { insertedId: 1 }")),
        text(
            expecting("expectResult: &result { insertedId: 1 }") + "\n" + expecting("expectResult: *result")
        ),
    ),
    (
        "unused-anchor",
        text(more="skipReason: &why x\n"),
        text().replace("id: client,", "id: &client client,"),
    ),
]


def rules_that_fire(path: Path) -> set[str]:
    return {finding.rule for finding in lint_file(path)}


@pytest.mark.parametrize(("rule", "bad", "good"), BAD_AND_GOOD, ids=[case[0] for case in BAD_AND_GOOD])
def test_a_rule_finds_what_it_is_for_and_nothing_else(rule: str, bad: str, good: str, write: Write) -> None:
    assert rule in rules_that_fire(write(bad))
    assert rules_that_fire(write(good)) == set()


def test_every_rule_is_tested_here_or_with_the_twins() -> None:
    assert {rule for rule, _, _ in BAD_AND_GOOD} == {rule.id for rule in RULES} - {"json-drift"}


def test_rules_have_ids_of_their_own_and_one_sentence() -> None:
    ids = [rule.id for rule in RULES]
    assert len({*ids, *READING}) == len(ids) + len(READING)
    assert all(rule.sentence.endswith(".") and rule.sentence.count(". ") == 0 for rule in RULES)


WITH_TWIN = """\
description: x
schemaVersion: "1.0"
tests:
  - description: a
    skipReason: later
    operations: []
"""
TWIN = """{
  "description": "x",
  "schemaVersion": "1.0",
  "tests": [{"description": "a", "skipReason": "later", "operations": []}]
}"""


@pytest.mark.parametrize(
    ("twin", "fires"),
    [
        ('{"a": 1}', True),
        ("{", True),
        (
            TWIN,
            False,
        ),
        (
            TWIN.replace('"a"', '"b"'),
            True,
        ),
    ],
)
def test_a_twin_must_hold_the_same(twin: str, *, fires: bool, write: Write) -> None:
    write(twin, "case.json")
    path = write(WITH_TWIN)
    assert rules_that_fire(path) == ({"json-drift"} if fires else set())


def test_a_drift_is_placed_at_the_first_value_that_differs(write: Write) -> None:
    write(
        TWIN.replace('"a"', "true"),
        "case.json",
    )
    (finding,) = lint_file(write(WITH_TWIN))
    assert (finding.line, finding.column) == (4, 18)


def test_findings_have_the_place_of_what_is_wrong_and_a_hint(write: Write) -> None:
    path = write(text(INSERT.replace("insertOne", "insertTwo")))
    (finding,) = lint_file(path)
    said = "a collection has no operation 'insertTwo'; did you mean 'insertOne'? (unknown-operation)"
    assert str(finding) == f"{path}:10:17: tests[0].operations[0].name: {said}"


@pytest.mark.parametrize(
    ("right", "wrong", "field", "said"),
    [
        (
            "mode: { times: 1 }",
            "mode: { tims: 1 }",
            "mode",
            "must be a document with one field; did you mean 'times'? (wrong-fail-point)",
        ),
        (
            "data: {",
            "data: { errorCode: NotWriteablePrimary,",
            "data.errorCode",
            "must be an integer, is a string; NotWritablePrimary is 10107 (wrong-fail-point)",
        ),
        (
            "data: {",
            "data: { blockTimeMs: 1,",
            "data.blockTimeMs",
            (
                "the data of failCommand has no field 'blockTimeMs'; did you mean 'blockTimeMS'?"
                " (unknown-fail-point)"
            ),
        ),
        (
            "[%s]",
            "[isert]",
            "data.failCommands[0]",
            "no command is called 'isert'; did you mean 'insert'? (unknown-fail-point)",
        ),
    ],
)
def test_what_is_wrong_in_a_fail_point_has_its_place_and_a_hint(
    right: str, wrong: str, field: str, said: str, write: Write
) -> None:
    path = write(text((FAIL_POINT.replace(right, wrong) + INSERT).replace("%s", "insert")))
    line = 1 + path.read_text()[: path.read_text().index(wrong)].count("\n")
    place = f"tests[0].operations[0].arguments.failPoint.{field}"
    (told,) = [str(each) for each in lint_file(path) if each.rule.endswith("n-fail-point") or each.refused]
    assert re.sub(rf"^{re.escape(str(path))}:{line}:\d+: ", "", told) == f"{place}: {said}"


def test_an_argument_of_a_wrong_type_has_its_place(write: Write) -> None:
    path = write(text(INSERT.replace("{ _id: 1 }", "1")))
    (found,) = lint_file(path)
    line = path.read_text().splitlines()[found.line - 1]
    assert line[found.column - 1 :].startswith("1 }")
    assert (found.message, found.hint) == (
        "tests[0].operations[0].arguments.document: must be a document, is an integer",
        "document: Document to insert.",
    )
    assert found.refused


def test_of_a_file_that_cannot_be_used_only_the_reasons_for_that_are_told(write: Write) -> None:
    path = write(text(INSERT.replace("insertOne", "insertTwo"), version="1.20"))
    assert rules_that_fire(path) == {"unknown-operation"}
    assert {"unknown-operation"} <= REFUSING


def test_a_case_that_is_skipped_makes_no_file_unusable(write: Write) -> None:
    path = write(text(INSERT.replace("insertOne", "insertTwo"), more="skipReason: later\n"))
    assert [(finding.rule, finding.refused) for finding in lint_file(path)] == [("unknown-operation", False)]


NAMES = st.sampled_from(
    [
        "client",
        "session",
        "object",
        "thread",
        "id",
        "event",
        "operation",
        "operations",
        "callback",
        "entities",
        "failPoint",
        "command",
        "requests",
        "models",
        "data",
        "mode",
        "failCommands",
        "errorLabels",
        "configureFailPoint",
        "document",
        "count",
        "ms",
        "$$type",
        "$$exists",
        "$$matchesEntity",
        "insertOne",
        "$oid",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
OPERATIONS = st.sampled_from(
    [
        "failPoint",
        "runOnThread",
        "createEntities",
        "waitForEvent",
        "recordTopologyDescription",
        "loop",
        "wait",
    ]
)


@pytest.mark.slow
@given(
    st.dictionaries(NAMES, VALUES, max_size=4),
    OPERATIONS | st.sampled_from(["bulkWrite", "runCommand"]),
    VALUES,
)
def test_no_arguments_make_lint_fall_over(
    tmp_path_factory: Any, arguments: dict[str, Any], name: str, expected: Any
) -> None:
    operation = {"name": name, "object": "testRunner", "arguments": arguments, "expectResult": expected}
    on_collection = {**operation, "object": "collection"}
    case = {"description": "a", "operations": [operation, on_collection]}
    skipped = {**case, "description": "b", "skipReason": "later"}
    entities = [
        {"client": {"id": "client"}},
        {"database": {"id": "database", "client": "client", "databaseName": "shop"}},
        {"collection": {"id": "collection", "database": "database", "collectionName": "stock"}},
    ]
    document = {
        "description": "x",
        "schemaVersion": "1.0",
        "createEntities": entities,
        "tests": [case, skipped],
    }
    path = tmp_path_factory.getbasetemp() / "fuzzed.json"
    path.write_text(json.dumps(document))
    assert all(finding.line for finding in lint_file(path))
    path.write_text(json.dumps({**document, "tests": [skipped]}))
    assert all(finding.line for finding in lint_file(path))
