"""What of a broken file can still be examined: the file without the parts that the format does not allow.

A run needs a whole file. Whoever mends one wants all of its mistakes at once, so that parts that are wrong
are replaced by others that do nothing, and rules look at the rest. Nothing changes its place by that.
"""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from harness.unified.schema.grammar import MINOR_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.unified.errors import ScenarioError
    from mongowire.documents.marks import Marked

NAMING: Final = frozenset(
    {"undefined-entity", "wrong-entity", "unknown-operation", "unknown-label", "unknown-selector"}
)
"""Rules about what other parts of a file bring along, such as the names of entities."""

_OPERATION = re.compile(r"tests\[(\d+)\]\.operations\[(\d+)\]")
_OF_TEST = re.compile(r"tests\[(\d+)\]\.(\w+)")
_TEST = re.compile(r"tests\[(\d+)\]$")
_ENTITY = re.compile(r"createEntities\[(\d+)\]")
_OF_FILE = re.compile(r"(\w+)")

_HEAD: Final[Mapping[str, Any]] = {"description": "", "schemaVersion": f"1.{MINOR_MAX}"}
"""What a file needs to be examined: all that the format has, whatever its version was to be."""


@dataclass(slots=True)
class Remains:
    """A document, from a copy of which mistakes are taken out one after the other."""

    document: Marked
    is_copy: bool = False
    names_are_known: bool = True
    """Whether all that has a name is still there, so that a name without meaning is a mistake."""

    def without(self, errors: Iterable[ScenarioError]) -> bool:
        """Take out the parts that errors are about; return whether there was one for each."""
        if not self.is_copy:
            self.document, self.is_copy = replace(self.document, value=deepcopy(self.document.value)), True
        taken = [self._take_out(error.location.field if error.location else "") for error in errors]
        if isinstance(self.document.value, dict):
            self.document.value.update(_HEAD)
        return all(taken)

    def _take_out(self, field: str) -> bool:
        value = self.document.value
        if not isinstance(value, dict) or not isinstance(value.get("tests"), list):
            return False
        if found := _OPERATION.match(field):
            self._idle(value["tests"][int(found[1])]["operations"], int(found[2]))
        elif found := _TEST.match(field):
            value["tests"][int(found[1])] = {"description": "", "operations": []}
        elif found := _OF_TEST.match(field):
            test = value["tests"][int(found[1])]
            test.pop(found[2], None)
            test.setdefault("description", "")
            test.setdefault("operations", [])
        elif found := _ENTITY.match(field):
            self.names_are_known = False
            value["createEntities"][int(found[1])] = {"thread": {"id": found[0]}}
        elif (found := _OF_FILE.match(field)) and found[1] != "tests":
            value.pop(found[1], None)
        else:
            return not field  # a field of the file that is missing
        return True

    def _idle(self, operations: list[Any], index: int) -> None:
        """Replace an operation by one that does nothing; what it would have named stays unknown."""
        self.names_are_known = False
        operations[index] = {"name": "wait", "object": "testRunner", "arguments": {"ms": 0}}
