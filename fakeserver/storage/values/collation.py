"""Collations: their documents, checked and completed as a server does, and their comparison keys.

The keys are those of the Unicode Collation Algorithm in outline. A language with an order of its own that is
not known here may be declared, and texts in known scripts have their order; to put others in order is refused
(238), rather than done wrongly.

`fold_of` is the entrance: it turns a collation into a function of a string, which all rooms of the storage
pass around as `fold`. Its keys are equal for equal texts, and sort as the texts do; None stands for the
comparison of bytes. `complete` adds the defaults, as `listCollections` shows them; two collations are the
same if their completed documents are. `stored_fold_of` is for indexes, which must have some order even where
it is unknown.

A language is a row of `TAILORED`, or a name in `PLAIN`. One in an `UNKNOWN_` set may be declared: its texts
are equal or not, and comparing them with `<` raises (`UnknownOrder`). To add an order, give it a row.
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
#
# Python compares keys as tuples, so an earlier level decides before a later one is looked at, which is what
# `strength` means: a key of strength 2 is that of strength 3 without its last levels.


class Tailoring(NamedTuple):
    """The peculiarities of a language.

    `letters` holds chains such as `c č ć`: after the first letter of each come the others, as letters of
    their own. `equals` are letters that stand for another. `script` (code points) comes before Latin.
    `defaults` are options that hold unless a collation states them. `dotless`: a capital `I` has no dot.
    `tones`: the four tones come before a vowel without one. `kana`: both kana are the same, kanji are in the
    order of JIS. `codes`: ASCII is in the order of its codes.
    """

    letters: str = ""
    equals: tuple[tuple[str, str], ...] = ()
    script: tuple[int, int] = (0, 0)
    defaults: tuple[tuple[str, Any], ...] = ()
    dotless: bool = False
    tones: bool = False
    kana: bool = False
    codes: bool = False


_CYRILLIC: Final = (0x400, 0x530)
_UPPER_FIRST: Final = (("caseFirst", "upper"),)
_OF_ALL_NORTHERNERS: Final = (("ü", "y"), ("þ", "th"))
_FINNISH: Final = Tailoring("z å ä ö", (("æ", "ä"), ("ø", "ö"), ("ŋ", "n"), ("ü", "y")))
_SWEDISH: Final = Tailoring(
    "z å ä ö",
    (
        ("æ", "ä"),
        ("ę", "ä"),
        ("ø", "ö"),
        ("ő", "ö"),
        ("œ", "ö"),
        ("ô", "ö"),
        *_OF_ALL_NORTHERNERS,
        ("ű", "y"),
    ),
)
_NORWEGIAN: Final = Tailoring(
    "z æ ø å",
    (
        ("ä", "æ"),
        ("ę", "æ"),
        ("ö", "ø"),
        ("ő", "ø"),
        ("œ", "ø"),
        ("aa", "å"),
        *_OF_ALL_NORTHERNERS,
        ("ű", "y"),
    ),
)
_DANISH: Final = Tailoring(
    "z æ ø å",
    (("ä", "æ"), ("ö", "ø"), ("ő", "ø"), ("aa", "å"), *_OF_ALL_NORTHERNERS, ("ű", "y")),
    defaults=_UPPER_FIRST,
)
_CROATIAN: Final = Tailoring("c č ć, d dž đ, l lj, n nj, s š, z ž")

TAILORED: Final[dict[str, Tailoring]] = {
    "bg": Tailoring(script=_CYRILLIC),
    "bs": _CROATIAN,
    "cs": Tailoring("c č, h ch, r ř, s š, z ž"),
    "cy": Tailoring("c ch, d dd, f ff, g ng, l ll, p ph, r rh, t th"),
    "da": _DANISH,
    "de@collation=phonebook": Tailoring(equals=(("ä", "ae"), ("ö", "oe"), ("ü", "ue"))),
    "el": Tailoring(script=(0x370, 0x400)),
    "en_US_POSIX": Tailoring(codes=True),
    "eo": Tailoring("c ĉ, g ĝ, h ĥ, j ĵ, s ŝ, u ŭ"),
    "es": Tailoring("n ñ"),
    "es@collation=traditional": Tailoring("c ch, l ll, n ñ"),
    "et": Tailoring("s š z ž, w õ ä ö ü"),
    "fi": _FINNISH,
    "fr_CA": Tailoring(defaults=(("backwards", True),)),
    "th": Tailoring(defaults=(("alternate", "shifted"),)),
    "he": Tailoring(script=(0x590, 0x600)),
    "hr": _CROATIAN,
    "hu": Tailoring("c cs, d dz dzs, g gy, l ly, n ny, o ö, s sz, t ty, u ü, z zs", (("ő", "ö"), ("ű", "ü"))),
    "is": Tailoring("a á, d ð, e é, i í, o ó, u ú, y ý, z þ æ ö å", (("ä", "æ"), ("ø", "ö"))),
    "ja": Tailoring(kana=True),
    "ko": Tailoring(script=(0x1100, 0x1200)),
    "lt": Tailoring("c č, s š, z ž", (("y", "i"),)),
    "lv": Tailoring("c č, g ģ, k ķ, l ļ, n ņ, r ŗ, s š, z ž", (("y", "i"),)),
    "mt": Tailoring("b ċ, f ġ, g għ, h ħ, y ż", defaults=_UPPER_FIRST),
    "nb": _NORWEGIAN,
    "nn": _NORWEGIAN,
    "pl": Tailoring("a ą, c ć, e ę, l ł, n ń, o ó, s ś, z ź ż"),
    "ro": Tailoring("a ă â, i î, s ș, t ț", (("ş", "ș"), ("ţ", "ț"))),
    "ru": Tailoring(script=_CYRILLIC),
    "sk": Tailoring("a ä, c č, h ch, o ô, s š, z ž"),
    "sl": Tailoring("c č ć, d đ, s š, z ž"),
    "sq": Tailoring("c ç, d dh, e ë, g gj, l ll, n nj, r rr, s sh, t th, x xh, z zh"),
    "sr_Latn": _CROATIAN,
    "sv": _SWEDISH,
    "tr": Tailoring("c ç, g ğ, h \u0131, o ö, s ş, u ü", dotless=True),
    "zh": Tailoring(tones=True),
    "zh_Hans": Tailoring(tones=True),
    "zh_Hant": Tailoring(),
}
"""The locales with an order of their own that is known here, from the public collation charts."""

PLAIN: Final = frozenset({
    "af", "ca", "chr", "de", "en", "fr", "ga", "gl", "haw", "id", "it", "lb", "ln", "ms", "nl", "om", "pt",
    "sw", "zu",
})  # fmt: skip
"""The languages whose order is everybody's."""

