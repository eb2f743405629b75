"""Read and write concerns as documents (Read and Write Concern)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from driver.concerns import ReadConcern, WriteConcern
from driver.errors import InvalidArgumentError
from harness.formats.case import Runs, failure, require

if TYPE_CHECKING:
    from harness.formats.case import Notes
    from mongowire.documents.marks import Marked


def runs(case: Marked) -> Runs:
    """Return what runs a case."""
    return Runs(partial(_check, case))


def _check(case: Marked, _notes: Notes) -> None:
    name = "readConcern" if "readConcern" in case.value else "writeConcern"
    made: type[ReadConcern | WriteConcern] = ReadConcern if name == "readConcern" else WriteConcern
    try:
        concern = made.of_document(case.value.get(name, {}))
    except InvalidArgumentError as refusal:
        if case.value["valid"]:
            raise failure(case[name], f"expected no error, got: {refusal}") from refusal
        return
    if not case.value["valid"]:
        raise failure(case["valid"], f"expected an error, got {concern}")
    require(case[f"{name}Document"], concern.to_document())
    if (expected := case.get("isServerDefault")) is not None:
        require(expected, concern.is_server_default)
    if isinstance(concern, WriteConcern) and (expected := case.get("isAcknowledged")) is not None:
        require(expected, concern.acknowledged)
