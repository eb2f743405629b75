"""The rules of five documents, in our own words and in the order of the texts (rules.yml)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mongowire.documents.reader import read

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """What one text asks, in its order; its edition is "" if it has none."""

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