UNKNOWN_LETTERS: Final = frozenset({
    "az", "dsb", "ee", "fil", "fo", "ha", "hsb", "ig", "kl", "lk", "se", "smn", "to", "vi", "wae", "yo",
})  # fmt: skip
"""Languages in Latin letters that a server knows, and whose order of those is not known here."""

UNKNOWN_SCRIPT: Final = frozenset({
    "am", "ar", "as", "be", "bn", "bo", "dz", "fa", "gu", "hi", "hy", "ka", "kk", "km", "kn", "kok", "ky",
    "lo", "mk", "ml", "mn", "mr", "my", "ne", "or", "pa", "ps", "si", "sr", "ta", "te", "th", "ug", "uk",
    "ur", "yi",
})  # fmt: skip
"""Languages in another script that a server knows: their order of Latin letters is everybody's."""

UNKNOWN_HAN: Final = frozenset({"ko", "zh"})
"""Languages with Chinese characters in an order (by sound) that takes a dictionary."""


_SPACE, _PUNCTUATION, _SYMBOL, _CURRENCY, _DIGIT, _FIRST_SCRIPT, _LETTER, _HAN, _OTHER = range(1, 10)
_ASCII_ORDER: Final = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$"
_POSITIONS: Final = {sign: position for position, sign in enumerate(_ASCII_ORDER)}
_BEYOND_ASCII: Final = 0x1000
_ORDER_OF_ACCENTS: Final = (
    "332 313 314 301 300 306 302 30c 30a 342 308 30b 303 307 338 327 328 304 30d 316 336 335 305 309 30f 310"
    " 311 31b 321 322 323 324 325 326 32d 32e 330 331 334 339"
)
# From 16 on: below are the marks of ligatures (1) and of letters that equal another (2 and more).
_ACCENTS: Final = {int(code, 16): rank for rank, code in enumerate(_ORDER_OF_ACCENTS.split(), start=16)}
"""The accents in their order, which is not that of their codes; others follow."""
_SLASH, _STROKE, _LIGATED = _ACCENTS[0x338], _ACCENTS[0x335], 1
_WITH_STROKE: Final = {"ø": ("o", _SLASH), "đ": ("d", _STROKE), "ð": ("d", _STROKE + 1), "ł": ("l", _STROKE),
                       "ħ": ("h", _STROKE)}  # fmt: skip
