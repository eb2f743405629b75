"""Read and write concerns, in connection strings and as documents (Read and Write Concern)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from driver.concerns import ReadConcern, WriteConcern
from driver.errors import ConfigurationError, InvalidArgumentError
from driver.options import ClientOptions
from harness.formats.check import FormatCase, MismatchError, require

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def in_strings(name: str, document: Any) -> Iterable[FormatCase]:
    """Return the cases of `connection-string`."""
    for case in document["tests"]:
        yield FormatCase(f"{name}::{case['description']}", partial(_check_string, case))


def in_documents(name: str, document: Any) -> Iterable[FormatCase]:
    """Return the cases of `document`."""
    for case in document["tests"]:
        yield FormatCase(f"{name}::{case['description']}", partial(_check_document, case))


def _check_string(case: Mapping[str, Any]) -> None:
    try:
        options, warnings = ClientOptions.of_uri(case["uri"])
    except ConfigurationError as refusal:
        if case["valid"]:
            raise MismatchError(f"expected no error, got: {refusal}") from refusal
        return
    if not case["valid"]:
        raise MismatchError("expected an error, got none")
    require(f"warnings {warnings}", bool(warnings), bool(case["warning"]))
    if "readConcern" in case:
        require("read concern", options.concerns.read_concern, ReadConcern.of_document(case["readConcern"]))
    if "writeConcern" in case:
        require(
            "write concern", options.concerns.write_concern, WriteConcern.of_document(case["writeConcern"])
        )


def _check_document(case: Mapping[str, Any]) -> None:
    of_reads = "readConcern" in case
    try:
        concern: ReadConcern | WriteConcern = (
            ReadConcern.of_document(case["readConcern"])
            if of_reads
            else WriteConcern.of_document(case["writeConcern"])
        )
    except InvalidArgumentError as refusal:
        if case["valid"]:
            raise MismatchError(f"expected no error, got: {refusal}") from refusal
        return
    if not case["valid"]:
        raise MismatchError(f"expected an error, got {concern}")
    document = case["readConcernDocument" if of_reads else "writeConcernDocument"]
    require("document", concern.to_document(), document)
    require("isServerDefault", concern.is_server_default, case["isServerDefault"])
    if isinstance(concern, WriteConcern):
        require("isAcknowledged", concern.acknowledged, case["isAcknowledged"])
