"""Attempts of operations against `expectAttempts`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bson import Timestamp
from seen import OK, OVERLOADED, request, requests

from harness.unified.entities import EntityMap
from harness.unified.loader import load
from harness.unified.server_side.attempt import attempts_of
from harness.unified.server_side.attempts import Facts, SeenOperation, is_selected, judge
from harness.unified.server_side.rules import EDITIONS, Timing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from harness.unified.server_side.model import ExpectedAttempts
    from harness.unified.server_side.rules import JudgedEdition
    from harness.unified.server_side.seen import SeenRequest

HEAD = 'description: d\nschemaVersion: "1.0"\ntests:\n  - description: one\n    operations: []\n'
VIRTUAL = Timing(round_trip=0.001)
REAL = Timing()
EDITION_2026_02_20, EDITION_2026_07_08 = EDITIONS.values()
NOT_PRIMARY = {"ok": 0, "code": 10107}


@pytest.fixture
def judged(tmp_path: Path) -> Judged:
    return Judged(tmp_path)


class Judged:
    """Judges an element of `expectAttempts`, written as in a file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "case.yml"

    def element(self, text: str) -> ExpectedAttempts:
        self.path.write_text(f"{HEAD}    pushbackd: {{expectAttempts: [{{command: find, {text}}}]}}\n")
        own = load(self.path).cases[0].server_side
        assert own is not None
        return own.attempts[0]

    def __call__(
        self,
        text: str,
        *operations: Sequence[SeenRequest],
        edition: JudgedEdition = EDITION_2026_02_20,
        timing: Timing = VIRTUAL,
        servers: frozenset[str] = frozenset(),
        options: Mapping[str, Any] | None = None,
    ) -> str | None:
        facts = Facts(edition, timing, EntityMap(), servers, lambda _: options or {})
        seen = [SeenOperation.of("find", sent, timing) for sent in operations]
        found = judge(self.element(text), seen, facts)
        return None if found is None else str(found)


def overloaded(*gaps: float, **more: Any) -> list[SeenRequest]:
    """Return attempts whose gaps, as the client waited, are these: a round trip is on top."""
    return requests(*(gap + 0.001 for gap in gaps), **more)


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("namespace: pushbackd.stock", True),
        ("namespace: pushbackd.other", False),
        ("appName: a", True),
        ("appName: b", False),
        ("comment: {x: 1}", True),
        ("comment: x", False),
        ("session: s", True),
    ],
)
def test_an_element_is_about_the_commands_that_it_names(text: str, *, selected: bool, judged: Judged) -> None:
    sent = request(app_name="a", command={"comment": {"x": 1}})
    assert is_selected(judged.element(text), sent, None) is selected
    assert not is_selected(judged.element(text), request(command={"find": None, "count": "stock"}), None)


def test_a_session_is_that_of_its_lsid(judged: Judged) -> None:
    element = judged.element("session: s")
    assert is_selected(element, request(), {"id": b"one"})
    assert not is_selected(element, request(), {"id": b"another"})


@pytest.mark.parametrize(
    ("reply", "ends"),
    [
        (OK, "ok"),
        (NOT_PRIMARY, "10107"),
        (NOT_PRIMARY, "NotWritablePrimary"),
        (NOT_PRIMARY, "[ok, 10107]"),
        ({"ok": 1, "writeErrors": [{"code": 11000}]}, "DuplicateKey"),
        ({"ok": 1, "writeConcernError": {"code": 91}}, "ShutdownInProgress"),
    ],
)
def test_an_attempt_meets_what_the_reply_says(reply: dict[str, Any], ends: str, judged: Judged) -> None:
    assert judged(f"each: {{meets: {ends}}}", [request(reply=reply)]) is None
    assert judged("each: {meets: 1}", [request(reply=reply)]) is not None


@pytest.mark.parametrize(
    ("end", "met"), [("server", "disconnect"), ("client", "silence"), ("open", "silence")]
)
def test_an_attempt_without_a_reply_meets_disconnect_or_silence(end: str, met: str, judged: Judged) -> None:
    sent = [request(reply=None, end=end)]
    assert judged(f"each: {{meets: {met}}}", sent) is None
    assert judged("each: {meets: ok}", sent) == (f"operation 1, attempt 1, meets: met {met}, ok expected")


def test_a_write_concern_error_is_not_ok(judged: Judged) -> None:
    sent = [request(reply={"ok": 1, "writeConcernError": {"code": 91}})]
    assert judged("each: {meets: ok}", sent) == (
        "operation 1, attempt 1, meets: met error 91 (ShutdownInProgress), ok expected"
    )


