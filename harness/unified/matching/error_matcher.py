"""Errors of operations against `expectError`: the first assertion that an error does not meet, or None.

Unified Test Format: expectedError. An error arrives as the `ErrorReport` of the adapter, which says None for
what its driver does not tell. Such a field meets no assertion about it: a driver that hides the code of an
error has not shown that it is right. The exception is the name of a code, which the code gives away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import ErrorReport
from harness.unified.matching.matcher import Mismatch, match, missing
from harness.unified.model import UNSET
from mongowire.codes import code_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.unified.matching.matcher import Entities
    from harness.unified.model import ExpectedError


def match_error(
    expected: ExpectedError, actual: ErrorReport, *, entities: Entities, aggregates: bool = True
) -> Mismatch | None:
    """Return the first assertion that an error does not meet, or None.

    Unified Test Format: bulkWrite, clientBulkWrite. An error that `aggregates` others has the messages and
    the names of all of them; that of a client's bulk write has its own only.
    """
    errors = (actual, *_aggregated(actual)) if aggregates else (actual,)
    # What is asserted of the error itself first, what is inside it last: the more telling one is reported.
    found = (
        next(filter(None, (test(expected, actual) for test in _TESTS)), None)
        or _message(expected, errors)
        or _code_name(expected, errors)
    )
    if found is not None:
        return found
    if expected.response is not None:
        found = match(expected.response, actual.response or missing, entities=entities)
        if found is not None:
            return found.below("errorResponse")
    if expected.result is not UNSET:
        # A driver that has no partial result reports None, which $$unsetOrMatches has to accept.
        result = missing if actual.result is None else actual.result
        found = match(expected.result, result, entities=entities)
        if found is not None:
            return found.below("expectResult")
    return _match_write_errors(expected, actual, entities) or _match_concern_errors(
        expected, actual, entities
    )


def _aggregated(error: ErrorReport) -> list[ErrorReport]:
    """Return the write errors and write concern errors inside an error, as errors of their own.

    Nothing but text, code and name is taken over: labels and origin are asserted of the error as a whole.
    """
    inside = [*(error.write_errors or {}).values(), *(error.write_concern_errors or ())]
    return [
        ErrorReport(
            str(one.get("message") or one.get("errmsg") or ""),
            code=one.get("code"),
            code_name=one.get("codeName"),
        )
        for one in inside
    ]


def _differs(path: str, expected: Any, actual: Any) -> Mismatch:
    return Mismatch(path, expected, actual, f"expected {expected!r}, got {actual!r}")


def _origin(expected: ExpectedError, actual: ErrorReport) -> Mismatch | None:
    if expected.is_client_error is None or expected.is_client_error == actual.is_client_error:
        return None
    return _differs("isClientError", expected.is_client_error, actual.is_client_error)


def _timeout(expected: ExpectedError, actual: ErrorReport) -> Mismatch | None:
    if expected.is_timeout_error is None or expected.is_timeout_error == actual.is_timeout_error:
        return None
    return _differs("isTimeoutError", expected.is_timeout_error, actual.is_timeout_error)


def _message(expected: ExpectedError, errors: Sequence[ErrorReport]) -> Mismatch | None:
    if expected.contains is None or any(expected.contains.lower() in one.message.lower() for one in errors):
        return None
    said = "; ".join(one.message for one in errors)
    why = f"expected a message with {expected.contains!r}, got {said!r}"
    return Mismatch("errorContains", expected.contains, said, why)


def _code(expected: ExpectedError, actual: ErrorReport) -> Mismatch | None:
    if expected.code is None or expected.code == actual.code:
        return None
    return _differs("errorCode", expected.code, actual.code)


def _code_name(expected: ExpectedError, errors: Sequence[ErrorReport]) -> Mismatch | None:
    if expected.code_name is None:
        return None
    names = [name for name in map(_name_of, errors) if name]
    if expected.code_name.lower() in (name.lower() for name in names):
        return None
    return _differs("errorCodeName", expected.code_name, " or ".join(dict.fromkeys(names)) or None)


def _name_of(error: ErrorReport) -> str:
    """Return the name of an error's code, also when the driver reports the code only."""
    return error.code_name or (code_name(error.code) if error.code is not None else "")


def _labels(expected: ExpectedError, actual: ErrorReport) -> Mismatch | None:
    labels = sorted(actual.labels)
    for label in expected.labels_contain:
        if label not in actual.labels:
            return Mismatch("errorLabelsContain", label, labels, f"expected label {label}, got {labels}")
    for label in expected.labels_omit:
        if label in actual.labels:
            return Mismatch(
                "errorLabelsOmit", label, labels, f"label {label} must not be there, got {labels}"
            )
    return None


_TESTS: Final[Sequence[Callable[[ExpectedError, ErrorReport], Mismatch | None]]] = (
    _origin,
    _timeout,
    _code,
    _labels,
)


def _match_write_errors(expected: ExpectedError, actual: ErrorReport, entities: Entities) -> Mismatch | None:
    if expected.write_errors is None:
        return None
    # Keys of a document in a file are texts, a driver's are numbers.
    got = {str(index): error for index, error in (actual.write_errors or {}).items()}
    # Each expected index must be there and no other: a write error that nobody expects is a failed write.
    if sorted(got) != sorted(expected.write_errors):
        why = f"expected write errors at {sorted(expected.write_errors)}, got {sorted(got)}"
        return Mismatch("writeErrors", expected.write_errors, got, why)
    for index, want in expected.write_errors.items():
        found = match(want, got[index], entities=entities)
        if found is not None:
            return found.below(f"writeErrors.{index}")
    return None


def _match_concern_errors(
    expected: ExpectedError, actual: ErrorReport, entities: Entities
) -> Mismatch | None:
    if expected.write_concern_errors is None:
        return None
    got = list(actual.write_concern_errors or ())
    # In their order and all of them, unlike write errors, which have indexes.
    if len(got) != len(expected.write_concern_errors):
        why = f"expected {len(expected.write_concern_errors)} write concern errors, got {len(got)}"
        return Mismatch("writeConcernErrors", expected.write_concern_errors, got, why)
    for index, want in enumerate(expected.write_concern_errors):
        found = match(want, got[index], entities=entities)
        if found is not None:
            return found.below(f"writeConcernErrors[{index}]")
    return None
