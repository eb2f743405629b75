from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import click
import pytest

from fakeserver.deployment.records.events import CommandFinished, ConnectionClosed, PrimaryElected
from fakeserver.deployment.records.journal import Record
from harness.adapters.base import Event
from harness.explaining.journal import CaseTimeline, file_name, two_columns
from harness.explaining.text import one_line, shortened
from harness.planning.plan import Item, Settings
from harness.planning.result import Moment, Result, ResultStatus, Row, Tally
from harness.report import junit, terminal
from harness.report.results_file import JsonLines

if TYPE_CHECKING:
    from pathlib import Path

PASSED = Result(
    "writes/insert::works", ResultStatus.PASSED, "replicaset", "reference", "2026-02-20", duration_ms=12.5
)
FAILED = Result(
    "writes/insert::fails 'once'",
    ResultStatus.FAILED,
    "replicaset",
    "reference",
    "2026-02-20",
    reason="the result is not what was expected",
    duration_ms=40.0,
    file="writes/insert.yml",
    line=31,
    server_version="8.2.3",
    mismatch="insertedId: differs",
    expected="1",
    actual="2",
    comparison=(
        Row("client0", "same", "commandStartedEvent insert", "commandStartedEvent insert {}", 40),
        Row("client0", "missing", "commandSucceededEvent insert", None, 41, "one event is missing"),
    ),
    timeline=(Moment(0.0, "server", "node0", "commandFinished", "insert", 7, "insert → ok"),),
    causes=("one attempt too few",),
)
SKIPPED = replace(PASSED, id="writes/bulk::a", status=ResultStatus.SKIPPED, reason="needs topology sharded")
KNOWN = replace(FAILED, id="writes/bulk::b", status=ResultStatus.KNOWN_FAILING, reason="PYTHON-1")
STALE = replace(PASSED, id="writes/bulk::c", status=ResultStatus.UNEXPECTED_PASS, reason="it passed")
NOT_RUN = replace(PASSED, id="writes/bulk::d", status=ResultStatus.NOT_RUN, reason="interrupted by SIGTERM")
ALL = [PASSED, FAILED, SKIPPED, KNOWN, STALE]
SETTINGS = Settings(time="real", seed=7, drivers=(("reference", "pushbackd 0.1.0"),))


def terminal_text(results: list[Result], style: terminal.Style = terminal.Style()) -> str:  # noqa: B008 - frozen
    return click.unstyle("\n".join(terminal.report(results, SETTINGS, style)))


# JSON Lines


def test_json_lines_have_exactly_the_promised_fields_and_end_with_the_totals() -> None:
    stream = io.StringIO()
    lines = JsonLines(stream, SETTINGS)
    for result in [*ALL, NOT_RUN]:
        lines.result(result)
    lines.summary(Tally.of([*ALL, NOT_RUN]), unusable_files=2)
    *cases, last = map(json.loads, stream.getvalue().splitlines())
    assert cases[1] == {
        "id": "writes/insert::fails 'once'",
        "status": "failed",
        "reason": "the result is not what was expected",
        "topology": "replicaset",
        "adapter": "reference",
        "driver": "pushbackd 0.1.0",
        "edition": "2026-02-20",
        "duration_ms": 40.0,
    }
    assert [case["status"] for case in cases] == [status.value for status in ResultStatus]
    assert last == {
        "summary": {
            "passed": 1,
            "failed": 1,
            "skipped": 1,
            "known-failing": 1,
            "unexpected-pass": 1,
            "not-run": 1,
            "unusable-files": 2,
        }
    }


# JUnit


@pytest.fixture
def suites(tmp_path: Path) -> ET.Element:
    path = tmp_path / "reports" / "junit.xml"
    junit.write(path, [*ALL, replace(PASSED, adapter="pymongo-async")], settings=SETTINGS)
    return ET.parse(path).getroot()


def test_junit_has_a_suite_for_each_driver_with_its_facts(suites: ET.Element) -> None:
    assert [suite.get("name") for suite in suites] == [
        "reference on replicaset",
        "pymongo-async on replicaset",
    ]
    properties = {element.get("name"): element.get("value") for element in suites[0].iter("property")}
    assert properties == {
        "adapter": "reference",
        "driver": "pushbackd 0.1.0",
        "topology": "replicaset",
        "edition": "2026-02-20",
        "server_version": "8.2.3",
        "seed": "7",
        "time": "real",
    }


