"""Collations: their documents, checked and completed as a server does, and their comparison keys.

The keys are those of the Unicode Collation Algorithm in outline (`collation_keys`). A language with an order
of its own that is not known here may be declared, and texts in known scripts have their order; to put others
in order is refused (238), rather than done wrongly.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.errors import CommandError
from fakeserver.idl.fields import Field, Fields
from fakeserver.storage.values.printing import show_document
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


# Keys by which a collation compares strings, by the Unicode Collation Algorithm.
#
# A text becomes elements, one or more for each letter; the key holds one level after the other: letters,
# accents, case, punctuation that was passed over. The order of the elements is that of the root collation:
# white space, punctuation, symbols, currencies, digits, letters.


class Tailoring(NamedTuple):
    """The peculiarities of a language.

    `letters` holds chains such as `c č ć`: after the first letter of each come the others, as letters of
    their own. `equals` are letters that stand for another. `script` (code points) comes before Latin.
    `defaults` are options that hold unless a collation states them.
    """

    letters: str = ""
    equals: tuple[tuple[str, str], ...] = ()
    script: tuple[int, int] = (0, 0)
    defaults: tuple[tuple[str, Any], ...] = ()


_CYRILLIC: Final = (0x400, 0x530)
_UPPER_FIRST: Final = (("caseFirst", "upper"),)
_SWEDISH: Final = Tailoring("z å ä ö", (("æ", "ä"), ("ø", "ö")))
_NORWEGIAN: Final = Tailoring("z æ ø å", (("ä", "æ"), ("ö", "ø"), ("aa", "å")))
_CROATIAN: Final = Tailoring("c č ć, d dž đ, l lj, n nj, s š, z ž")

TAILORED: Final[dict[str, Tailoring]] = {
    "bg": Tailoring(script=_CYRILLIC),
    "bs": _CROATIAN,
    "cs": Tailoring("c č, h ch, r ř, s š, z ž"),
    "da": _NORWEGIAN._replace(defaults=_UPPER_FIRST),
    "de@collation=phonebook": Tailoring(equals=(("ä", "ae"), ("ö", "oe"), ("ü", "ue"))),
    "el": Tailoring(script=(0x370, 0x400)),
    "es": Tailoring("n ñ"),
    "es@collation=traditional": Tailoring("c ch, l ll, n ñ"),
    "fi": _SWEDISH,
    "fr_CA": Tailoring(defaults=(("backwards", True),)),
    "th": Tailoring(defaults=(("alternate", "shifted"),)),
    "he": Tailoring(script=(0x590, 0x600)),
    "hr": _CROATIAN,
    "hu": Tailoring("c cs, d dz dzs, g gy, l ly, n ny, o ö, s sz, t ty, u ü, z zs", (("ő", "ö"), ("ű", "ü"))),
    "lt": Tailoring("c č, s š, z ž"),
    "lv": Tailoring("c č, g ģ, k ķ, l ļ, n ņ, r ŗ, s š, z ž"),
    "nb": _NORWEGIAN,
    "nn": _NORWEGIAN,
    "pl": Tailoring("a ą, c ć, e ę, l ł, n ń, o ó, s ś, z ź ż"),
    "ro": Tailoring("a ă â, i î, s ș, t ț", (("ş", "ș"), ("ţ", "ț"))),
    "ru": Tailoring(script=_CYRILLIC),
    "sk": Tailoring("a ä, c č, h ch, o ô, s š, z ž"),
    "sl": Tailoring("c č ć, d đ, s š, z ž"),
    "sr_Latn": _CROATIAN,
    "sv": _SWEDISH,
}
"""The locales with an order of their own that is known here, from the public collation charts."""

PLAIN: Final = frozenset({
    "af", "ca", "chr", "de", "en", "fr", "ga", "gl", "haw", "id", "it", "lb", "ln", "ms", "nl", "om", "pt",
    "sw", "zu",
})  # fmt: skip
"""The languages whose order is everybody's."""

UNKNOWN_LETTERS: Final = frozenset({
    "az", "cy", "dsb", "ee", "eo", "et", "fil", "fo", "ha", "hsb", "ig", "is", "kl", "lk", "mt", "se", "smn",
    "sq", "to", "tr", "vi", "wae", "yo",
})  # fmt: skip
"""Languages in Latin letters that a server knows, and whose order of those is not known here."""

