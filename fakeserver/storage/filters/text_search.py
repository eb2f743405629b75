"""`$text`: terms, phrases and negations, against the one text index of a collection.

The score of a document is the sum, over the terms searched for, of what the term weighs in each indexed
string: the field's weight, times how often the term is there (each further time counts half of the last),
times 0.5 + half its share of the string's words, times 1.1 where the term is the whole string.

Words are those of a text index (version 3): split, freed of stop words, stemmed, folded. Stemming is
Snowball's, as on a server. Stop words are known for English; other languages keep all words.
"""

from __future__ import annotations

import functools
import string
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.errors import CommandError, WriteError
from fakeserver.storage.values.metadata import TEXT_SCORE
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.types import exact, is_number, type_name
from fakeserver.waiting.beside import library_beside
from fakeserver.waiting.interrupts import check_for_interrupt, interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from fakeserver.storage.port.engine import IndexSpec, Scope


NONE: Final = "none"
ENGLISH: Final = "english"

_CODES: Final = {
    "da": "danish", "nl": "dutch", "en": "english", "fi": "finnish", "fr": "french", "de": "german",
    "hu": "hungarian", "it": "italian", "nb": "norwegian", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "es": "spanish", "sv": "swedish", "tr": "turkish",
}  # fmt: skip
_NAMES: Final = frozenset({*_CODES.values(), NONE})

_ASCII_DELIMITERS: Final = frozenset("\0" + string.whitespace + string.punctuation) - {"_"}
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
    """Return a language's name from a name or a code, in any case; None for one that no server knows.

    The codes are those of two letters (`en`); `none` means neither stop words nor stems.
    """
    name = name.lower()
    name = _CODES.get(name, name)
    return name if name in _NAMES else None


def words(text: str, language: str, folding: Folding = PLAIN) -> Iterator[str]:
    """Yield the terms of a text, in their order, without stop words."""
    stop, stem = _STOP_WORDS if language == ENGLISH else frozenset(), _stemmer(language)
    apart = _IN_ENGLISH if language == ENGLISH else _ELSEWHERE
    # Delimiters become spaces piece by piece, with a yield point at each: a text may have 16 MB.
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
    # Taken apart, marks are characters of their own (category Mn).
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
        # Kept: a text asks for few letters, and for each of them many times.
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
    # Stemming costs more than anything else here, and words repeat.
    return functools.lru_cache(maxsize=16384)(stem)


_WILDCARD: Final = "$**"
_FTS: Final = ("_fts", "_ftsx")
"""The fields that stand for the text in a listed key, whose names are in `weights`."""
_BAD_OVERRIDE: Final = 17262
_WHOLE_STRING: Final = 1.1
_OPTIONS: Final = frozenset({"$search", "$language", "$caseSensitive", "$diacriticSensitive"})
_SPACES: Final = frozenset("\n\v\f\r ")


class Passage(NamedTuple):
    """An indexed string of a document."""

    text: str
    weight: float
    language: str