def test_the_number_of_operations_is_judged_where_it_is_given(judged: Judged) -> None:
    assert judged("operations: 2", [request()], [request()]) is None
    assert judged("operations: 1", [request()], [request()]) == (
        "operations: 1 operations were to send find, 2 did"
    )
    assert judged("each: {meets: ok}") is None
    assert judged("attempts: [{}]") == "operations: 1 operations were to send find, 0 did"


@pytest.mark.parametrize(
    ("edition", "options", "gaps"),
    [
        (EDITION_2026_02_20, {}, 5),
        (EDITION_2026_02_20, {"maxAdaptiveRetries": 1}, 5),
        (EDITION_2026_07_08, {}, 2),
        (EDITION_2026_07_08, {"maxAdaptiveRetries": 1}, 1),
    ],
)
def test_the_number_of_overload_retries_is_the_editions(
    edition: JudgedEdition, options: dict[str, Any], gaps: int, judged: Judged
) -> None:
    def with_gaps(number: int) -> str | None:
        return judged(
            "count: overload retries + 1", overloaded(*[0.0] * number), edition=edition, options=options
        )

    assert with_gaps(gaps) is None
    assert with_gaps(gaps + 1) == (
        f"operation 1, count: the operation had {gaps + 2} attempts, {gaps + 1} expected"
        " (overload retries + 1)"
    )
    assert with_gaps(gaps - 1) is not None


def test_a_list_of_attempts_is_exact(judged: Judged) -> None:
    text = "attempts: [{meets: 462}, {meets: ok}]"
    assert judged(text, [request(reply=OVERLOADED), request(1)]) is None
    assert judged(text, [request(reply=OVERLOADED), request(1, OVERLOADED)]) == (
        "operation 1, attempt 2, meets: met error 462 (IngressRequestRateLimitExceeded), ok expected"
    )
    assert judged(text, [request()]) == "operation 1, attempts: the operation had 1 attempt, 2 expected"


@pytest.mark.parametrize(
    ("name", "wrong"), [("first", [0]), ("retries", [1, 2]), ("each", [0, 1, 2]), ("last", [2])]
)
def test_each_field_is_about_its_attempts(name: str, wrong: list[int], judged: Judged) -> None:
    found = [
        judged(f"{name}: {{meets: ok}}", [request(at, OVERLOADED if at == bad else OK) for at in range(3)])
        for bad in range(3)
    ]
    assert [index for index, said in enumerate(found) if said] == wrong


# Gaps.

BOUNDS_02_20 = [0.1, 0.2, 0.4, 0.8, 1.6]


def test_a_backoff_may_be_as_long_as_the_edition_says_and_no_longer(judged: Judged) -> None:
    text = "retries: {gap: overload backoff}"
    assert judged(text, overloaded(*BOUNDS_02_20)) is None
    assert judged(text, overloaded(0, 0, 0)) is None
    for retry in range(5):
        gaps = [0.0] * retry + [BOUNDS_02_20[retry] + 0.00001]
        said = judged(text, overloaded(*gaps))
        assert said is not None
        assert said.startswith(f"operation 1, attempt {retry + 2}, gap: began {gaps[-1] * 1000:.2f} ms after")
    assert judged(text, overloaded(0.100002)) == (
        "operation 1, attempt 2, gap: began 100.002 ms after the end of the attempt before,"
        " 0 to 100 ms expected (overload backoff, 2026-02-20)"
    )


def test_the_later_edition_doubles_first_and_takes_the_base_of_the_server(judged: Judged) -> None:
    text, later = "retries: {gap: full overload backoff}", EDITION_2026_07_08
    assert judged(text, overloaded(0.2, 0.4), edition=later) is None
    assert judged(text, overloaded(0.1, 0.2), edition=later) is not None
    advised = {**OVERLOADED, "baseBackoffMS": 10}
    assert judged(text, overloaded(0.02, 0.04, reply=advised), edition=later) is None
    assert judged(text, overloaded(0.1, 0.2, reply=advised)) is None


def test_no_backoff_is_longer_than_ten_seconds(judged: Judged) -> None:
    gaps = [min(10, 0.1 * 2**n) for n in range(9)]
    assert judged("retries: {gap: full overload backoff}", overloaded(*gaps)) is None


def test_a_full_backoff_is_exact_in_virtual_time(judged: Judged) -> None:
    text = "retries: {gap: full overload backoff}"
    assert judged(text, overloaded(0.1, 0.2)) is None
    assert judged(text, overloaded(0.1, 0.199)) == (
        "operation 1, attempt 3, gap: began 199 ms after the end of the attempt before, 200 ms expected"
        " (full overload backoff, 2026-02-20)"
    )