def test_junit_counts_what_a_ci_server_shows(suites: ET.Element) -> None:
    counts = {name: suites[0].get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "5", "failures": "2", "errors": "0", "skipped": "2"}


def test_junit_names_the_specification_as_class_and_the_file_and_description_as_name(
    suites: ET.Element,
) -> None:
    case = suites[0].findall("testcase")[1]
    assert (case.get("classname"), case.get("name")) == ("writes", "insert::fails 'once'")
    assert (case.get("file"), case.get("line"), case.get("time")) == ("writes/insert.yml", "31", "0.040")


def test_junit_explains_a_failure_and_brings_the_journal(suites: ET.Element) -> None:
    case = suites[0].findall("testcase")[1]
    failure = case.find("failure")
    assert failure is not None
    assert failure.get("message") == "the result is not what was expected"
    assert failure.text is not None
    for said in (
        "writes/insert.yml:31",
        "insertedId: differs",
        "expected: 1",
        "actual:   2",
        "commandStartedEvent",
    ):
        assert said in failure.text
    assert "node0  commandFinished  insert → ok" in case.findtext("system-out", "")


def test_junit_gives_the_reason_of_a_skipped_and_of_a_known_failure(suites: ET.Element) -> None:
    messages = [element.get("message") for element in suites[0].iter("skipped")]
    assert messages == ["needs topology sharded", "PYTHON-1"]