@dataclass(frozen=True)
class TextIndex:
    """A text index's definition: the weights of its fields, and its language.

    `prefix` are the fields in front of the text, which a query must pin.
    """

    weights: Mapping[str, float]
    prefix: tuple[str, ...]
    language: str = ENGLISH
    override: str = "language"

    @classmethod
    def of(cls, spec: IndexSpec) -> TextIndex | None:
        """Return a text index, None for another kind of index; its key may be the client's or as listed."""
        names = [name for name, kind in spec.key.items() if kind == "text" and name not in _FTS]
        if not names and "text" not in spec.key.values():
            return None
        document = spec.document
        declared = document.get("weights")
        weights = dict.fromkeys(names, 1.0)
        if isinstance(declared, dict):
            weights |= {name: float(exact(weight)) for name, weight in declared.items() if is_number(weight)}
        elif type(declared) is str:
            weights[declared] = 1.0
        prefix = []
        for name, kind in spec.key.items():
            if kind == "text":
                break
            prefix.append(name)
        language = language_of(str(document.get("default_language", ENGLISH))) or ENGLISH
        return cls(weights, tuple(prefix), language, str(document.get("language_override", "language")))

    def passages(self, document: Any) -> Iterator[Passage]:
        """Yield the strings of a document that are indexed. Raises `WriteError` 17262 for their language."""
        return self._within(document, "", self.language)

    def _within(self, part: Mapping[str, Any], prefix: str, language: str) -> Iterator[Passage]:
        """Yield the passages of a document, or of one within it, which may name its own language."""
        own = part.get(self.override)
        if type(own) is str:
            found = language_of(own)
            if found is None:
                raise WriteError(_BAD_OVERRIDE, f"language override unsupported: {own}")
            language = found
        for name, value in part.items():
            if name != self.override:
                yield from self._at(value, f"{prefix}{name}", language)

    def _at(self, value: Any, path: str, language: str) -> Iterator[Passage]:
        """Yield the passages at a path; a document is entered where it may hold an indexed field."""
        if type(value) is str:
            weight = self.weights.get(path, self.weights.get(_WILDCARD))
            if weight is not None:
                yield Passage(value, weight, language)
        elif isinstance(value, list):
            for item in value:
                yield from self._at(item, path, language)
        elif isinstance(value, dict):
            below = f"{path}."
            if _WILDCARD in self.weights or any(name.startswith(below) for name in self.weights):
                yield from self._within(value, below, language)

    def check(self, document: Mapping[str, Any]) -> None:
        """Refuse a document that cannot be indexed. Raises `WriteError` 17262."""
        for _passage in self.passages(document):
            pass


def find_index(indexes: Iterable[IndexSpec]) -> TextIndex:
    """Return the collection's text index. Raises `CommandError` 27 if it has none.

    A collection has at most one, so the first is it.
    """
    for spec in indexes:
        found = TextIndex.of(spec)
        if found is not None:
            return found
    raise CommandError(ErrorCode.INDEX_NOT_FOUND, "text index required for $text query")


def scores(passages: Iterable[Passage]) -> dict[str, float]:
    """Return what each term weighs in a document."""
    total: dict[str, float] = {}
    for text, weight, language in passages:
        counts = Counter(words(text, language))
        length = sum(counts.values())
        for term, count in paced(counts.items()):
            # 1 + 1/2 + 1/4 …: the tenth time hardly counts.
            frequency = 2 - 0.5 ** (count - 1)
            # A word of a short string weighs more, and no word of a long one less than half.
            share = 0.5 * count / length + 0.5
            whole = _WHOLE_STRING if len(text) == len(term) and text.lower() == term else 1.0
            total[term] = total.get(term, 0.0) + weight * frequency * share * whole
    return total


@dataclass
class Search:
    """A search string, taken apart: a document has one of the terms, all phrases, and nothing negated."""

    language: str
    folding: Folding
    terms: frozenset[str] = frozenset()
    """The terms that are looked up in the index, where case and diacritics make no difference."""
    exact: frozenset[str] = frozenset()
    """The same as they must stand in the text."""
    negated: frozenset[str] = frozenset()
    phrases: list[str] = field(default_factory=list)
    negated_phrases: list[str] = field(default_factory=list)

    def score(self, passages: Sequence[Passage]) -> float | None:
        """Return the score of a document that matches, None for one that does not."""
        weighed = scores(passages)
        found = [weighed[term] for term in paced(self.terms) if term in weighed]
        # Terms first: they are what the index would look up. A search of negations alone finds nothing.
        if not found or not self._holds(passages):
            return None
        return sum(found)

    def _holds(self, passages: Sequence[Passage]) -> bool:
        if self.folding != PLAIN and not self._has(self.exact, passages):
            return False
        if self.negated and self._has(self.negated, passages):
            return False
        # Phrases are parts of the text as it stands, unstemmed, and may end within a word.
        texts = [folded(passage.text, self.folding) for passage in passages]
        if not all(any(phrase in text for text in texts) for phrase in self.phrases):
            return False
        return not any(phrase in text for phrase in self.negated_phrases for text in texts)

    def _has(self, terms: frozenset[str], passages: Sequence[Passage]) -> bool:
        return any(
            term in terms
            for passage in passages
            for term in words(passage.text, passage.language, self.folding)
        )


