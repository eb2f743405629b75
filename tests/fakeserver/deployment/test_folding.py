"""A journal in a few lines: what repeats is one of them, and verbs, hits and errors are never pushed out."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from fakeserver.deployment.records.journal import FEW, folded, lines_of

Document = dict[str, Any]


class Written:
    """Records of a journal, a tenth of a second after one another."""

    def __init__(self) -> None:
        self.documents: list[Document] = []
        self._numbers = count(1)

    def enter(self, kind: str, **fields: Any) -> None:
        seq = next(self._numbers)
        self.documents.append({"seq": seq, "at": seq / 10, "node": "node0", "kind": kind, **fields})

    def request(self, command: str, outcome: str | int = "ok", **fields: Any) -> None:
        about = {"command": command, "namespace": "shop.jobs", "connection": 3, "duration": 0.0}
        self.enter("commandFinished", **about, verdict="admitted", outcome=outcome, **fields)

    def hit(self, rule: str = "slow") -> None:
        self.enter("ruleHit", rule=rule, command="insert", connection=3, effect="delay")

    def kept(self, most: int = 60) -> list[tuple[str, int]]:
        """Return what the lines are about, each with its count."""
        folds, _ = folded(self.documents, most)
        return [
            (fold.first.get("rule") or fold.first.get("command") or fold.first["kind"], fold.size)
            for fold in folds
        ]


@pytest.fixture
def written() -> Written:
    return Written()


def test_a_worker_that_polls_does_not_push_the_hit_out(written: Written) -> None:
    written.hit()
    for _ in range(500):
        written.request("find")
        written.request("update")
    assert written.kept() == [("slow", 1), ("find", 500), ("update", 500)]
    assert lines_of(written.documents, 60)[1] == (
        "     0.200      #2  node0         find shop.jobs -> ok  [conn3]"
        "  (500 times, the last at 100.000 as #1000)"
    )


def test_a_few_equal_records_have_a_line_each(written: Written) -> None:
    for _ in range(FEW):
        written.request("find")
    assert written.kept() == [("find", 1)] * FEW


def test_what_comes_before_an_event_is_not_folded_with_what_comes_after_it(written: Written) -> None:
    for command in ("find", "find", "find", "find", "insert"):
        written.request(command)
    written.hit()
    for _ in range(5):
        written.request("find")
    assert written.kept() == [("find", 4), ("insert", 1), ("slow", 1), ("find", 5)]


def test_an_error_has_a_line_of_its_own_among_what_succeeds(written: Written) -> None:
    for number in range(50):
        written.request("find", 462 if number == 20 else "ok")
    folds, _ = folded(written.documents, 60)
    assert [(fold.is_error, fold.size) for fold in folds] == [(False, 49), (True, 1)]


def test_of_an_event_that_comes_often_the_first_two_and_the_last_stay(written: Written) -> None:
    for _ in range(20):
        written.hit()
    assert written.kept() == [("slow", 1), ("slow", 1), ("slow", 17), ("slow", 1)]


@pytest.mark.parametrize("most", [3, 10])
def test_where_there_are_too_many_lines_those_of_success_go_first(written: Written, most: int) -> None:
    written.request("insert", 462)
    written.hit()
    for number in range(30):
        written.request(f"command{number}")
    written.enter("verbPerformed", verb="kill", arguments={})
    kept = [about for about, _ in written.kept(most)]
    assert {"insert", "slow", "verbPerformed"} <= set(kept)
    assert len(kept) == most
    assert lines_of(written.documents, most)[0] == (
        f"… {33 - most} records left out, of requests that succeeded first"
    )


def test_the_lines_are_bounded_all_the_same(written: Written) -> None:
    for number in range(100):
        written.hit(f"rule{number}")
    assert [about for about, _ in written.kept(10)] == [f"rule{number}" for number in range(90, 100)]
