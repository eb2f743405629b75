from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakeserver.errors import CommandError
from fakeserver.sessions.session import RetryableWrite, Session, SessionCatalog, Use
from fakeserver.storage.port.oplog import Oplog

_ID = bytes.fromhex("00112233445566778899aabbccddeeff")
_PRINTED = "00112233-4455-6677-8899-aabbccddeeff - 47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU= -  - "
_MINUTE = 60.0


def _oplog() -> Oplog:
    return Oplog(lambda: 1000.0)


def _session() -> Session:
    return Session(_ID, 0.0)


def test_a_session_is_printed_with_the_digest_of_no_user() -> None:
    assert str(_session()) == _PRINTED


def test_a_higher_number_forgets_the_statements_of_the_lower_one() -> None:
    session = _session()
    session.begin(1, Use.RETRYABLE_WRITE)
    session.statements[0] = {"n": 1}
    session.begin(2, Use.RETRYABLE_WRITE)
    assert session.statements == {}


def test_the_same_number_again_continues() -> None:
    session = _session()
    session.begin(1, Use.RETRYABLE_WRITE)
    session.statements[0] = {"n": 1}
    session.begin(1, Use.RETRYABLE_WRITE)
    assert session.statements == {0: {"n": 1}}


@pytest.mark.parametrize(
    ("newer", "older", "message"),
    [
        (
            Use.RETRYABLE_WRITE,
            Use.RETRYABLE_WRITE,
            (
                f"Retryable write with txnNumber 4 is prohibited on session {_PRINTED} because a newer"
                " retryable write with txnNumber 5 has already started on this session."
            ),
        ),
        (
            Use.TRANSACTION,
            Use.RETRYABLE_WRITE,
            (
                f"Retryable write with txnNumber 4 is prohibited on session {_PRINTED} because a newer"
                " transaction with txnNumber 5 has already started on this session."
            ),
        ),
        (
            Use.RETRYABLE_WRITE,
            Use.TRANSACTION,
            (
                f"Cannot start transaction with {{ txnNumber: 4, txnRetryCounter: 0 }} on session {_PRINTED}"
                " because a newer retryable write with txnNumberAndRetryCounter { txnNumber: 5,"
                " txnRetryCounter: 0 } has already started on this session."
            ),
        ),
    ],
)
def test_a_lower_number_is_too_old(newer: Use, older: Use, message: str) -> None:
    session = _session()
    session.begin(5, newer)
    with pytest.raises(CommandError) as refusal:
        session.begin(4, older)
    assert (refusal.value.code, refusal.value.message) == (225, message)


def test_a_number_that_became_a_transactions_cannot_be_retried_as_a_write() -> None:
    session = _session()
    session.begin(1, Use.TRANSACTION)
    with pytest.raises(CommandError, match="has been converted into a transaction") as refusal:
        session.begin(1, Use.RETRYABLE_WRITE)
    assert refusal.value.code == 217


def test_a_transaction_goes_on_under_its_number() -> None:
    session = _session()
    session.begin(1, Use.TRANSACTION)
    session.begin(1, Use.TRANSACTION)
    assert session.use is Use.TRANSACTION


def test_a_recorded_statement_is_found_again_by_the_next_attempt() -> None:
    session = _session()
    session.begin(1, Use.RETRYABLE_WRITE)
    RetryableWrite(session, lambda _: None, _oplog()).record(3, {"n": 1})
    again = RetryableWrite(session, lambda _: None, _oplog())
    assert again.executed(3) == {"n": 1}
    assert again.executed(4) is None


def test_the_hook_runs_before_a_statement_is_written() -> None:
    hooked: list[int] = []
    RetryableWrite(_session(), hooked.append, _oplog()).before_write(7)
    assert hooked == [7]


def test_a_session_is_made_once_and_remembers_its_last_use() -> None:
    catalog = SessionCatalog()
    session = catalog.use(_ID, 1.0)
    assert catalog.use(_ID, 2.0) is session
    assert session.last_use == 2.0
    assert catalog.ids() == [_ID]


def test_ending_a_session_keeps_what_it_wrote() -> None:
    catalog = SessionCatalog()
    catalog.use(_ID, 0.0).begin(1, Use.RETRYABLE_WRITE)
    catalog.end([_ID, bytes(16)])
    assert len(catalog) == 0
    assert catalog.use(_ID, 1.0).txn_number == 1
    assert len(catalog) == 1


def test_a_session_times_out_after_half_an_hour_without_use() -> None:
    catalog = SessionCatalog()
    catalog.use(_ID, 0.0)
    catalog.use(bytes(16), 29 * _MINUTE)
    catalog.use(bytes([1] * 16), 36 * _MINUTE)
    assert catalog.ids() == [bytes(16), bytes([1] * 16)]


def test_old_sessions_are_looked_for_every_five_minutes_only() -> None:
    catalog = SessionCatalog()
    catalog.use(_ID, 0.0)
    catalog.use(bytes(16), 29 * _MINUTE)
    catalog.use(bytes([1] * 16), 31 * _MINUTE)
    assert _ID in catalog.ids()
    catalog.use(bytes([2] * 16), 34 * _MINUTE)
    assert _ID not in catalog.ids()


def test_a_session_that_ended_is_forgotten_unless_a_retry_may_ask_for_what_it_wrote() -> None:
    forgotten: list[list[bytes]] = []
    catalog = SessionCatalog(on_reaped=lambda sessions: forgotten.append(sessions.ids()))
    catalog.use(_ID, 0.0).begin(1, Use.RETRYABLE_WRITE)
    catalog.use(bytes(16), 0.0)
    catalog.end([_ID, bytes(16)])
    assert not forgotten
    catalog.use(bytes([1] * 16), 5 * _MINUTE)
    assert forgotten == [[_ID]]
    assert _ID in catalog
    assert bytes(16) not in catalog


def test_there_is_a_limit_to_the_number_of_sessions() -> None:
    catalog = SessionCatalog(capacity=2)
    for number in (0, 1, 0):
        catalog.use(bytes([number] * 16), 0.0)
    with pytest.raises(CommandError, match="number of active sessions is too high") as raised:
        catalog.use(_ID, 0.0)
    assert raised.value.code_name == "TooManyLogicalSessions"


@given(numbers=st.lists(st.integers(0, 5), max_size=20))
def test_the_active_number_only_grows_and_never_repeats_a_statement(numbers: list[int]) -> None:
    session = _session()
    applied: list[int] = []
    for number in numbers:
        highest = session.txn_number
        try:
            session.begin(number, Use.RETRYABLE_WRITE)
        except CommandError:
            assert number < highest
            continue
        assert session.txn_number == number >= highest
        log = RetryableWrite(session, lambda _: None, _oplog())
        if log.executed(0) is None:
            applied.append(number)
            log.record(0, {})
    assert applied == sorted(set(applied))
