from __future__ import annotations

import re
from time import process_time
from xml.etree import ElementTree as ET

import pytest
from made_results import HOSTILE, answered, asked, hit, marked, retried, served

from harness.explaining.journal import TimelineEvent
from harness.explaining.sequence import Lane, RowKind, read
from harness.planning.result import Moment
from harness.report.pages import markup
from harness.report.picture import drawing, svg

NAMESPACE = "{http://www.w3.org/2000/svg}"
CLIENT, NODE = Lane("client", "client0"), Lane("server", "node0")


def kinds(*timeline: Moment) -> list[str]:
    return [f"{row.kind} {row.lane.name}" for row in read(timeline).rows]


def picture(*timeline: Moment, title: str = "insert again") -> ET.Element:
    return ET.fromstring(svg(timeline, title=title))


def texts(root: ET.Element) -> list[str]:
    return ["".join(text.itertext()) for text in root.iter(f"{NAMESPACE}text")]


# What belongs together


def test_a_command_is_an_arrow_there_and_one_back() -> None:
    assert kinds(asked(0, 1), served(0.001, 1, "ok"), answered(0.002, 1)) == ["ask client0", "reply client0"]


def test_a_reply_that_takes_its_time_begins_where_the_server_sent_it() -> None:
    late = kinds(asked(0, 1), served(0.001, 1, "ok"), marked(0.002, "poolReadyEvent"), answered(0.003, 1))
    assert late == ["ask client0", "served node0", "mark client0", "reply client0"]


def test_a_server_s_word_that_comes_after_the_reply_bends_no_arrow() -> None:
    timeline = [asked(0, 1), answered(0.001, 1), served(0.002, 1, "ok")]
    assert kinds(*timeline) == ["ask client0", "reply client0", "served node0"]
    arrow = picture(*timeline).find(f"{NAMESPACE}g[@class='reply']/{NAMESPACE}path")
    assert arrow is not None
    assert re.fullmatch(r"M\d+ 0L\d+ 0", arrow.get("d", ""))


def test_request_ids_of_several_clients_are_not_mixed_up() -> None:
    rows = read(
        [
            asked(0, 7),
            served(0.001, 7, "ok", name="drop"),
            served(0.002, 7, "ok"),
            answered(0.003, 7),
        ]
    ).rows
    assert [row.kind for row in rows] == [RowKind.ASK, RowKind.MARK, RowKind.REPLY]
    assert rows[1].marks == {NODE: ["drop → ok"]}


def test_attempts_are_counted_within_an_operation() -> None:
    operation = Moment(0, "test", "coll", "operation", "insertOne", None, "insertOne {}")
    ended = Moment(0.9, "test", "coll", "operationEnded", "insertOne", None, "insertOne done")
    failing = (asked(0.1, 1), served(0.2, 1, "disconnect"), answered(0.3, 1, well=False))
    timeline = [operation, *failing, *failing, asked(0.5, 3), ended, operation, asked(1.1, 4)]
    commands = [row.command for row in read(timeline).rows if row.kind is RowKind.ASK]
    assert [command.attempt for command in commands if command] == [1, 2, 3, 1]


def test_a_write_that_succeeds_with_a_failpoint_s_write_concern_error_is_retried_too() -> None:
    timeline = [
        asked(0, 1),
        hit(0.001, "writeConcernError"),
        served(0.002, 1, "ok"),
        answered(0.003, 1),
        asked(0.004, 2),
    ]
    commands = [row.command for row in read(timeline).rows if row.kind is RowKind.ASK]
    assert [command.attempt for command in commands if command] == [1, 2]


def test_the_next_command_of_an_operation_is_no_retry_of_one_that_went_well() -> None:
    timeline = [asked(0, 1), served(0.001, 1, "ok"), answered(0.002, 1), asked(0.003, 2)]
    commands = [row.command for row in read(timeline).rows if row.kind is RowKind.ASK]
    assert [command.attempt for command in commands if command] == [1, 1]


def test_marks_of_one_lane_share_a_row_until_somebody_waits() -> None:
    rows = read(
        [
            marked(0, "connectionCheckedInEvent"),
            marked(0.001, "connectionCheckOutStartedEvent"),
            marked(0.3, "connectionCheckedOutEvent"),
        ]
    ).rows
    assert [row.marks[CLIENT] for row in rows] == [["checked in", "check out started"], ["checked out"]]


def test_marks_of_one_instant_share_a_row_and_bad_ones_stand_alone() -> None:
    rows = read(
        [
            marked(0, "connectionAccepted", source="node0", side="server"),
            marked(0, "connectionAccepted", source="node1", side="server"),
            marked(0, "poolClearedEvent"),
        ]
    ).rows
    assert [(len(row.marks), row.bad) for row in rows] == [(2, False), (1, True)]


