"""Words of a text as a text index (version 3) has them: split, freed of stop words, stemmed, folded.

Stemming is Snowball's, as on a server. Stop words are known for English; other languages keep all words.
"""

from __future__ import annotations

import functools
import string
import unicodedata
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.storage.values.pacing import paced
from fakeserver.waiting.beside import library_beside
from fakeserver.waiting.interrupts import check_for_interrupt, interruptible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NONE: Final = "none"
ENGLISH: Final = "english"

_CODES: Final = {
    "da": "danish", "nl": "dutch", "en": "english", "fi": "finnish", "fr": "french", "de": "german",
    "hu": "hungarian", "it": "italian", "nb": "norwegian", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "es": "spanish", "sv": "swedish", "tr": "turkish",
}  # fmt: skip
_NAMES: Final = frozenset({*_CODES.values(), NONE})

_ASCII_DELIMITERS: Final = frozenset(string.whitespace + string.punctuation) - {"_"}
_SYMBOLS: Final = ((0x2010, 0x203E), (0x2190, 0x2BFF))
"""The blocks of punctuation and symbols that patterns are written with."""

_STOP_WORDS: Final[frozenset[str]] = frozenset(
    """
    i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers
    herself it its itself they them their theirs themselves what which who whom this that these those
    am is are was were be been being have has had having do does did doing would should could ought cannot
    i'm you're he's she's it's we're they're i've you've we've they've i'd you'd he'd she'd we'd they'd
    i'll you'll he'll she'll we'll they'll isn't aren't wasn't weren't hasn't haven't hadn't doesn't don't
    didn't won't wouldn't shan't shouldn't can't couldn't mustn't let's that's who's what's here's there's
    when's where's why's how's
    a an the and but if or because as until while of at by for with about against between into through during
    before after above below to from up down in out on off over under again further then once here there when
    where why how all any both each few more most other some such no nor not only own same so than too very
    """.split()  # noqa: SIM905 -- words read better as words
)


class Folding(NamedTuple):
    """Whether case and diacritics make a difference."""

    case: bool = False
    diacritics: bool = False


PLAIN: Final = Folding()


def language_of(name: str) -> str | None:
    """Return a language's name from a name or a code, in any case; None for one that no server knows."""
    name = name.lower()
    name = _CODES.get(name, name)
    return name if name in _NAMES else None


def words(text: str, language: str, folding: Folding = PLAIN) -> Iterator[str]:
    """Yield the terms of a text, in their order, without stop words."""
    stop, stem = _STOP_WORDS if language == ENGLISH else frozenset(), _stemmer(language)
    apart = _IN_ENGLISH if language == ENGLISH else _ELSEWHERE
    starts = interruptible(range(0, len(text), _PIECE))
    spaced = "".join([text[start : start + _PIECE].translate(apart) for start in starts])
    for number, word in enumerate(spaced.split(" ")):
        if not number % _STEMMED:
            check_for_interrupt()
        lowered = word.lower()
        if not word:
            continue
        if lowered in stop:
            continue
        term = stem(word if folding.case else lowered)
        yield term if folding.diacritics else without_diacritics(term)


def folded(text: str, folding: Folding) -> str:
    """Return a text in which what makes no difference is the same."""
    text = text if folding.case else text.lower()
    return text if folding.diacritics else without_diacritics(text)


def without_diacritics(text: str) -> str:
    """Return a text without accents and other marks."""
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFD", text)
    return unicodedata.normalize(
        "NFC", "".join(each for each in paced(apart) if unicodedata.category(each) != "Mn")
    )


class _Apart(dict[int, str | int]):
    """Says of each letter what stands in its place where a text is split: a space for what delimits words."""

    def __init__(self, kept: str) -> None:
        self._kept = kept

    def __missing__(self, code: int) -> str | int:
        letter = chr(code)
        self[code] = found = " " if letter not in self._kept and _delimits(letter) else code
        return found


_IN_ENGLISH: Final = _Apart("'")
_ELSEWHERE: Final = _Apart("")
_PIECE: Final = 50_000
"""Letters that are looked at between two yield points."""
_STEMMED: Final = 32
"""Words that are stemmed between two: a millisecond or two."""


def _delimits(letter: str) -> bool:
    if letter.isascii():
        return letter in _ASCII_DELIMITERS
    code = ord(letter)
    return unicodedata.category(letter)[0] in "ZP" or any(low <= code <= high for low, high in _SYMBOLS)


@functools.cache
def _stemmer(language: str) -> Callable[[str], str]:
    if language == NONE:
        return str
    library: Any = library_beside("snowballstemmer")
    stem: Callable[[str], str] = library.stemmer(language).stemWord
    return functools.lru_cache(maxsize=16384)(stem)