UNKNOWN_SCRIPT: Final = frozenset({
    "am", "ar", "as", "be", "bn", "bo", "dz", "fa", "gu", "hi", "hy", "ja", "ka", "kk", "km", "kn", "ko",
    "kok", "ky", "lo", "mk", "ml", "mn", "mr", "my", "ne", "or", "pa", "ps", "si", "sr", "ta", "te", "th",
    "ug", "uk", "ur", "yi", "zh",
})  # fmt: skip
"""Languages in another script that a server knows: their order of Latin letters is everybody's."""


_SPACE, _PUNCTUATION, _SYMBOL, _CURRENCY, _DIGIT, _FIRST_SCRIPT, _LETTER, _OTHER = range(1, 9)
_ASCII_ORDER: Final = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$"
_POSITIONS: Final = {sign: position for position, sign in enumerate(_ASCII_ORDER)}
_BEYOND_ASCII: Final = 0x1000
_STROKE: Final = 0x335
_WITH_STROKE: Final = {"ø": "o", "đ": "d", "ł": "l", "ħ": "h", "ŧ": "t"}
_LIGATURES: Final = {"æ": "ae", "œ": "oe", "ß": "ss", "ĳ": "ij"}
_KATAKANA: Final = (0x30A1, 0x30F7)
_TO_HIRAGANA: Final = 0x60
_SHORT_I: Final = "\u0438\u0306"
"""The Cyrillic letter that decomposes into another and a breve, and is a letter of its own all the same."""

_ANY_LETTER: Final = re.compile(r"[^\W\d_]")
_BEYOND_LATIN: Final = re.compile(r"[^\W\d_\u0000-\u024f]")
_LAST_LEVEL: Final = (_OTHER + 1,)
_PRIMARY, _SECONDARY, _TERTIARY, _QUATERNARY = 1, 2, 3, 4


class KeyOptions(NamedTuple):
    """The options of a collation."""

    strength: int = 3
    case_level: bool = False
    upper_first: bool = False
    numeric: bool = False
    shifted: bool = False
    spaces_only: bool = False
    backwards: bool = False
    tailoring: Tailoring = Tailoring()


class _Element(NamedTuple):
    """The weights of a part of a text: an empty `primary` is an accent, `case` is 1 for a capital."""

    primary: tuple[Any, ...]
    secondary: int = 0
    case: int = 0
    variant: int = 0


@lru_cache(maxsize=64)
def key_function(options: KeyOptions) -> Callable[[str], tuple[Any, ...]]:
    """Return the function that makes keys: equal for equal texts, and in the order of the texts."""
    reader = _Reader(options)
    return lru_cache(maxsize=4096)(lambda text: _key(text, reader, options))


class UnknownOrder:
    """The key of a text whose place in the order of its language is not known: it can only be equal."""

    __slots__ = ("_key", "_locale")

    def __init__(self, key: tuple[Any, ...], locale: str) -> None:
        self._key = key
        self._locale = locale

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnknownOrder) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def _refuse(self, _other: object) -> bool:
        """Raise `CommandError` 238."""
        raise CommandError(
            ErrorCode.NOT_IMPLEMENTED,
            f"the order of the locale '{self._locale}' is not known to this fake server",
        )

    __lt__ = __le__ = __gt__ = __ge__ = _refuse


@lru_cache(maxsize=64)
def cautious(keys: Callable[[str], Any], locale: str, *, letters: bool) -> Callable[[str], Any]:
    """Return `keys` with those of unknown order for texts with letters that are not known.

    Latin `letters` are known or not; those of other scripts are not.
    """
    unknown = _BEYOND_LATIN if letters else _ANY_LETTER

    def key(text: str) -> Any:
        return UnknownOrder(keys(text), locale) if unknown.search(text) else keys(text)

    return key


def _key(text: str, reader: _Reader, options: KeyOptions) -> tuple[Any, ...]:
    elements, passed_over = reader.read(text)
    levels: list[Any] = [tuple(each.primary for each in elements if each.primary)]
    if options.strength >= _SECONDARY:
        accents = [each.secondary for each in elements]
        levels.append(tuple(reversed(accents) if options.backwards else accents))
    capitals = tuple(each.case ^ options.upper_first for each in elements if each.primary)
    if options.case_level:
        levels.append(capitals)
    if options.strength >= _TERTIARY:
        levels.append(capitals)
        levels.append(tuple(each.variant for each in elements if each.primary))
    if options.strength >= _QUATERNARY:
        levels.append(passed_over)
    if options.strength > _QUATERNARY:
        levels.append(unicodedata.normalize("NFD", text))
    return tuple(levels)


