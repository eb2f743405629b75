"""Mutants: wrong drivers and wrong servers, read from YAML files.

A mutant is our driver or our server with a few lines replaced, so that it breaks one rule of a specification
or of the server. A file holds the mutants of one area; docs/MUTANTS.md describes its keys. The lines of
`old` stand in the source as they stand in the file, except for their common indentation, and exactly once.
That they occur once is what keeps the catalogue honest: an edit of the driver that touches such lines makes
the mutant fail to load, and a test names it, rather than leaving a mutant that breaks something else.

This module reads text and knows no processes; `overlay.py` puts the result into one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs

from harness.planning.discovery import BadInputError
from harness.unified.errors import ScenarioError
from harness.unified.loader import read
from harness.unified.schema.explanation import explain
from harness.unified.schema.notation import STRING, array, record, word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.unified.schema.notation import Schema
    from mongowire.documents.marks import Location, Marked

KINDS: Final = ("driver", "server")
CATALOGUE: Final = Path(__file__).with_name("catalogue")
"""The folder of the mutants that come with the package, by kind and specification."""
VERDICTS: Final = ("equivalent", "not observable", "open")
"""Why a mutant survives: it is no other driver, no scenario can see the difference, or none does yet."""


@dataclass(frozen=True, slots=True)
class Change:
    """Lines of one file, which is named by its path (`driver/run.py`), and those that replace them."""

    file: str
    old: str
    new: str

    def apply(self, source: str) -> str:
        """Return the source with the lines replaced. Raises ValueError unless they occur exactly once."""
        lines, new = source.splitlines(), _lines(self.new)
        start, end, indent = self._place(lines)
        lines[start:end] = _indented(new, indent)
        return "\n".join(lines) + "\n"

    def place(self, source: str) -> tuple[int, int]:
        """Return the numbers of the first and the last of the lines. Raises ValueError as `apply` does."""
        start, end, _ = self._place(source.splitlines())
        return start + 1, end

    def _place(self, lines: Sequence[str]) -> tuple[int, int, str]:
        old = _lines(self.old)
        found = [
            (start, indent)
            for start in range(len(lines) - len(old) + 1)
            if (indent := _indent(lines[start], old[0])) is not None
            and lines[start : start + len(old)] == _indented(old, indent)
        ]
        if len(found) != 1:
            raise ValueError(f"the lines of 'old' occur {len(found)} times in {self.file}, not once")
        ((start, indent),) = found
        return start, start + len(old), indent


@dataclass(frozen=True, slots=True)
class Mutant:
    """One wrong driver or server. `editions` are those in which it is wrong; empty for all.

    `shown_by` is a test or an argument that shows that it is wrong. `verdict` and `because` say why scenarios
    do not find it; both are empty where they should.
    """

    name: str
    kind: str
    specification: str
    rule: str
    wrong: str
    changes: tuple[Change, ...]
    location: Location
    shown_by: str = ""
    ticket: str = ""
    editions: tuple[str, ...] = ()
    verdict: str = ""
    because: str = ""

    def sources(self) -> dict[str, str]:
        """Return the changed text of each file. Raises BadInputError for a change that does not apply."""
        texts: dict[str, str] = {}
        for change in self.changes:
            try:
                # Changes of one file build on one another, in the order of `also`.
                before = texts.get(change.file) or original(change.file)
                texts[change.file] = change.apply(before)
            except (OSError, ValueError) as error:
                raise BadInputError(f"{self.location}: '{self.name}': {error}") from error
        return texts


def path_of(file: str) -> Path:
    """Return where a source file of our packages is installed.

    The path is that of `co_filename` in loaded code, by which `overlay.py` finds functions again.
    """
    return Path(__file__).resolve().parents[3] / file


@cache
def original(file: str) -> str:
    """Return the text of a source file. Raises OSError.

    It is kept, so an edit that is saved while a long search runs does not mix two versions in one process.
    """
    return path_of(file).read_text(encoding="utf-8")


def load_mutants(folder: Path) -> tuple[Mutant, ...]:
    """Read all files below a folder, in order. Raises BadInputError, which names file, line and field."""
    try:
        if not folder.is_dir():
            raise BadInputError(f"{folder}: no such folder")
        mutants = tuple(mutant for path in sorted(folder.rglob("*.yml")) for mutant in _mutants(read(path)))
    except (OSError, ScenarioError) as error:
        raise BadInputError(str(error)) from error
    seen: dict[str, Location] = {}
    for mutant in mutants:
        if mutant.name in seen:
            raise BadInputError(f"{mutant.location}: '{mutant.name}' is the name of {seen[mutant.name]} too")
        seen[mutant.name] = mutant.location
    return mutants


_CHANGE: Final[Mapping[str, Schema]] = {"file": STRING, "old": STRING, "new": STRING}
_SCHEMA: Final = record(
    {
        "kind": word(*KINDS),
        "specification": STRING,
        "mutants": array(
            record(
                {
                    "name": STRING,
                    "rule": STRING,
                    "wrong": STRING,
                    **_CHANGE,
                    "also": array(record(_CHANGE, tuple(_CHANGE)), at_least=1),
                    "shown by": STRING,
                    "ticket": STRING,
                    "editions": array(STRING, at_least=1),
                    "survives": record({"as": word(*VERDICTS), "because": STRING}, ("as", "because")),
                },
                ("name", "rule", "wrong", *_CHANGE),
            ),
            at_least=1,
        ),
    },
    ("kind", "specification", "mutants"),
)


@cache
def _validator() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(_SCHEMA)


def _mutants(document: Marked) -> Iterator[Mutant]:
    if problems := list(_validator().iter_errors(document.value)):
        raise explain(document, problems, lambda _: _SCHEMA)[0]
    for entry in document["mutants"].items():
        value: Mapping[str, Any] = entry.value
        survives = value.get("survives", {})
        yield Mutant(
            value["name"],
            document.value["kind"],
            document.value["specification"],
            value["rule"],
            value["wrong"].strip(),
            tuple(
                Change(**{name: change[name] for name in _CHANGE})
                for change in (value, *value.get("also", ()))
            ),
            entry.location,
            shown_by=value.get("shown by", "").strip(),
            ticket=value.get("ticket", ""),
            editions=tuple(value.get("editions", ())),
            verdict=survives.get("as", ""),
            because=survives.get("because", "").strip(),
        )


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in dedent(text).strip("\n").splitlines()]


def _indent(line: str, first: str) -> str | None:
    """Return what stands before the first line, if that is white space."""
    indent = line.removesuffix(first)
    return indent if line.endswith(first) and not indent.strip() else None


def _indented(lines: Iterable[str], indent: str) -> list[str]:
    return [indent + line if line else "" for line in lines]