@pytest.mark.parametrize(("waited", "held"), [(0.0999, False), (0.1, True), (0.174, True), (0.176, False)])
def test_on_the_wall_clock_a_gap_may_be_a_quarter_and_fifty_milliseconds_longer(
    waited: float, *, held: bool, judged: Judged
) -> None:
    found = judged("retries: {gap: full overload backoff}", requests(waited), timing=REAL)
    assert (found is None) is held


def test_where_messages_are_delayed_on_purpose_a_gap_has_no_upper_bound(judged: Judged) -> None:
    disturbed = Timing(is_disturbed=True)
    assert judged("retries: {gap: full overload backoff}", requests(5), timing=disturbed) is None
    assert judged("retries: {gap: full overload backoff}", requests(0.05), timing=disturbed) is not None


def test_a_rule_may_have_a_retry_of_its_own(judged: Judged) -> None:
    assert judged("retries: {gap: 'full overload backoff, attempt 3'}", overloaded(0.4)) is None
    assert judged("retries: {gap: 'full overload backoff, attempt 2'}", overloaded(0.4)) is not None


def test_a_backoff_counts_retries_of_every_kind_from_the_last_success(judged: Judged) -> None:
    sent = [request(0, NOT_PRIMARY), request(0.001, OVERLOADED), request(0.202, OK), request(1, OVERLOADED)]
    sent.append(request(1.101, OK))
    text = "attempts: [{}, {gap: none}, {gap: full overload backoff}, {}, {gap: full overload backoff}]"
    assert judged(text, sent) is None


def test_no_gap_is_no_wait(judged: Judged) -> None:
    assert judged("retries: {gap: none}", overloaded(0)) is None
    assert judged("retries: {gap: none}", overloaded(0.002)) == (
        "operation 1, attempt 2, gap: began 2 ms after the end of the attempt before, 0 ms expected"
        " (none, 2026-02-20)"
    )


def test_a_gap_may_be_given_in_seconds(judged: Judged) -> None:
    assert judged("retries: {gap: {min: 0.1, max: 0.2}}", overloaded(0.15)) is None
    assert judged("retries: {gap: {min: 0.2}}", overloaded(0.15)) == (
        "operation 1, attempt 2, gap: began 150 ms after the end of the attempt before,"
        " at least 200 ms expected"
    )


def test_a_new_connection_begins_when_it_is_asked_for(judged: Judged) -> None:
    sent = [request(0, OVERLOADED), request(0.105, OK, connection=2, accepted=0.101)]
    assert judged("retries: {gap: full overload backoff}", sent) is None
    (_, retry) = attempts_of(sent, VIRTUAL)
    assert retry.gap is not None
    assert (retry.gap.least, retry.gap.most) == pytest.approx((0.1, 0.104))


def test_a_client_that_closes_its_connection_waits_for_no_news_of_that(judged: Judged) -> None:
    sent = [request(0, None, end="client", ended=1.0), request(1.0, OK, connection=2)]
    assert judged("retries: {gap: none}", sent) is None


def test_transactions_have_a_backoff_of_their_own(judged: Judged) -> None:
    def transaction(at: float, number: int) -> SeenRequest:
        return request(at, NOT_PRIMARY, command={"txnNumber": number, "autocommit": False})

    sent = [transaction(0, 1), transaction(0.006, 2), transaction(0.0145, 3)]
    assert judged("retries: {gap: transaction backoff}", sent) is None
    assert judged("retries: {gap: overload backoff}", sent) is not None
    late = [transaction(0, 1), transaction(0.006, 2), transaction(0.015, 3)]
    assert "7.5 ms" in (judged("retries: {gap: transaction backoff}", late) or "")


# Members and connections.


@pytest.mark.parametrize(
    ("on", "held"),
    [
        ("secondary", True),
        ("primary", False),
        ("node1", True),
        ("node0", False),
        ("another", True),
        ("same", False),
        ("not overloaded", True),
    ],
)
def test_an_attempt_is_on_a_member(on: str, *, held: bool, judged: Judged) -> None:
    sent = [request(0, OVERLOADED), request(1, server="node1", role="secondary")]
    assert (judged(f"retries: {{on: {on}}}", sent) is None) is held


def test_a_server_that_told_of_its_overload_is_avoided_while_there_is_another(judged: Judged) -> None:
    text = "retries: {on: not overloaded}"
    sent = [request(0, OVERLOADED, server="mongos0"), request(1, server="mongos0")]
    assert judged(text, sent, servers=frozenset({"mongos0"})) is None
    assert judged(text, sent, servers=frozenset({"mongos0", "mongos1"})) == (
        "operation 1, attempt 2, on: came to mongos0, which had answered that it was overloaded;"
        " not overloaded expected"
    )