class _Reader:
    """Reads texts as elements."""

    def __init__(self, options: KeyOptions) -> None:
        self.options = options
        self.letters: dict[str, tuple[str, int]] = {}
        """The language's own letters: the letter that each comes after, and by how much."""
        for chain in filter(None, options.tailoring.letters.split(", ")):
            first, *others = chain.split(" ")
            self.letters.update({letter: (first, index) for index, letter in enumerate(others, start=1)})
        self.equals = dict(options.tailoring.equals)
        known = sorted([*self.letters, *self.equals], key=len, reverse=True)
        alternatives = [*map(re.escape, known), r"\d+" if options.numeric else r"\d", "."]
        self.parts = re.compile("|".join(alternatives), re.IGNORECASE | re.DOTALL)

    def read(self, text: str) -> tuple[list[_Element], tuple[Any, ...]]:
        """Return the elements of a text, and the level of what is passed over by `alternate: shifted`."""
        elements: list[_Element] = []
        last_level: list[Any] = []
        after_variable = False
        for part in self.parts.findall(unicodedata.normalize("NFC", text)):
            for element in self._elements(part):
                if self._is_variable(element) or (after_variable and not element.primary):
                    last_level.append(element.primary)
                    after_variable = True
                    continue
                after_variable = False
                elements.append(element)
                last_level.append(_LAST_LEVEL)
        return elements, tuple(last_level) if self.options.shifted else ()

    def _is_variable(self, element: _Element) -> bool:
        if not self.options.shifted or not element.primary:
            return False
        return bool(element.primary[0] <= (_SPACE if self.options.spaces_only else _PUNCTUATION))

    def _elements(self, part: str) -> Iterator[_Element]:
        lower = part.lower()
        case = int(part != lower)
        position = self.letters.get(lower)
        if position is not None:
            yield _Element((_LETTER, *position), case=case)
        elif lower in self.equals:
            # The letter's equivalent, which an accent tells apart from it.
            for equal in self.parts.findall(self.equals[lower]):
                for element in self._elements(equal):
                    yield element._replace(case=case)
            yield _Element((), _STROKE)
        elif part.isdecimal():
            yield _Element((_DIGIT, int(part)))
        else:
            yield from self._decomposed(lower, case)

    def _decomposed(self, lower: str, case: int) -> Iterator[_Element]:
        if lower in _LIGATURES:
            for letter in _LIGATURES[lower]:
                yield _Element(self._primary(letter), case=case, variant=1)
            return
        canonical = unicodedata.normalize("NFD", lower)
        plain = unicodedata.normalize("NFKD", lower)
        variant = int(canonical != plain)
        if plain == _SHORT_I:
            yield _Element((*self._primary("\u0438"), 1), case=case)
            return
        for sign in plain:
            if unicodedata.combining(sign):
                yield _Element((), ord(sign))
            elif sign in _WITH_STROKE:
                yield _Element(self._primary(_WITH_STROKE[sign]), case=case)
                yield _Element((), _STROKE)
            elif unicodedata.category(sign) not in {"Cc", "Cf"} or sign.isspace():
                # Controls and formats that are no white space count for nothing.
                is_katakana = _KATAKANA[0] <= ord(sign) < _KATAKANA[1]
                yield _Element(self._primary(sign), case=case, variant=variant or int(is_katakana))

    def _primary(self, sign: str) -> tuple[Any, ...]:
        category = unicodedata.category(sign)
        if sign.isspace() or category[0] == "Z":
            group = _SPACE
        elif category == "Sc":
            group = _CURRENCY
        else:
            group = {"P": _PUNCTUATION, "S": _SYMBOL, "N": _DIGIT, "L": _LETTER}.get(category[0], _OTHER)
        code = ord(sign)
        if group == _LETTER:
            if _KATAKANA[0] <= code < _KATAKANA[1]:
                code -= _TO_HIRAGANA
            start, end = self.options.tailoring.script
            return (_FIRST_SCRIPT if start <= code < end else _LETTER, chr(code))
        if group == _DIGIT:
            return (_DIGIT, unicodedata.digit(sign, 0))
        return (group, _POSITIONS.get(sign, _BEYOND_ASCII + code))


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
DECLARED: Final = Fields.of(
    *(
        {
            "bool": Field(name, "strictBool", nullable=name != "backwards"),
            "int": Field(name, "int", minimum=1, maximum=5),
        }.get(each.kind, each)
        for name, each in _FIELDS.by_name.items()
    )
)
"""A collation that a collection is made with: its flags are bools, where a command takes numbers for them."""
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
        return None  # bytes are compared, whatever else is said
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