def test_junit_replaces_characters_that_xml_cannot_hold(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    junit.write(path, [replace(FAILED, reason="a\0b")], settings=SETTINGS)
    failure = ET.parse(path).getroot().find(".//failure")
    assert failure is not None
    assert failure.get("message") == "a\N{REPLACEMENT CHARACTER}b"


# Terminal


def test_the_table_counts_by_file_and_shows_only_columns_that_are_used() -> None:
    table = terminal_text([PASSED, FAILED, SKIPPED]).splitlines()
    assert table[0] == "reference (pushbackd 0.1.0, edition 2026-02-20) on replicaset"
    assert table[1].split() == ["scenarios", "passed", "failed", "skipped", "time"]
    assert table[2].split() == ["writes/insert", "1", "1", "·", "0.05", "s"]
    assert table[3].split() == ["writes/bulk", "·", "·", "1", "0.01", "s"]


@pytest.mark.parametrize(
    ("style", "timeline", "told"),
    [
        (terminal.Style(), FAILED.timeline, "events of clients (left) and servers (right), in seconds:"),
        (terminal.Style(-1), FAILED.timeline, "timeline: left out; -v shows it"),
        (terminal.Style(), (), "timeline: nothing was observed"),
    ],
)
def test_a_failure_has_its_timeline_or_a_word_on_it_and_the_command_that_explains_it(
    style: terminal.Style, timeline: tuple[Moment, ...], told: str
) -> None:
    text = terminal_text([replace(FAILED, timeline=timeline)], style)
    below = text[text.index(f"  {told}\n") :]
    assert "\n  explain: pushbackd explain 'writes/insert.yml::fails '" in below
    assert below.index("  explain: ") < below.index("  again: ")


def of_many_files() -> list[Result]:
    return [replace(PASSED, id=f"{spec}/{n}::a") for spec in ("crud", "sessions") for n in range(20)]


def test_the_table_of_many_files_counts_by_specification() -> None:
    table = terminal_text([*of_many_files(), FAILED]).splitlines()[2:5]
    assert [row.split()[:3] for row in table] == [
        ["crud", "20", "·"],
        ["sessions", "20", "·"],
        ["writes", "·", "1"],
    ]


def test_a_verbose_table_has_the_files_below_their_specification() -> None:
    table = terminal_text(of_many_files(), terminal.Style(verbosity=1)).splitlines()[2:]
    assert [row.split()[:2] for row in table[:3]] == [["crud", "20"], ["0", "1"], ["1", "1"]]
    assert table[0].startswith("  crud")
    assert table[1].startswith("    0")
    assert len(table) == 42


def test_all_tables_of_a_run_of_many_files_count_by_specification() -> None:
    many = [replace(PASSED, id=f"writes/{number}::works") for number in range(40)]
    text = terminal_text([*many, replace(PASSED, topology="no-server")])
    rows = [line.split()[0] for line in text.splitlines() if line.startswith("  ")]
    assert rows == ["scenarios", "writes", "scenarios", "writes"]


def test_skip_reasons_are_grouped_and_counted() -> None:
    second, third = (replace(SKIPPED, id=f"writes/bulk::{name}") for name in "bc")
    other = replace(SKIPPED, id="writes/bulk::d", reason="needs sessions")
    text = terminal_text([SKIPPED, second, third, other])
    assert "Skipped: 4\n      3 x needs topology sharded\n      1 x needs sessions" in text


def test_a_case_that_is_skipped_on_several_deployments_for_one_reason_counts_once() -> None:
    on = ("single", "replicaset")
    results = [
        replace(SKIPPED, topology=name, reason=f"needs topology sharded, this is {name}") for name in on
    ]
    text = terminal_text([PASSED, *results])
    assert "Skipped: 1 cases, 2 times\n      1 x needs topology sharded\n" in text


def test_a_failure_shows_the_place_the_mismatch_both_values_the_events_and_how_to_run_it_again() -> None:
    text = terminal_text([FAILED])
    for line in (
        "FAILED writes/insert::fails 'once'  [reference, replicaset]",
        "  writes/insert.yml:31: the result is not what was expected",
        "  insertedId: differs",
        "    expected: 1",
        "    actual:   2",
        "  events of client0, expected and actual:",
        "    = commandStartedEvent insert {}",
        "  → - expected commandSucceededEvent insert  (line 41)",
        "  likely cause:",
        "    one attempt too few",
    ):
        assert line in text.splitlines()
    assert "--seed 7" in text
    assert "-k" in text


def test_the_first_failures_show_what_both_sides_did_and_verbose_reports_show_it_of_all() -> None:
    many = [replace(FAILED, id=f"writes/insert::{n}", cause=f"cause {'x' * n}") for n in range(8)]
    shown = "0.000000" + " " * 74 + "node0  commandFinished  insert → ok"
    assert terminal_text(many).count(shown) == 5
    assert terminal_text(many, terminal.Style(verbosity=1)).count(shown) == 8


def test_a_quiet_report_shows_failures_only() -> None:
    text = terminal_text(ALL, terminal.Style(verbosity=-1))
    assert text.startswith("FAILED writes/insert")
    assert "scenarios" not in text
    assert "needs topology sharded" not in text


def test_the_longest_cases_come_first() -> None:
    text = terminal_text([PASSED, FAILED], terminal.Style(verbosity=-1, durations=1))
    assert "0.040 s  writes/insert::fails 'once'" in text
    assert "0.013 s" not in text


def test_the_summary_counts_what_happened() -> None:
    line = terminal.summary(Tally.of([PASSED, FAILED, STALE]), SETTINGS, seconds=1.234, notes=["interrupted"])
    said = "1 passed, 1 failed, 1 unexpected-pass in 1.23 s (real time, seed 7), interrupted"
    assert click.unstyle(line) == said


def test_a_line_for_each_case_gives_the_reason_of_one_that_did_not_pass() -> None:
    assert "(needs topology sharded)" in click.unstyle(terminal.case_line(SKIPPED))
    assert click.unstyle(terminal.case_line(PASSED)).endswith("[reference, replicaset] 12 ms")


# Journals


ITEM = Item("a b/c::d/e", "c.yml", 0, "reference", "2026-02-20", "replicaset")
RECORDS = [
    Record(10.5, 3, "node0", ConnectionClosed(1, "peer")),
    Record(10.75, 4, "node1", PrimaryElected("localhost:2", 3)),
]
EVENTS = {
    "client0": (
        Event("commandStartedEvent", {"commandName": "insert"}, 10.25),
        Event("poolReadyEvent", {}, 10.5),
    )
}


def timeline() -> CaseTimeline:
    return CaseTimeline.of(RECORDS, EVENTS, origin=10.0)


def test_a_journal_merges_both_sides_by_time_and_counts_from_the_start_of_the_case() -> None:
    assert [json.loads(line) for line in timeline().to_json_lines().splitlines()] == [
        {"at": 0.25, "source": "client0", "kind": "commandStartedEvent", "commandName": "insert"},
        {"at": 0.5, "source": "node0", "kind": "connectionClosed", "connection": 1, "reason": "peer"},
        {"at": 0.5, "source": "client0", "kind": "poolReadyEvent"},
        {"at": 0.75, "source": "node1", "kind": "primaryElected", "member": "localhost:2", "term": 3},
    ]


def test_a_journal_never_holds_an_address_in_memory() -> None:
    events = {"client0": (Event("commandFailedEvent", {"failure": object()}),)}
    assert '"failure":{"type":"object"}' in CaseTimeline.of([], events, origin=0.0).to_json_lines()


def test_a_reader_sees_clients_on_the_left_and_servers_on_the_right() -> None:
    client, server, *_ = two_columns(timeline().moments(began=0.0, ended=1.0))
    assert client.startswith("   0.250000  client0  commandStartedEvent")
    assert server.startswith("   0.500000  " + " " * 72 + "node0  connectionClosed")


def test_a_reader_sees_what_happened_between_two_instants_and_no_small_talk() -> None:
    talk = Record(10.3, 1, "node0", CommandFinished("hello", "admin", 1, 1, None, None, "ok"))
    moments = CaseTimeline.of([talk, *RECORDS], EVENTS, origin=10.0).moments(began=0.25, ended=0.5)
    assert [moment.kind for moment in moments] == [
        "commandStartedEvent",
        "connectionClosed",
        "poolReadyEvent",
    ]


def test_each_item_has_a_journal_file_of_its_own_with_a_name_for_any_file_system(tmp_path: Path) -> None:
    assert timeline().write(tmp_path / "journals", ITEM).read_text() == timeline().to_json_lines()
    names = {
        file_name(item) for item in (ITEM, replace(ITEM, id="a-b/c::d/e"), replace(ITEM, topology="single"))
    }
    assert len(names) == 3
    assert all(name.isascii() and not set(name) & set(' /\\:*?"<>|') for name in names)


# Text


def test_values_are_extended_json_and_what_json_cannot_hold_is_shown_as_python_does() -> None:
    assert one_line({"a": [1, None]}) == '{"a": [1, null]}'
    assert one_line({"a": int}) == "{'a': <class 'int'>}"


def test_a_value_whose_own_form_cannot_be_had_is_named_by_its_type() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise LookupError

    assert one_line({"a": Broken()}) == "<dict: its repr raises LookupError>"


LONG = "x" * 5000


def test_a_reader_of_a_terminal_sees_the_width_of_a_column_and_of_a_file_the_whole() -> None:
    moment = Moment(0.0, "client", "client0", "commandStartedEvent", "insert", 1, LONG)
    (line,), (whole,) = two_columns([moment]), two_columns([moment], whole=True)
    assert len(line) < 100
    assert whole.endswith(LONG)


def test_a_junit_report_has_long_values_and_timelines_to_their_ends(tmp_path: Path) -> None:
    row = Row("client0", "differs", f"a {LONG}1", f"a {LONG}2", 1)
    moment = Moment(0.0, "client", "client0", "commandStartedEvent", "insert", 1, f"{LONG}3")
    failed = replace(FAILED, expected=f"{LONG}4", actual=f"{LONG}5", comparison=(row,), timeline=(moment,))
    junit.write(tmp_path / "report.xml", [failed], settings=SETTINGS)
    text = (tmp_path / "report.xml").read_text()
    assert all(f"{LONG}{number}" in text for number in range(1, 6))


def test_a_terminal_shows_long_values_short_unless_every_message_is_wanted() -> None:
    row = Row("client0", "differs", f"a {LONG}1", f"a {LONG}2", 1)
    failed = replace(FAILED, expected=f"{LONG}4", actual=f"{LONG}5", comparison=(row,))

    def shown(settings: Settings) -> str:
        return "\n".join(terminal.account(failed, settings))

    assert not any(f"{LONG}{number}" in shown(SETTINGS) for number in (1, 2, 4, 5))
    assert all(f"{LONG}{number}" in shown(replace(SETTINGS, wire=True)) for number in (1, 2, 4, 5))


def test_long_text_is_cut_with_an_ellipsis() -> None:
    assert shortened("abcdef", 4) == "abc…"
    assert shortened("abcd", 4) == "abcd"
