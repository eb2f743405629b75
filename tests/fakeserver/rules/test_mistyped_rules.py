"""A mistyped rule is refused in one line, with the place and the cure, and nothing is added."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruled import KNOWN
from talking import Deployment, play

from fakeserver.rules.book import RuleBook
from fakeserver.rules.parsing import effects_of, parse_rule
from mongowire.documents.errors import ControlError
from mongowire.system import SeededRng

ERROR = [{"error": 462}]

MISTYPED: list[tuple[dict[str, Any], str]] = [
    ({"whem": {}, "then": ERROR}, "unknown field 'whem'; did you mean 'when'?"),
    (
        {"when": {"comand": "find"}, "then": ERROR},
        "when: unknown condition 'comand'; did you mean 'command'?",
    ),
    (
        {"when": {"command": "finde"}, "then": ERROR},
        "when.command: unknown command 'finde'; did you mean 'find'?",
    ),
    (
        {"when": {"command": ["find", "Insert"]}, "then": ERROR},
        "when.command: unknown command 'Insert'; did you mean 'insert'?",
    ),
    (
        {"when": {"command": "zzz"}, "then": ERROR},
        "when.command: unknown command 'zzz'; the command listCommands returns those that exist",
    ),
    ({"when": {"command": []}, "then": ERROR}, "when.command: the list of commands is empty"),
    (
        {"when": {"command": "configureFailPoint"}, "then": ERROR},
        "when.command: no rule covers configureFailPoint, which ends faults",
    ),
    (
        {"when": {"namespace": "orders"}, "then": ERROR},
        "when.namespace: 'orders' is no namespace; write 'db.collection', or 'db.*' for a database",
    ),
    (
        {"when": {"namespace": "shop.ord*"}, "then": ERROR},
        "when.namespace: 'shop.ord*': a star stands for every collection of a database, as in 'shop.*'",
    ),
    (
        {"when": {"node": "primry"}, "then": ERROR},
        "when.node: unknown server 'primry'; did you mean 'primary'?",
    ),
    ({"when": {"nth": 0}, "then": ERROR}, "when.nth: 0 is less than 1; counts begin with 1"),
    ({"when": {"nth": 1, "every": 2}, "then": ERROR}, "when.every: nth and every exclude each other"),
    ({"when": {"attempt": "first"}, "then": ERROR}, "when.attempt: 'first' is no number"),
    (
        {"when": {"probability": "200%"}, "then": ERROR},
        "when.probability: '200%' is more than 1; write a number from 0 to 1, or a percentage like '2%'",
    ),
    (
        {"when": {"document": {"a": {"$gtt": 1}}}, "then": ERROR},
        "when.document: no filter: unknown operator: $gtt",
    ),
    ({"then": [{"eror": 462}]}, "then[0]: unknown effect 'eror'; did you mean 'error'?"),
    ({"then": [{"error": 0}]}, "then[0].error: 0 is no error code"),
    (
        {"then": {"error": "NotWriteablePrimary"}},
        "then.error: unknown code name 'NotWriteablePrimary'; did you mean 'NotWritablePrimary'?",
    ),
    ({"then": {"error": "Zzz"}}, "then.error: unknown code name 'Zzz'; write the code's number"),
    (
        {"then": [{"delay": "1s"}, {"error": 91, "labels": ["RetriableError"]}]},
        "then[1].labels: unknown label 'RetriableError'; did you mean 'RetryableError'?",
    ),
    (
        {"then": [{"delay": "1s", "labels": ["RetryableError"]}]},
        "then[0].labels: labels goes with an error, and there is none; label adds labels to any reply",
    ),
    (
        {"then": [{"error": 91, "extra": {"codeName": "x"}}]},
        "then[0].extra.codeName: the name belongs to the code",
    ),
    (
        {"then": [{"delay": "200ms"}, {"delay": "200 ms"}]},
        "then[1].delay: '200 ms' is no duration; write one with its unit, such as '200ms' or '1m30s'",
    ),
    (
        {"then": [{"close": True}, {"error": 91}]},
        "then: close and error are both answers; a request gets one",
    ),
    ({"then": [{"close": "yes"}]}, "then[0].close: write close: true, or leave it out"),
    (
        {"then": [{"writeConcernError": {"errmsg": "x"}}]},
        "then[0].writeConcernError: a write concern error needs a code",
    ),
    (
        {"then": "error"},
        "then: 'error' is no list of effects; write a document of each, as [{error: 462}]",
    ),
    (
        {"when": {"command": "find"}},
        "the rule does nothing; write what comes of it: then, sequence or expect",
    ),
    (
        {"sequence": [[{"error": 462}], [{"eror": 1}]]},
        "sequence[1][0]: unknown effect 'eror'; did you mean 'error'?",
    ),
    (
        {"sequence": [], "per": "rule"},
        "sequence: [] is no list of steps; write a list of lists of effects",
    ),
    (
        {"sequence": [ERROR], "per": "conection"},
        "per: unknown value 'conection'; did you mean 'connection'?",
    ),
    ({"then": ERROR, "sequence": [ERROR]}, "sequence: a rule has then or a sequence, not both"),
    ({"then": ERROR, "per": "rule"}, "per: per belongs to a sequence"),
    ({"then": ERROR, "times": 0}, "times: 0 is less than 1; counts begin with 1"),
    ({"then": ERROR, "for": 0}, "for: the time is 0: the rule would never hold"),
    ({"then": ERROR, "name": "all"}, "name: no rule is named 'all', which stands for every rule"),
    ({"expect": {"min": 3, "max": 2}}, "expect: max is 2, less than min, which is 3"),
    ({"expect": {"count": 1, "min": 2}}, "expect: count stands alone; write min and max for a range"),
]


@pytest.mark.parametrize(("rule", "message"), MISTYPED, ids=[message for _, message in MISTYPED])
def test_a_mistyped_rule_is_refused_in_one_line(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(ControlError) as raised:
        parse_rule(rule, KNOWN)
    assert str(raised.value) == message


def test_a_deployment_that_refuses_a_rule_adds_none() -> None:
    async def scenario(deployment: Deployment) -> None:
        control = deployment.cluster.control
        with pytest.raises(ControlError, match=r"^rule\.when: unknown condition 'comand'; did you mean"):
            control.add_rule({"when": {"comand": "find"}, "then": ERROR})
        with pytest.raises(
            ControlError, match=r"^rule\.when\.node: unknown server 'node3'; did you mean 'node"
        ):
            control.add_rule({"when": {"node": "node3"}, "then": ERROR})
        with pytest.raises(ControlError, match=r"unknown server 'mongos'; known are .*node0, node1"):
            control.add_rule({"when": {"node": "mongos"}, "then": ERROR})
        with pytest.raises(ControlError, match=r"^unknown condition 'namspace'; did you mean 'namespace'"):
            control.when("find", namspace="shop.*")  # type: ignore[call-arg]
        assert control.list_rules() == {"rules": []}

    play(scenario)


def test_a_reply_that_is_no_bson_is_refused() -> None:
    with pytest.raises(ControlError, match=r"^then\[0\]\.reply: no BSON: .*cannot encode object"):
        parse_rule({"then": [{"reply": {"a": object}}]}, KNOWN)


WORDS = st.sampled_from(
    [
        *(
            "name",
            "when",
            "then",
            "sequence",
            "per",
            "times",
            "for",
            "until",
            "expect",
            "count",
            "min",
            "max",
        ),
        *("command", "namespace", "appName", "node", "connection", "nth", "every", "attempt", "probability"),
        *("document", "error", "labels", "message", "extra", "delay", "close", "reply", "label"),
        *(
            "writeConcernError",
            "code",
            "ok",
            "find",
            "shop.orders",
            "RetryableError",
            "2%",
            "200ms",
            "$gt",
            "",
        ),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 500) | st.floats() | WORDS | st.just(1 << 70),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=4,
)
PARTS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("when", "then", "sequence", "per", "times", "for", "expect", "name"), VALUES),
)


@given(PARTS)
def test_whatever_a_rule_holds_it_is_read_or_refused(document: dict[str, Any]) -> None:
    try:
        rule = parse_rule(document, KNOWN)
    except ControlError as error:
        assert "\n" not in str(error)  # noqa: PT017 - one that is read is right as well
    else:
        assert RuleBook(SeededRng(1), 0.0).add(rule, 0.0).document(0.0)["rule"] == document


@given(st.dictionaries(st.sampled_from(["error", "delay", "reply", "label", "writeConcernError"]), VALUES))
def test_whatever_an_effect_holds_it_is_read_or_refused(document: dict[str, Any]) -> None:
    with suppress(ControlError):
        assert not effects_of([document]).is_nothing
