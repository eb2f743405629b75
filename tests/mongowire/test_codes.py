"""Error codes, their names, and the groups that rules speak of."""

from __future__ import annotations

import pytest

from mongowire.codes import Category, ErrorCode, Label, code_name, is_in


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (10107, "NotWritablePrimary"),
        (11000, "DuplicateKey"),
        (13435, "NotPrimaryNoSecondaryOk"),
        (22, "InvalidBSON"),
        (50, "MaxTimeMSExpired"),
        (64, "WriteConcernTimeout"),
        (462, "IngressRequestRateLimitExceeded"),
        (40415, "IDLUnknownField"),
        (40587, "Location40587"),
        (12345, "Location12345"),
    ],
)
def test_a_code_has_the_server_s_name(code: int, name: str) -> None:
    assert code_name(code) == name


def test_members_are_the_numbers_and_know_their_names() -> None:
    assert int(ErrorCode.NOT_WRITABLE_PRIMARY) == 10107
    assert ErrorCode(10107) is ErrorCode.NOT_WRITABLE_PRIMARY
    assert ErrorCode.NOT_WRITABLE_PRIMARY.code_name == "NotWritablePrimary"
    assert f"{ErrorCode.NOT_WRITABLE_PRIMARY:d}" == "10107"


def test_every_member_is_named_after_its_code_name() -> None:
    for code in ErrorCode:
        if not code.code_name.startswith("Location"):
            assert code.name.replace("_", "").lower() == code.code_name.lower()


def test_no_number_is_listed_twice() -> None:
    assert len(ErrorCode.__members__) == len({int(code) for code in ErrorCode})


def test_every_categorised_code_is_in_the_table() -> None:
    known = {int(code) for code in ErrorCode}
    for category in Category:
        assert category.value <= known, category


@pytest.mark.parametrize(
    ("code", "category", "expected"),
    [
        (ErrorCode.NOT_WRITABLE_PRIMARY, Category.NOT_PRIMARY, True),
        (ErrorCode.LEGACY_NOT_PRIMARY, Category.NOT_PRIMARY, False),
        (ErrorCode.MAX_TIME_MS_EXPIRED, Category.RETRIABLE, False),
        (ErrorCode.WRITE_CONFLICT, Category.RETRIABLE, False),
        (ErrorCode.INGRESS_REQUEST_RATE_LIMIT_EXCEEDED, Category.SYSTEM_OVERLOADED, True),
        (ErrorCode.INGRESS_REQUEST_RATE_LIMIT_EXCEEDED, Category.RETRIABLE, True),
        (ErrorCode.RATE_LIMIT_EXCEEDED, Category.RETRIABLE, False),
        (ErrorCode.CHECKSUM_MISMATCH, Category.CONNECTION_FATAL_MESSAGE_PARSE, True),
        (ErrorCode.INTERRUPTED_AT_SHUTDOWN, Category.SHUTDOWN, True),
        (ErrorCode.INTERRUPTED_AT_SHUTDOWN, Category.INTERRUPTION, True),
        (99999, Category.NETWORK, False),
    ],
)
def test_categories(code: int, category: Category, *, expected: bool) -> None:
    assert is_in(code, category) is expected


def test_labels_are_what_replies_hold() -> None:
    assert [str(label) for label in Label][:2] == ["RetryableWriteError", "TransientTransactionError"]
    assert Label("SystemOverloadedError") is Label.SYSTEM_OVERLOADED