def test_lanes_are_the_test_then_clients_then_servers_by_name() -> None:
    timeline = [
        marked(0, "connectionAccepted", source="node1", side="server"),
        marked(0, "poolCreatedEvent", source="idle"),
        *retried(),
    ]
    assert [lane.name for lane in read(timeline).lanes] == ["test", "idle", "client0", "node0", "node1"]


def test_a_server_without_a_row_of_its_own_has_a_lane_that_the_arrows_end_at() -> None:
    timeline = [asked(0, 1), served(0.001, 1, "ok"), answered(0.002, 1)]
    assert [lane.name for lane in read(timeline).lanes] == ["client0", "node0"]
    assert {"client0", "node0"} < set(texts(picture(*timeline)))


@pytest.mark.parametrize(
    ("outcome", "label", "bad"),
    [("ok", "ok", False), (462, "error 462", True), ("disconnect", "disconnect", True)],
)
def test_a_reply_has_the_word_of_the_server_s_journal(outcome: str | int, label: str, bad: bool) -> None:  # noqa: FBT001 - a column of the table
    fields = {
        "name": "insert",
        "db": "db",
        "request_id": 1,
        "connection": 6,
        "txn_number": 1,
        "outcome": outcome,
    }
    said = TimelineEvent(0.001, 1, "server", "node0", "commandFinished", fields).to_moment()
    reply = read([asked(0, 1), said, answered(0.002, 1, well=not bad)]).rows[-1]
    assert (reply.label, reply.bad) == (label, bad)


# How it looks


def test_a_picture_is_a_file_of_its_own_with_a_title_and_a_description() -> None:
    root = picture(*retried(), title="writes/insert::again & again")
    assert root.findtext(f"{NAMESPACE}title") == "writes/insert::again & again"
    assert (
        root.findtext(f"{NAMESPACE}desc") == "commands: 2, failed: 1, retries: 1, fail point hits: 1; 206 ms"
    )
    assert root.findtext(f"{NAMESPACE}style") == markup.palette() + markup.sheet("sequence")
    assert root.get("role") == "img"


def test_a_wait_is_a_break_and_a_retry_is_numbered() -> None:
    said = texts(picture(*retried(wait=0.2)))
    assert "200 ms" in said
    assert "insert attempt 2" in said
    assert "failCommand: error 462" in said


def test_a_wait_of_seconds_is_told_in_seconds() -> None:
    assert "12 s" in texts(picture(*retried(wait=12)))


def test_every_moment_is_told_in_full_to_who_points_at_it() -> None:
    titles = [title.text or "" for title in picture(*retried()).findall(f"{NAMESPACE}g/{NAMESPACE}title")]
    lines = "\n".join(titles).splitlines()
    assert len(lines) == len(retried())
    assert lines[0] == '0.0  collection0  operation  insertOne {"document": {"_id": 1}}'


def test_what_went_wrong_is_marked() -> None:
    bad = [group.get("class", "") for group in picture(*retried()).iter(f"{NAMESPACE}g")]
    assert [name for name in bad if "bad" in name] == ["hit bad", "reply bad"]


def test_a_command_that_no_journal_knows_is_an_arrow_into_nowhere() -> None:
    root = picture(asked(0, 1), answered(0.001, 1))
    assert {"insert", "ok", "client0"} <= set(texts(root))


def test_hostile_text_stays_text() -> None:
    timeline = tuple(moment._replace(text=HOSTILE, source=HOSTILE) for moment in retried())
    root = picture(*timeline, title=HOSTILE)
    assert root.find(f".//{NAMESPACE}img") is None
    assert root.find(f".//{NAMESPACE}script") is None
    assert svg(timeline, title=HOSTILE).encode()


def test_the_same_timeline_gives_the_same_bytes() -> None:
    assert svg(retried(), title="a") == svg(retried(), title="a")


def test_nothing_gives_no_picture_in_a_page_and_a_picture_that_says_so_in_a_file() -> None:
    assert drawing((), title="a") == ""
    assert texts(picture(title="a & b")) == ["Nothing happened in this case."]


def test_long_names_and_labels_stay_within_the_paper() -> None:
    timeline = [
        moment._replace(source="client-of-which-the-name-is-so-long-that-nobody-can-read-it" * 3)
        for moment in retried()
    ]
    width = int(picture(*timeline).get("width", "0"))
    assert width < 1500


def test_a_tall_picture_names_its_lanes_at_both_ends() -> None:
    assert texts(picture(*retried())).count("client0") == 1
    assert texts(picture(*retried() * 5)).count("client0") == 2


def test_a_picture_is_drawn_in_milliseconds() -> None:
    timeline = retried() * 4
    began = process_time()
    for _ in range(200):
        drawing(timeline, title="a")
    assert (process_time() - began) / 200 < 0.01, "a picture of 48 moments takes about a millisecond"
