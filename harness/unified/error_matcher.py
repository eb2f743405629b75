"""Is an error the one that a scenario expects? The first assertion that it does not meet, or None.

Unified Test Format: expectedError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.unified.matcher import match, missing
from harness.unified.model import UNSET
from harness.unified.outcome import Mismatch
from mongowire.codes import code_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.adapters.base import ErrorReport
    from harness.unified.matcher import Entities
    from harness.unified.model import ExpectedError


def match_error(expected: ExpectedError, actual: ErrorReport, *, entities: Entities) -> Mismatch | None:
    """Return the first assertion that an error does not meet, or None."""
    found = next(filter(None, (test(expected, actual) for test in _TESTS)), None)
    return found or _match_documents(expected, actual, entities)


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


def _message(expected: ExpectedError, actual: ErrorReport) -> Mismatch | None:
    if expected.contains is None or expected.contains.lower() in actual.message.lower():
        return None
    why = f"expected a message with {expected.contains!r}, got {actual.message!r}"
    return Mismatch("errorContains", expected.contains, actual.message, why)


def _code(expected: ExpectedError, actual: ErrorReport) -> Mismatch | None:
    if expected.code is None or expected.code == actual.code:
        return None
    return _differs("errorCode", expected.code, actual.code)


def _code_name(expected: ExpectedError, actual: ErrorReport) -> Mismatch | None:
    """Compare names; a driver that reports a code without its name is read by the code."""
    if expected.code_name is None:
        return None
    name = actual.code_name or (code_name(actual.code) if actual.code is not None else "")
    if expected.code_name.lower() == name.lower():
        return None
    return _differs("errorCodeName", expected.code_name, name or None)


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
    _message,
    _code,
    _code_name,
    _labels,
)


def _match_documents(expected: ExpectedError, actual: ErrorReport, entities: Entities) -> Mismatch | None:
    if expected.response is not None:
        found = match(expected.response, actual.response or missing, entities=entities)
        if found is not None:
            return found.below("errorResponse")
    if expected.result is not UNSET:
        result = missing if actual.result is None else actual.result
        found = match(expected.result, result, entities=entities)
        if found is not None:
            return found.below("expectResult")
    return _match_write_errors(expected, actual, entities) or _match_concern_errors(
        expected, actual, entities
    )


def _match_write_errors(expected: ExpectedError, actual: ErrorReport, entities: Entities) -> Mismatch | None:
    if expected.write_errors is None:
        return None
    got = {str(index): error for index, error in (actual.write_errors or {}).items()}
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
    if len(got) != len(expected.write_concern_errors):
        why = f"expected {len(expected.write_concern_errors)} write concern errors, got {len(got)}"
        return Mismatch("writeConcernErrors", expected.write_concern_errors, got, why)
    for index, want in enumerate(expected.write_concern_errors):
        found = match(want, got[index], entities=entities)
        if found is not None:
            return found.below(f"writeConcernErrors[{index}]")
    return None