def parse_search(text: str, language: str, folding: Folding = PLAIN) -> Search:
    """Take a search string apart."""
    search = Search(language, folding)
    positive, negative = [], []
    for part in interruptible(_parts(text)):
        if part.phrase:
            into = search.negated_phrases if part.negated else search.phrases
            into.append(folded(part.text, folding))
        elif part.negated:
            negative.append(part.text)
        else:
            positive.append(part.text)
    # Search words pass through what the document's words do, so that both are the same stems.
    sentence = " ".join(positive)
    search.terms = frozenset(words(sentence, language))
    search.exact = frozenset(words(sentence, language, folding))
    search.negated = frozenset(words(" ".join(negative), language, folding))
    return search


class _Part(NamedTuple):
    text: str
    negated: bool
    phrase: bool = False


def _parts(text: str) -> Iterator[_Part]:
    """Yield the words of a search string and, besides, its phrases.

    A hyphen behind a space negates up to the next space; a phrase's words are searched for like others.
    """
    negated, phrase_from, index = False, -1, 0
    while index < len(text):
        spaced = index == 0 or text[index - 1] in _SPACES
        letter = text[index]
        if letter == '"':
            if phrase_from < 0:
                phrase_from, negated = index + 1, negated and not spaced
            else:
                yield _Part(text[phrase_from:index], negated, phrase=True)
                phrase_from = -1
        elif letter == "-":
            negated = negated or (phrase_from < 0 and spaced)
        elif letter not in _SPACES:
            end = index
            while end < len(text) and text[end] not in _SPACES and text[end] not in '"-':
                end += 1
            if not (phrase_from >= 0 and negated):
                negated = negated and not spaced
                yield _Part(text[index:end], negated)
            index = end - 1
        index += 1


def compile_text(argument: Any, scope: Scope) -> Callable[[Any], bool]:
    """Return `$text` as a predicate, which notes each score. Raises `CommandError` for a malformed one.

    Scores are kept by document in `Scope.metadata`, for `$meta` and sorts by `textScore`.
    """
    text, language, folding = _checked(argument)
    index = find_index(scope.indexes)
    search = parse_search(text, language or index.language, folding)
    metadata = scope.metadata

    def matches(document: Any) -> bool:
        score = search.score(list(index.passages(document)))
        if score is not None and metadata is not None:
            metadata.note(TEXT_SCORE, document, score)
        return score is not None

    return matches


def _checked(argument: Any) -> tuple[str, str | None, Folding]:
    if not isinstance(argument, dict):
        raise CommandError(ErrorCode.BAD_VALUE, "$text expects an object")
    if "$search" not in argument:
        raise CommandError(ErrorCode.NO_SUCH_KEY, 'Missing expected field "$search"')
    for name, kind in (
        ("$search", str),
        ("$language", str),
        ("$caseSensitive", bool),
        ("$diacriticSensitive", bool),
    ):
        value = argument.get(name)
        if name in argument and type(value) is not kind:
            wanted = "string" if kind is str else "bool"
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                f'"{name}" had the wrong type. Expected {wanted}, found {type_name(value)}',
            )
    if not set(argument) <= _OPTIONS:
        raise CommandError(ErrorCode.BAD_VALUE, "extra fields in $text")
    language = None
    if argument.get("$language"):
        language = language_of(argument["$language"])
        if language is None:
            raise CommandError(
                ErrorCode.BAD_VALUE,
                f'unsupported language: "{argument["$language"]}" for text index version 3',
            )
    folding = Folding(argument.get("$caseSensitive", False), argument.get("$diacriticSensitive", False))
    return argument["$search"], language, folding
