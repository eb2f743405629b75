"""Collations: their documents, checked and completed as a server does, and their comparison keys.

The keys are those of the Unicode Collation Algorithm in outline (`collation_keys`). A language with an order
of its own that is not known here may be declared, and texts in known scripts have their order; to put others
in order is refused (238), rather than done wrongly.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.idl.fields import Field, Fields
from fakeserver.storage.values.collation_keys import (
    PLAIN,
    TAILORED,
    UNKNOWN_LETTERS,
    UNKNOWN_SCRIPT,
    KeyOptions,
    Tailoring,
    cautious,
    key_function,
)
from fakeserver.storage.values.printing import show_document
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_VERSION: Final = "57.1"
_FIELDS: Final = Fields.of(
    Field("locale", "string", required=True),
    Field("caseLevel", "bool"),
    Field("caseFirst", "string", choices=("upper", "lower", "off")),
    Field("strength", "int", minimum=0, maximum=5),
    Field("numericOrdering", "bool"),
    Field("alternate", "string", choices=("non-ignorable", "shifted")),
    Field("maxVariable", "string", choices=("punct", "space")),
    Field("normalization", "bool"),
    Field("backwards", "bool"),
    Field("version", "string"),
)
_DEFAULTS: Final[Mapping[str, Any]] = {
    "caseLevel": False,
    "caseFirst": "off",
    "strength": 3,
    "numericOrdering": False,
    "alternate": "non-ignorable",
    "maxVariable": "punct",
    "normalization": False,
    "backwards": False,
}
_LOCALE: Final = re.compile(
    r"(?P<language>[a-z]{2,3})(?P<script>_[A-Z][a-z]{3})?(?P<region>_(?:[A-Z]{2}|\d{3}))?"
    r"(?P<variant>@collation=[a-z]+)?"
)
_UNKNOWN_ORDER: Final = UNKNOWN_LETTERS | UNKNOWN_SCRIPT
_LANGUAGES: Final = PLAIN | _UNKNOWN_ORDER | {name[:2] for name in TAILORED}
_SECONDARY: Final = 2


def fold_of(collation: Mapping[str, Any] | None) -> Callable[[str], Any] | None:
    """Return the function that makes equal what the collation calls equal, None for binary comparison.

    Raises `CommandError` for a collation that a server refuses, 238 for a variant that is not known.
    """
    full = complete(collation)
    if full is None:
        return None
    tailoring = _tailoring(full["locale"])
    keys = key_function(
        KeyOptions(
            strength=full["strength"],
            case_level=full["caseLevel"],
            upper_first=full["caseFirst"] == "upper",
            numeric=full["numericOrdering"],
            shifted=full["alternate"] == "shifted",
            spaces_only=full["maxVariable"] == "space",
            backwards=full["backwards"],
            tailoring=tailoring,
        )
    )
    language = full["locale"].partition("_")[0].partition("@")[0]
    if tailoring != Tailoring() or language not in _UNKNOWN_ORDER:
        return keys
    return cautious(keys, full["locale"], letters=language in UNKNOWN_SCRIPT)


def complete(collation: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a collation with its defaults, as `listCollections` shows it; None for the simple one.

    Raises `CommandError` for a collation that a server refuses, 238 for a variant that is not known.
    """
    if not collation:
        return None
    spec = dict(collation)
    _FIELDS.check(spec, "collation")
    locale = spec["locale"]
    if locale == "simple":
        if len(spec) > 1:
            raise CommandError(
                ErrorCode.FAILED_TO_PARSE,
                "If locale=simple, no other fields should be present in: " + show_document(spec),
            )
        return None
    own = dict(_tailoring(locale, spec).defaults)
    options = {name: spec.get(name, own.get(name, default)) for name, default in _DEFAULTS.items()}
    _check(spec, options)
    return {"locale": locale, **options, "version": _VERSION}


def _check(spec: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    strength = options["strength"]
    if strength < 1:
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE, f"Field 'strength' must be an integer 1 through 5. Got: {strength}"
        )
    version = spec.get("version", _VERSION)
    if version != _VERSION:
        raise CommandError(
            ErrorCode.INCOMPATIBLE_COLLATION_VERSION,
            f"Requested collation version {version} but the only available collator version was {_VERSION}."
            f" Requested collation spec: {show_document(spec)}",
        )
    shown = show_document({"locale": spec["locale"], **options, "version": _VERSION})
    if options["backwards"] and strength == 1:
        raise CommandError(ErrorCode.BAD_VALUE, f"'backwards' is invalid with 'strength' of 1 in: {shown}")
    if options["caseFirst"] != "off" and not options["caseLevel"] and strength <= _SECONDARY:
        raise CommandError(
            ErrorCode.BAD_VALUE,
            f"'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2 in: {shown}",
        )


def _tailoring(locale: str, spec: Mapping[str, Any] | None = None) -> Tailoring:
    """Return the peculiarities of a locale that are known.

    Raises `CommandError` 2 for no locale, 238 for a variant of a language whose order is known otherwise.
    """
    parts = _LOCALE.fullmatch(locale)
    if parts is None or parts["language"] not in _LANGUAGES:
        raise CommandError(
            ErrorCode.BAD_VALUE,
            f"Field 'locale' is invalid in: {show_document(spec or {'locale': locale})}",
        )
    language, variant = parts["language"], parts["variant"] or ""
    with_script = language + (parts["script"] or "")
    for name in (language + (parts["region"] or ""), with_script):
        found = TAILORED.get(name + variant)
        if found is not None:
            return found
    if language not in _UNKNOWN_ORDER and (language not in PLAIN or variant):
        raise CommandError(
            ErrorCode.NOT_IMPLEMENTED,
            f"the order of the locale '{locale}' is not known to this fake server",
        )
    return Tailoring()
