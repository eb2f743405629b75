"""Error labels: every row of the rules, and of the examples that a server's behaviour is known by."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakeserver.profile import PROFILES, Profile
from fakeserver.request.labels import LabelFacts, carries_backoff_hint, is_retriable, labels
from fakeserver.storage.port.oplog import OpTime
from mongowire.codes import Category, Label

_82 = Profile.named("8.2")
_RETRYABLE: dict[str, Any] = {"command": "insert", "txn_number": True}
_PLAIN: dict[str, Any] = {"command": "insert"}
_IN_TRANSACTION: dict[str, Any] = {"command": "insert", "txn_number": True, "autocommit": True}
_COMMIT: dict[str, Any] = {"command": "commitTransaction", "txn_number": True, "autocommit": True}
_STREAM: dict[str, Any] = {"command": "aggregate", "change_stream": True}
_BEFORE = OpTime(5, 1, 1)
_AFTER = OpTime(5, 2, 1)

RETRIABLE = sorted(Category.RETRIABLE.value)


def _labels(**facts: Any) -> list[str]:
    return labels(LabelFacts(**({"profile": _82} | facts)))


@pytest.mark.parametrize("code", RETRIABLE)
def test_a_retryable_write_that_fails_with_a_retriable_code_is_labelled(code: int) -> None:
    expected = ["RetryableWriteError"]
    assert _labels(**_RETRYABLE, code=code) == expected + (["SystemOverloadedError"] if code == 462 else [])


@pytest.mark.parametrize("code", RETRIABLE)
def test_a_write_without_a_transaction_number_is_not_labelled_retryable(code: int) -> None:
    assert "RetryableWriteError" not in _labels(**_PLAIN, code=code)


@pytest.mark.parametrize("code", [code for code in RETRIABLE if code not in {358, 462}])
def test_a_retriable_code_inside_a_transaction_is_transient(code: int) -> None:
    assert _labels(**_IN_TRANSACTION, code=code) == ["TransientTransactionError"]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param({**_COMMIT, "code": 10107}, ["RetryableWriteError"], id="commit, not primary"),
        pytest.param(
            {**_COMMIT, "code": 251}, ["TransientTransactionError"], id="commit, no such transaction"
        ),
        pytest.param({**_COMMIT, "code": 251, "write_concern_code": 64}, [], id="commit, 251 with a wce"),
        pytest.param({**_COMMIT, "write_concern_code": 91}, ["RetryableWriteError"], id="commit, wce"),
        pytest.param(
            {**_COMMIT, "command": "abortTransaction", "code": 91},
            ["RetryableWriteError"],
            id="abort, shutdown",
        ),
        pytest.param({"command": "find", "code": 462}, ["SystemOverloadedError"], id="find, overload"),
        pytest.param({"command": "find", "code": 433}, ["SystemOverloadedError"], id="find, queue overflow"),
        pytest.param({**_RETRYABLE, "code": 449}, ["SystemOverloadedError"], id="449 is not retriable"),
        pytest.param(
            {**_IN_TRANSACTION, "code": 462},
            ["TransientTransactionError", "SystemOverloadedError"],
            id="transaction, overload",
        ),
        pytest.param({**_RETRYABLE, "code": 112}, [], id="retryable write, write conflict"),
        pytest.param({**_RETRYABLE, "code": 50}, [], id="retryable write, max time"),
        pytest.param({**_RETRYABLE, "code": 11000}, [], id="retryable write, duplicate key"),
        pytest.param({**_RETRYABLE, "write_concern_code": 91}, ["RetryableWriteError"], id="wce, shutdown"),
        pytest.param({**_RETRYABLE, "write_concern_code": 64}, [], id="wce, timeout"),
        pytest.param({**_RETRYABLE, "write_concern_code": 462}, ["RetryableWriteError"], id="wce, overload"),
        pytest.param({**_RETRYABLE}, [], id="success"),
        pytest.param({**_IN_TRANSACTION, "code": 112}, ["TransientTransactionError"], id="write conflict"),
        pytest.param({**_IN_TRANSACTION, "code": 24}, ["TransientTransactionError"], id="lock timeout"),
        pytest.param({**_IN_TRANSACTION, "code": 267}, ["TransientTransactionError"], id="prepared"),
        pytest.param({**_IN_TRANSACTION, "code": 343}, ["TransientTransactionError"], id="shard refresh"),
        pytest.param({**_IN_TRANSACTION, "code": 249}, ["TransientTransactionError"], id="stale db version"),
        pytest.param({**_IN_TRANSACTION, "code": 246}, ["TransientTransactionError"], id="snapshot"),
        pytest.param({**_IN_TRANSACTION, "code": 150}, ["TransientTransactionError"], id="retargeting"),
        pytest.param({**_IN_TRANSACTION, "code": 251}, ["TransientTransactionError"], id="no transaction"),
        pytest.param({**_IN_TRANSACTION, "code": 358}, [], id="358 is never transient"),
        pytest.param({**_IN_TRANSACTION, "code": 11000}, [], id="duplicate key in a transaction"),
        pytest.param({**_IN_TRANSACTION, "write_concern_code": 91}, [], id="wce alone is never transient"),
        pytest.param({**_COMMIT, "code": 24}, ["TransientTransactionError"], id="commit, lock timeout"),
        pytest.param({**_RETRYABLE, "code": 91, "internal_client": True}, [], id="internal client"),
        pytest.param({**_RETRYABLE, "code": 91, "mongos": True}, [], id="mongos"),
        pytest.param(
            {**_RETRYABLE, "code": 333, "shutting_down": True},
            ["RetryableWriteError"],
            id="shutting down, 333",
        ),
        pytest.param(
            {**_RETRYABLE, "code": 90, "shutting_down": True}, ["RetryableWriteError"], id="shutting down, 90"
        ),
        pytest.param({**_RETRYABLE, "code": 333}, [], id="333, not shutting down"),
        pytest.param({**_RETRYABLE, "code": 14, "shutting_down": True}, [], id="shutting down, other code"),
        pytest.param(
            {**_RETRYABLE, "code": 91, "mongos": True, "shutting_down": True},
            ["RetryableWriteError"],
            id="mongos shutting down",
        ),
        pytest.param({**_RETRYABLE, "code": 13388}, ["RetryableWriteError"], id="stale config"),
        pytest.param({**_RETRYABLE, "code": 13388, "from_router": True}, [], id="stale config from a router"),
        pytest.param({**_STREAM, "code": 6}, ["ResumableChangeStreamError"], id="stream, unreachable"),
        pytest.param({**_STREAM, "code": 10107}, ["ResumableChangeStreamError"], id="stream, not primary"),
        pytest.param({**_STREAM, "code": 234}, ["ResumableChangeStreamError"], id="stream, retry"),
        pytest.param({**_STREAM, "code": 133}, ["ResumableChangeStreamError"], id="stream, read preference"),
        pytest.param({**_STREAM, "code": 175}, ["ResumableChangeStreamError"], id="stream, plan killed"),
        pytest.param({**_STREAM, "code": 150}, ["ResumableChangeStreamError"], id="stream, retargeting"),
        pytest.param({**_STREAM, "code": 280}, ["NonResumableChangeStreamError"], id="stream, fatal"),
        pytest.param({**_STREAM, "code": 286}, ["NonResumableChangeStreamError"], id="stream, history lost"),
        pytest.param({**_STREAM, "code": 43}, [], id="stream, cursor not found"),
        pytest.param({**_STREAM, "code": 6, "write_concern_code": 64}, [], id="stream, wce"),
        pytest.param({"command": "aggregate", "code": 6}, [], id="aggregate without a stream"),
        pytest.param({**_STREAM, "command": "find", "code": 6}, [], id="only aggregate and getMore"),
        pytest.param(
            {**_STREAM, "command": "getMore", "code": 462},
            ["ResumableChangeStreamError", "SystemOverloadedError"],
            id="stream, overload",
        ),
    ],
)
def test_labels_follow_from_the_code_and_the_kind_of_request(facts: Any, expected: list[str]) -> None:
    assert _labels(**facts) == expected


@pytest.mark.parametrize(
    ("before", "after", "performed_none"),
    [(_BEFORE, _BEFORE, True), (_BEFORE, _AFTER, False), (None, None, False), (None, _BEFORE, False)],
)
def test_no_writes_performed_needs_two_equal_operation_times(
    *, before: OpTime | None, after: OpTime | None, performed_none: bool
) -> None:
    expected = ["RetryableWriteError"] + ["NoWritesPerformed"] * performed_none
    assert _labels(**_RETRYABLE, code=91, before=before, after=after) == expected


def test_no_writes_performed_never_stands_alone() -> None:
    assert _labels(**_RETRYABLE, code=11000, before=_BEFORE, after=_BEFORE) == []


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("4.2", []),
        ("4.4", ["RetryableWriteError"]),
        ("5.0", ["RetryableWriteError"]),
        ("6.0", ["RetryableWriteError", "NoWritesPerformed"]),
        ("9.0", ["RetryableWriteError", "NoWritesPerformed"]),
    ],
)
def test_older_releases_know_fewer_labels(profile: str, expected: list[str]) -> None:
    profile_ = Profile.named(profile)
    assert _labels(**_RETRYABLE, profile=profile_, code=91, before=_BEFORE, after=_BEFORE) == expected


@pytest.mark.parametrize("profile", ["4.2", "8.0"])
def test_releases_before_overload_errors_do_not_know_them(profile: str) -> None:
    assert not is_retriable(462, Profile.named(profile))
    assert _labels(command="find", code=462, profile=Profile.named(profile)) == []


def test_a_release_without_resumable_labels_gives_a_change_stream_none() -> None:
    assert _labels(**_STREAM, code=6, profile=Profile.named("4.2")) == []


@pytest.mark.parametrize(
    ("error_labels", "hints"),
    [
        (["SystemOverloadedError", "RetryableError"], True),
        (["SystemOverloadedError"], False),
        (["RetryableError"], False),
        ([], False),
    ],
)
def test_a_backoff_hint_goes_with_retryable_overload_errors_alone(
    *, error_labels: list[str], hints: bool
) -> None:
    assert carries_backoff_hint(error_labels) is hints


_codes = st.none() | st.sampled_from([*RETRIABLE, 24, 43, 50, 112, 150, 249, 251, 267, 280, 286, 433, 11000])
_optimes = st.none() | st.builds(OpTime, st.just(1), st.integers(1, 2), st.just(1))


@given(
    facts=st.builds(
        LabelFacts,
        profile=st.sampled_from(list(PROFILES.values())),
        command=st.sampled_from(["insert", "find", "aggregate", "getMore", "commitTransaction"]),
        code=_codes,
        write_concern_code=_codes,
        txn_number=st.booleans(),
        autocommit=st.booleans(),
        internal_client=st.booleans(),
        mongos=st.booleans(),
        from_router=st.booleans(),
        shutting_down=st.booleans(),
        change_stream=st.booleans(),
        before=_optimes,
        after=_optimes,
    )
)
def test_labels_never_contradict_each_other(facts: LabelFacts) -> None:
    found = labels(facts)
    assert len(found) == len(set(found))
    exclusive = {
        Label.TRANSIENT_TRANSACTION,
        Label.RETRYABLE_WRITE,
        Label.RESUMABLE_CHANGE_STREAM,
        Label.NON_RESUMABLE_CHANGE_STREAM,
    }
    assert len(exclusive.intersection(found)) <= 1
    assert Label.NO_WRITES_PERFORMED not in found or Label.RETRYABLE_WRITE in found
    assert Label.RETRYABLE not in found
    assert not found or facts.code is not None or facts.write_concern_code is not None


@pytest.mark.parametrize("profile", PROFILES)
def test_a_stale_shard_version_is_an_error_of_routing_until_6_0(profile: str) -> None:
    known = Profile.named(profile).knows_stale_shard_version
    assert known is (profile in {"4.2", "4.4", "5.0", "6.0"})
    facts = {"profile": Profile.named(profile), "code": 63}
    assert _labels(**_IN_TRANSACTION, **facts) == (["TransientTransactionError"] if known else [])
    labelled = known and profile != "4.2"
    assert _labels(**_STREAM, **facts) == (["ResumableChangeStreamError"] if labelled else [])
