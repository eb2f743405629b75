"""The rules of five documents, in our own words and in the order of the texts (rules.yml).

Everything here is read once in a process and kept, since each failure of a run asks for its rules. A key of a
section is an id and its keywords (`RW-24 MUST`); rules whose sentence has no keyword follow in `without
keyword`. The reasons and gaps that `Rule` has stand by id in `not applicable`, `open` and `not visible`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.planning.discovery import bundled_root
from mongowire.documents.reader import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


PATH: Final = Path(__file__).with_name("rules.yml")


@dataclass(frozen=True)
class Rule:
    """One sentence of a specification.

    It has a `reason` if it does not apply, `open` says what it lacks, `unseen` why no scenario can show it.
    """

    id: str
    keywords: tuple[str, ...]
    section: str
    text: str
    reason: str | None = None
    open: str | None = None
    unseen: str | None = None


@dataclass(frozen=True)
class Specification:
    """The rules of one text, in its order; its edition is "" if it has none."""

    prefix: str
    title: str
    edition: str
    rules: tuple[Rule, ...]


@cache
def rulebook() -> Mapping[str, Any]:
    """Return what stands in rules.yml."""
    document: Mapping[str, Any] = read(PATH).value
    return document


@cache
def specifications() -> tuple[Specification, ...]:
    """Return the rules by specification."""
    return tuple(_specification(prefix, each) for prefix, each in rulebook()["specifications"].items())


@cache
def rules() -> Mapping[str, Rule]:
    """Return the rules of all specifications, by their ids."""
    return {rule.id: rule for specification in specifications() for rule in specification.rules}


def _specification(prefix: str, data: Mapping[str, Any]) -> Specification:
    reasons, waiting, unseen = (data.get(key) or {} for key in ("not applicable", "open", "not visible"))
    found = []
    for section, sentences in chain(data.get("sections", {}).items(), data["without keyword"].items()):
        for key, text in sentences.items():
            number, _, keywords = key.partition(" ")
            why = (each.get(number) for each in (reasons, waiting, unseen))
            found.append(Rule(number, tuple(keywords.split(", ")), section, text, *why))
    return Specification(prefix, data["title"], str(data.get("edition", "")), tuple(found))


# What scenarios say of themselves: the rules that a case shows, the wrong driver that it fails.
#
# Two comment lines stand under the description of a case; in a file of a pool, which is one case, above it:
#
#     - description: a write is sent again with the number of its first attempt
#       # Rules: RW-24, RW-25
#       # Wrong driver: takes a new number for every attempt.
#
# A rule is an id of rules.yml, or a section of another specification: `Transactions: Error Labels`.


_RULES: Final = re.compile(r"^ *# Rules: (.+)$")
_WRONG: Final = re.compile(r"^ *# Wrong driver: \S")
_CASE: Final = re.compile(r"^ *- description: (.+)$")
_POOL_CASE: Final = re.compile(r"^description: (.+)$")
_ID: Final = re.compile(r"\b[A-Z]+-\d+\b")
_SECTION: Final = re.compile(r"[A-Z][^:]+: \S")


@dataclass(frozen=True)
class Note:
    """The notes on one case; `path` is relative to the folder that the scenarios' folder is in.

    `rules` are those with a number; `names_section` says whether sections of other specifications are named.
    """

    path: str
    description: str
    rules: tuple[str, ...]
    names_section: bool
    names_wrong_driver: bool

    @property
    def case_id(self) -> str:
        """The id of the case in results: `retryable-writes/batches::description`."""
        return f"{self.path.partition('/')[2].removesuffix('.yml')}::{self.description}"


@cache
def notes() -> tuple[Note, ...]:
    """Read the comments of all bundled cases, by file and in the order of their file."""
    root = bundled_root()
    return tuple(
        note
        for path in sorted(root.rglob("*.yml"))
        for note in notes_of(path, path.relative_to(root.parent).as_posix())
    )


def notes_of(path: Path, name: str = "") -> Iterator[Note]:
    """Read the comments of one file."""
    lines = path.read_text("utf-8").splitlines()
    starts = [number for number, line in enumerate(lines) if _CASE.match(line)]
    for start, end in pairwise([*starts, len(lines)]):
        yield _note(name, _CASE, lines[start:end])
    if not starts and any(line.startswith("style:") for line in lines):
        yield _note(name, _POOL_CASE, lines)


def _note(path: str, title: re.Pattern[str], lines: Sequence[str]) -> Note:
    description = next((found[1] for line in lines if (found := title.match(line))), "")
    rules = " ".join(found[1] for line in lines if (found := _RULES.match(line)))
    return Note(
        path,
        description.strip("\"' "),
        tuple(_ID.findall(rules)),
        bool(_SECTION.search(_ID.sub("", rules))),
        any(map(_WRONG.match, lines)),
    )


@cache
def rules_of_cases() -> Mapping[str, tuple[str, ...]]:
    """Return the numbered rules that each bundled case shows, by its id."""
    return {note.case_id: note.rules for note in notes() if note.rules}


@cache
def shown() -> Mapping[str, Sequence[Note]]:
    """Return the cases that show each numbered rule."""
    found: dict[str, list[Note]] = {}
    for note in notes():
        for number in note.rules:
            found.setdefault(number, []).append(note)
    return found