_LIGATURES: Final = {"æ": "ae", "œ": "oe", "ß": "ss"}
_ROOT_LETTERS: Final = (
    "b ƀ ƃ, c ȼ ƈ, d ƌ ȡ, e ɇ ǝ ə, f ƒ, g ǥ ƣ, h ƕ, i \u0131, j ȷ ɉ, k ƙ, l ƚ ƛ, n ƞ ȵ ŋ, o \u0223, p ƥ,"
    " q ɋ ĸ, r ɍ, s ȿ ƪ, t ƾ ŧ ƫ ƭ ȶ, y ɏ ƴ ȝ, z \u018d ƶ ȥ ɀ ƹ ƺ þ ƿ ƻ ƨ \u01bd ƅ ɂ"
)
"""Letters of their own in every language, behind those that a language has made."""
_BEHIND_OWN: Final = 100
_TONES: Final = {"\u0304": 4, "\u0301": 3, "\u030c": 2, "\u0300": 1}
_TONED: Final = frozenset("aeimnou")
_UMLAUT: Final = "\u0308"
_KATAKANA: Final = (0x30A1, 0x30F7)
_KANA: Final = (0x3041, 0x3097)
_SMALL_KANA: Final = {small: chr(ord(small) + 1) for small in "ぁぃぅぇぉっゃゅょゎ"} | {
    "ゕ": "か",
    "ゖ": "け",
}
_LONG_VOWEL: Final = "\u30fc"
_VOWELS: Final = {"A": "あ", "I": "い", "U": "う", "E": "え", "O": "お"}
_TO_HIRAGANA: Final = 0x60
_HAN_CODES: Final = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_IS_HAN: Final = re.compile(f"[{_HAN_CODES}]")
_MOST_DIGITS: Final = 254
"""The digits that are one number at most."""
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
    katakana: bool = False


@lru_cache(maxsize=64)
def key_function(options: KeyOptions) -> Callable[[str], tuple[Any, ...]]:
    """Return the function that makes keys: equal for equal texts, and in the order of the texts."""
    # The reader has a compiled expression, and most texts of a sort are compared many times: both are kept.
    reader = _Reader(options)
    return lru_cache(maxsize=4096)(lambda text: _key(text, reader, options))


class UnknownOrder:
    """The key of a text whose place in the order of its language is not known: it can only be equal."""

    __slots__ = ("_key", "_locale")

    def __init__(self, key: Any, locale: str) -> None:
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
def cautious(keys: Callable[[str], Any], locale: str, unknown: re.Pattern[str]) -> Callable[[str], Any]:
    """Return `keys` with those of unknown order for texts with letters that are not known."""

    def key(text: str) -> Any:
        return UnknownOrder(keys(text), locale) if unknown.search(text) else keys(text)

    return key


def _key(text: str, reader: _Reader, options: KeyOptions) -> tuple[Any, ...]:
    elements, passed_over = reader.read(text)
    levels: list[Any] = [tuple(each.primary for each in elements if each.primary)]
    if options.strength >= _SECONDARY:
        accents = [each.secondary for each in elements]
        # From the end in Canadian French: `côte` before `coté`, because the last accent decides.
        levels.append(tuple(reversed(accents) if options.backwards else accents))
    capitals = tuple(each.case ^ options.upper_first for each in elements if each.primary)
    if options.case_level:
        levels.append(capitals)
    if options.strength >= _TERTIARY:
        levels.append(capitals)
        levels.append(tuple(each.variant for each in elements if each.primary))
    if options.strength >= _QUATERNARY:
        levels.append(passed_over)
        if options.tailoring.kana:
            levels.append(tuple(each.katakana for each in elements if each.primary))
    # Strength 5 tells apart all that is not the same text: code points are the tie-breaker.
    if options.strength > _QUATERNARY:
        levels.append(unicodedata.normalize("NFD", text))
    return tuple(levels)


