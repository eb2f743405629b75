"""Collation in outline: which strings are the same, and which comes first.

Strengths 1 and 2 ignore case, strength 1 accents too; `numericOrdering` reads digits as numbers. Strengths
3 and above compare strings exactly and order them letter first, accent second, lower case before upper.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

from fakeserver.errors import CommandError
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_KNOWN = frozenset({
    "locale", "strength", "caseLevel", "caseFirst", "numericOrdering", "alternate", "maxVariable",
    "backwards", "normalization", "version",
})  # fmt: skip
_LOCALE = re.compile(r"[a-z]{2,3}([_@-][A-Za-z0-9_=@-]+)?")
_DEFAULT_STRENGTH = 3
_SECONDARY = 2


def fold_of(collation: Mapping[str, Any] | None) -> Callable[[str], Any] | None:
    """Return the function that makes equal what the collation calls equal, None for binary comparison.

    Raises `CommandError` for a collation that a server refuses.
    """
    if not collation:
        return None
    _check(collation)
    if collation["locale"] == "simple":
        return None
    strength = int(collation.get("strength", _DEFAULT_STRENGTH))
    keys = _key(strength, case_level=bool(collation.get("caseLevel", False)))
    if collation.get("numericOrdering"):
        return lambda text: tuple(_chunks(text, keys))
    return keys


def complete(collation: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a collation with its defaults, as `listCollections` shows it; None for the simple one."""
    if not collation:
        return None
    _check(collation)
    if collation["locale"] == "simple":
        return None
    return {
        "locale": collation["locale"],
        "caseLevel": collation.get("caseLevel", False),
        "caseFirst": collation.get("caseFirst", "off"),
        "strength": int(collation.get("strength", _DEFAULT_STRENGTH)),
        "numericOrdering": collation.get("numericOrdering", False),
        "alternate": collation.get("alternate", "non-ignorable"),
        "maxVariable": collation.get("maxVariable", "punct"),
        "normalization": collation.get("normalization", False),
        "backwards": collation.get("backwards", False),
        "version": "57.1",
    }


def _check(collation: Mapping[str, Any]) -> None:
    for name in collation:
        if name not in _KNOWN:
            raise CommandError(
                ErrorCode.IDL_UNKNOWN_FIELD, f"BSON field 'collation.{name}' is an unknown field."
            )
    if "locale" not in collation:
        raise CommandError(
            ErrorCode.IDL_FAILED_TO_PARSE, "BSON field 'collation.locale' is missing but a required field"
        )
    locale = collation["locale"]
    if not isinstance(locale, str) or (locale != "simple" and not _LOCALE.fullmatch(locale)):
        raise CommandError(ErrorCode.BAD_VALUE, f"Field 'locale' is invalid in: {{ locale: \"{locale}\" }}")
    if collation.get("strength", 1) not in (1, 2, 3, 4, 5):
        raise CommandError(
            ErrorCode.BAD_VALUE,
            f"Enumeration value '{collation['strength']}' for field 'collation.strength' is not a "
            "valid value.",
        )


def _key(strength: int, *, case_level: bool) -> Callable[[str], Any]:
    if strength == 1 and not case_level:
        return _letters
    if strength <= _SECONDARY and not case_level:
        return lambda text: (_letters(text), unicodedata.normalize("NFD", text).casefold())
    return lambda text: (_letters(text), unicodedata.normalize("NFD", text).casefold(), text.swapcase(), text)


def _letters(text: str) -> str:
    plain = unicodedata.normalize("NFD", text)
    return "".join(letter for letter in plain if not unicodedata.combining(letter)).casefold()


def _chunks(text: str, keys: Callable[[str], Any]) -> list[tuple[Any, ...]]:
    parts = re.split(r"(\d+)", text)
    return [(0, int(part)) if part.isdigit() else (1, keys(part)) for part in parts if part]
