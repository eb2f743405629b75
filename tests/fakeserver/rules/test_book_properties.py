"""Properties of rules that hold whatever the order of requests."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from ruled import FIND, KNOWN, book_of, code_of

from fakeserver.rules.book import RuleBook
from fakeserver.rules.parsing import parse_rule
from fakeserver.rules.rule import PER, OperationAttempt
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.rules.rule import Asked


@st.composite
def requests(draw: st.DrawFn) -> Asked:
    operation = OperationAttempt(draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    node, app_name = draw(st.sampled_from(["node0", "node1"])), draw(st.sampled_from(["a", "b"]))
    return replace(
        FIND, operation=operation, node=node, app_name=app_name, connection=draw(st.integers(1, 2))
    )


KEYS: dict[str, Callable[[Asked], object]] = {
    "operation": lambda asked: asked.operation.number,
    "connection": lambda asked: (asked.node, asked.connection),
    "application": lambda asked: asked.app_name,
    "rule": lambda _: None,
}


@given(st.lists(requests(), max_size=15), st.sampled_from(PER), st.integers(1, 4))
def test_the_kth_match_gets_the_kth_step_whatever_comes_between(
    asked: list[Asked], per: str, length: int
) -> None:
    steps = [[{"error": 1000 + number}] for number in range(length)]
    book, counts = book_of({"sequence": steps, "per": per}), Counter[object]()
    for each in asked:
        key = KEYS[per](each)
        expected = 1000 + counts[key] if counts[key] < length else None
        counts[key] += 1
        assert code_of(book.decide(each, 0.0)) == expected


@given(st.integers(1, 20), st.integers(1, 5), st.integers(1, 5))
def test_every_kth_match_is_met_until_the_times_are_used_up(sent: int, every: int, times: int) -> None:
    book = book_of({"when": {"every": every}, "then": [{"error": 1}], "times": times})
    met = [number for number in range(1, sent + 1) if code_of(book.decide(FIND, 0.0)) is not None]
    assert met == list(range(every, sent + 1, every))[:times]
    assert bool(book.active) is (len(met) < times)


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=8))
def test_delays_add_up_to_the_first_answer(rules: list[tuple[int, bool]]) -> None:
    documents = [
        {"then": [{"delay": f"{seconds}s"}, *([{"error": number}] if answers else [])]}
        for number, (seconds, answers) in enumerate(rules, 1)
    ]
    first = next((number for number, (_, answers) in enumerate(rules, 1) if answers), None)
    ruling = book_of(*documents).decide(FIND, 0.0)
    assert ruling.delay == sum(seconds for seconds, _ in rules[:first])
    assert code_of(ruling) == first
    assert len(ruling.hits) == (first or len(rules))


@given(st.floats(0, 1), st.integers(0, 100))
def test_the_same_seed_draws_the_same(share: float, seed: int) -> None:
    def run() -> list[int | None]:
        book = RuleBook(SeededRng(seed), 0.0)
        rule = {"name": "lossy", "when": {"probability": share}, "then": {"error": 1}}
        book.add(parse_rule(rule, KNOWN), 0.0)
        return [code_of(book.decide(FIND, 0.0)) for _ in range(20)]

    assert run() == run()


def test_a_rule_draws_the_same_whatever_other_rules_there_are() -> None:
    lossy, other = (
        {"name": name, "when": {"probability": 0.5}, "then": {"label": "RetryableError"}}
        for name in ("lossy", "other")
    )

    def drawn(*rules: dict[str, Any]) -> list[bool]:
        book = book_of(*rules)
        return ["lossy" in dict(book.decide(FIND, 0.0).hits) for _ in range(50)]

    assert drawn(lossy) == drawn(other, lossy)
    assert 10 < sum(drawn(lossy)) < 40


def test_a_rule_is_over_after_its_time() -> None:
    book = book_of({"then": {"error": 1}, "for": "2s"}, {"then": {"error": 2}, "until": "3s"})
    assert [code_of(book.decide(FIND, at)) for at in (0.0, 1.9, 2.0, 2.9, 3.0)] == [1, 1, 2, 2, None]
    assert book.active == ()
    assert [rule["over"] for rule in book.listed(3.0)] == [True, True]


def test_a_book_names_rules_and_forgets_their_numbers_when_it_is_cleared() -> None:
    book = book_of({"then": {"error": 1}}, {"then": {"error": 2}, "name": "rule2"}, {"then": {"error": 3}})
    assert [rule["id"] for rule in book.listed(0.0)] == ["rule1", "rule2", "rule3"]
    book.clear()
    assert book.add(parse_rule({"then": {"error": 1}}, KNOWN), 0.0).id == "rule1"
    assert RuleBook(SeededRng(1), 0.0).unmet() == ""