class _Reader:
    """Reads texts as elements."""

    def __init__(self, options: KeyOptions) -> None:
        self.options = options
        self.letters = {**_ROOT, **_chained(options.tailoring.letters)}
        """The letters that are no base: the letter that each comes after, and by how much."""
        self.equals = dict(options.tailoring.equals)
        self.ranks = {letter: rank for rank, letter in enumerate(self.equals, start=_LIGATED + 1)}
        # The longest first, so that `dzs` is found before `dz`, and `ch` before `c`.
        known = sorted([*self.letters, *self.equals], key=len, reverse=True)
        number = rf"0*\d{{1,{_MOST_DIGITS}}}" if options.numeric else r"\d"
        alternatives = [*map(re.escape, known), number, "."]
        self.parts = re.compile("|".join(alternatives), re.IGNORECASE | re.DOTALL)

    def read(self, text: str) -> tuple[list[_Element], tuple[Any, ...]]:
        """Return the elements of a text, and the level of what is passed over by `alternate: shifted`."""
        elements: list[_Element] = []
        last_level: list[Any] = []
        after_variable = False
        before = ""
        for part in self.parts.findall(unicodedata.normalize("NFC", text)):
            read = self._long_vowel(before) if part == _LONG_VOWEL else None
            before = part
            for element in self._elements(part) if read is None else [read]:
                # An accent behind punctuation that is passed over is passed over with it.
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
        if self.options.spaces_only:
            return bool(element.primary[0] == _SPACE and element.variant != _NO_BREAK)
        return bool(element.primary[0] <= _PUNCTUATION)

    def _long_vowel(self, before: str) -> _Element | None:
        """Return the vowel of the kana before a sign that makes it long, in Japanese; None elsewhere."""
        vowel = _VOWELS.get(unicodedata.name(before, "")[-1:]) if self.options.tailoring.kana else None
        if vowel is None or not (_KANA[0] <= ord(before) < _KATAKANA[1]):
            return None
        return _Element((_LETTER, vowel), variant=-1)

    def _elements(self, part: str) -> Iterator[_Element]:
        tailoring = self.options.tailoring
        if tailoring.codes and part.isascii():
            for sign in part:
                yield _Element((_LETTER, "a", ord(sign)))
            return
        lower = part.translate(_DOTLESS).lower() if tailoring.dotless else part.lower()
        case = int(part != lower)
        position = self.letters.get(lower)
        if lower in self.equals:
            # The letter's equivalent, which an accent tells apart from it.
            for equal in self.parts.findall(self.equals[lower]):
                for element in self._elements(equal):
                    yield element._replace(case=case)
            yield _Element((), self.ranks[lower])
        elif position is not None:
            yield _Element((_LETTER, *position), case=case)
        elif part.isdecimal():
            yield _Element((_DIGIT, int(part)))
        else:
            yield from self._decomposed(lower, case)

    def _decomposed(self, lower: str, case: int) -> Iterator[_Element]:
        if lower in _LIGATURES:
            first, second = tuple(_LIGATURES[lower])
            yield _Element(self._primary(first), case=case, variant=1)
            yield _Element((), _LIGATED)
            yield _Element(self._primary(second), case=case, variant=1)
            return
        canonical = unicodedata.normalize("NFD", lower)
        plain = unicodedata.normalize("NFKD", lower)
        variant = int(canonical != plain)
        if plain == _SHORT_I:
            yield _Element((*self._primary("\u0438"), 1), case=case)
        elif self.options.tailoring.tones and plain[0] in _TONED and plain[1:]:
            yield from self._with_tone(plain, case)
        else:
            if plain == " " and variant:
                variant = _NO_BREAK if "<noBreak>" in unicodedata.decomposition(lower) else variant
            for sign in plain:
                yield from self._sign(sign, case, variant)

    def _sign(self, sign: str, case: int, variant: int) -> Iterator[_Element]:
        code = ord(sign)
        if unicodedata.combining(sign):
            yield _Element((), _ACCENTS.get(code, code))
        elif sign in self.equals:
            yield from self._elements(sign)
        elif sign in _WITH_STROKE:
            letter, accent = _WITH_STROKE[sign]
            yield _Element(self._primary(letter), case=case)
            yield _Element((), accent)
        elif _KANA[0] <= code < _KANA[1] or _KATAKANA[0] <= code < _KATAKANA[1]:
            is_katakana = code >= _KATAKANA[0]
            hiragana = chr(code - _TO_HIRAGANA) if is_katakana else sign
            # Small before large, and hiragana before katakana, which Japanese does not tell apart.
            other = 0 if self.options.tailoring.kana else 2 * is_katakana
            kind = (hiragana not in _SMALL_KANA) + other + 4 * variant
            primary = (_LETTER, _SMALL_KANA.get(hiragana, hiragana))
            yield _Element(primary, variant=kind, katakana=is_katakana)
        elif unicodedata.category(sign) not in {"Cc", "Cf"} or sign.isspace():
            # Controls and formats that are no white space count for nothing.
            yield _Element(self._primary(sign), case=case, variant=variant)

    def _with_tone(self, plain: str, case: int) -> Iterator[_Element]:
        """Yield a vowel of Chinese: the four tones before the vowel, those of `ü` behind all accents."""
        vowel, *marks = list(plain)
        primary = self._primary(vowel)
        if len(marks) == 1 and marks[0] in _TONES:
            yield _Element(primary, -_TONES[marks[0]], case)
        elif vowel == "u" and marks[0] == _UMLAUT and (len(marks) == 1 or marks[1] in _TONES):
            yield _Element(primary, case=case)
            yield _Element((), _BEYOND_ASCII - (_TONES[marks[1]] if marks[1:] else 0))
        else:
            yield _Element(primary, case=case)
            for mark in marks:
                yield from self._sign(mark, case, 0)

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
            if sign in self.letters:
                return (_LETTER, *self.letters[sign])
            if _IS_HAN.match(sign):
                # The kanji of Japanese have the places of JIS X 0208, others come behind them.
                place = sign.encode("euc_jp", "replace") if self.options.tailoring.kana else b""
                return (_HAN, place if len(place) == _TWO_BYTES else _LAST_PLACE, code)
            start, end = self.options.tailoring.script
            return (_FIRST_SCRIPT if start <= code < end else _LETTER, chr(code))
        if group == _DIGIT:
            return (_DIGIT, unicodedata.digit(sign, 0))
        return (group, _POSITIONS.get(sign, _BEYOND_ASCII + code))