def test_an_attempt_is_on_the_same_connection_or_another(judged: Judged) -> None:
    sent = [request(0, OVERLOADED), request(1, connection=2)]
    assert judged("retries: {connection: another}", sent) is None
    assert judged("retries: {connection: same}", sent) == (
        "operation 1, attempt 2, connection: came on another connection"
    )
    assert judged("each: {connection: same, on: same}", [request()]) is None


# Documents.


def test_what_an_attempt_carries_is_matched_as_a_root_document(judged: Judged) -> None:
    assert judged("each: {carries: {find: stock, txnNumber: {$$exists: false}}}", [request()]) is None
    assert judged("each: {carries: {find: other}}", [request()]) == (
        "operation 1, attempt 1, carries.find: expected 'other', got 'stock'"
    )


def test_fields_are_the_same_as_in_the_first_attempt(judged: Judged) -> None:
    sent = [
        request(command={"txnNumber": 1, "a": {"b": 2}}),
        request(1, command={"txnNumber": 2, "a": {"b": 2}}),
    ]
    assert judged("retries: {same: [lsid, a.b, missing]}", sent) is None
    assert judged("retries: {same: [lsid, txnNumber]}", sent) == (
        "operation 1, attempt 2, same: txnNumber is not that of the first attempt"
    )


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ((1, 2), None),
        ((None, 1), None),
        ((1, 1), "is not newer than in the attempt before"),
        ((2, 1), "is not newer than in the attempt before"),
        ((1, None), "is missing"),
    ],
)
def test_a_cluster_time_is_newer_than_before_or_was_absent(
    times: tuple[int | None, int | None], said: str | None, judged: Judged
) -> None:
    sent = [
        request(at, command={"$clusterTime": time and {"clusterTime": Timestamp(time, 1), "signature": {}}})
        for at, time in enumerate(times)
    ]
    found = judged("retries: {newer: [$clusterTime]}", sent)
    assert found == (said and f"operation 1, attempt 2, newer: $clusterTime {said}")


def test_elements_of_lists_have_numbers(judged: Judged) -> None:
    sent = [request(command={"endSessions": [{"id": 1}, {"id": 2}]})]
    assert judged("each: {omits: [endSessions.2, endSessions.id, endSessions.0.uid]}", sent) is None
    assert judged("each: {omits: [endSessions.1.id]}", sent) == (
        "operation 1, attempt 1, omits: endSessions.1.id is not expected here"
    )


def test_fields_are_omitted(judged: Judged) -> None:
    assert judged("each: {omits: [txnNumber]}", [request()]) is None
    assert judged("each: {omits: [lsid.id]}", [request()]) == (
        "operation 1, attempt 1, omits: lsid.id is not expected here"
    )


def test_a_message_has_a_size(judged: Judged) -> None:
    assert judged("each: {size: {max: 100}}", [request()]) is None
    assert judged("each: {size: {max: 99}}", [request()]) == (
        "operation 1, attempt 1, size.max: the message has 100 bytes, 99 are allowed"
    )


def test_the_jitter_of_all_operations_is_judged_together(judged: Judged) -> None:
    uniform = [overloaded(*(BOUNDS_02_20[n] * (index + 0.5) / 10 for n in range(5))) for index in range(10)]
    assert judged("jitter: uniform", *uniform) is None
    half = [overloaded(*(BOUNDS_02_20[n] * (index + 0.5) / 20 for n in range(5))) for index in range(10)]
    assert judged("jitter: uniform", *half) == "jitter: no backoff is longer than 0.48 of its bound"
    assert judged("jitter: uniform", *half, timing=Timing(is_disturbed=True)) is None
    assert "too few" in (judged("jitter: uniform", overloaded(0.05)) or "")


def test_the_jitter_before_one_retry_is_judged_where_it_was_seen_often_enough(judged: Judged) -> None:
    gaps = [(0.2 * (index + 0.5) / 40, 0.2 * (index * 7 % 40 + 0.5) / 40) for index in range(40)]
    later = EDITION_2026_07_08
    said = judged("jitter: uniform", *(overloaded(*pair) for pair in gaps), edition=later)
    assert said == "jitter: before retry 2, no backoff is longer than 0.49 of its bound"
    right = [overloaded(first, 2 * second) for first, second in gaps]
    assert judged("jitter: uniform", *right, edition=later) is None