_DOTLESS: Final = {ord("I"): "\u0131", ord("\u0130"): "i"}
_TWO_BYTES, _LAST_PLACE = 2, b"\xff"
_NO_BREAK: Final = 9
"""The variant of a space that does not break: it is no space where spaces alone are passed over."""


def _chained(letters: str) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    for chain in filter(None, letters.split(", ")):
        first, *others = chain.split(" ")
        found.update({letter: (first, index) for index, letter in enumerate(others, start=1)})
    return found


_ROOT: Final = {
    letter: (first, index + _BEHIND_OWN) for letter, (first, index) in _chained(_ROOT_LETTERS).items()
}


_VERSION: Final = "57.1"
"""The version of ICU that a server is built with: shown in each collation, and the only one that is taken."""
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
    r"(?P<variant>@collation=[a-z]+|(?<=en_US)_POSIX)?"
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
    keys = _keys(full)
    unknown = _unknown_letters(full["locale"])
    return keys if unknown is None else cautious(keys, full["locale"], unknown)


def stored_fold_of(collation: Mapping[str, Any] | None) -> tuple[Callable[[str], Any] | None, bool]:
    """Return the same for keys of an index, which are in some order always, and whether it is the right one.

    Raises `CommandError` as `fold_of` does.
    """
    full = complete(collation)
    if full is None:
        return None, True
    return _keys(full), _unknown_letters(full["locale"]) is None


def _keys(full: Mapping[str, Any]) -> Callable[[str], tuple[Any, ...]]:
    return key_function(
        KeyOptions(
            strength=full["strength"],
            case_level=full["caseLevel"],
            upper_first=full["caseFirst"] == "upper",
            numeric=full["numericOrdering"],
            shifted=full["alternate"] == "shifted",
            spaces_only=full["maxVariable"] == "space",
            backwards=full["backwards"],
            tailoring=_tailoring(full["locale"]),
        )
    )


def _unknown_letters(locale: str) -> re.Pattern[str] | None:
    """Return what matches the letters whose order in a locale is not known, None where all are."""
    language = locale.partition("_")[0].partition("@")[0]
    if language in UNKNOWN_HAN:
        return _IS_HAN
    # A tailoring of options alone, as Thai has one, says nothing of the order of letters.
    if language not in _UNKNOWN_ORDER or _tailoring(locale)._replace(defaults=()) != Tailoring():
        return None
    return _BEYOND_LATIN if language in UNKNOWN_SCRIPT else _ANY_LETTER


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
    # What is stated goes before the locale's own defaults, and those before the common ones.
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
    # The region first, for `fr_CA`; a region without a row of its own has its language's.
    for name in (language + (parts["region"] or ""), with_script):
        found = TAILORED.get(name + variant)
        if found is not None:
            return found
    if language not in _UNKNOWN_ORDER | UNKNOWN_HAN and (language not in PLAIN or variant):
        raise CommandError(
            ErrorCode.NOT_IMPLEMENTED,
            f"the order of the locale '{locale}' is not known to this fake server",
        )
    return Tailoring()
