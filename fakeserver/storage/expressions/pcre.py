"""Patterns of PCRE in the spelling of the library `regex`, mostly that of `re`.

What only `regex` has (fuzzy matching, named lists, sets of its own) means something else to PCRE, or
nothing: it is written so that it means what PCRE says, or refused.

A translation reads the pattern once from the left; `_READERS` says by the first character who reads on.
Each reader moves `at` behind what it read and returns the new spelling. Lists with one entry for each open
group (`scopes`, `sizes`, `behind`) grow at `(` and shrink at `)`.

Two limits protect the process, since a pattern comes from a client: its size, with repetitions counted as
often as they must occur, and the nesting of groups. Both are refused as PCRE refuses them, as a pattern
that does not compile.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from fakeserver.storage.values.pacing import PACE, paced
from fakeserver.waiting.interrupts import check_for_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

_ESCAPES: Final = {
    "d": "[0-9]", "D": "[^0-9]", "s": "[ \\t\\n\\r\\f\\v]", "S": "[^ \\t\\n\\r\\f\\v]",
    "w": "[A-Za-z0-9_]", "W": "[^A-Za-z0-9_]", "b": "(?a:\\b)", "B": "(?a:\\B)",
    "h": "[ \\t\\xa0\\u1680\\u180e\\u2000-\\u200a\\u202f\\u205f\\u3000]",
    "H": "[^ \\t\\xa0\\u1680\\u180e\\u2000-\\u200a\\u202f\\u205f\\u3000]",
    "v": "[\\n\\x0b\\f\\r\\x85\\u2028\\u2029]", "V": "[^\\n\\x0b\\f\\r\\x85\\u2028\\u2029]",
    "R": "(?:\\r\\n|[\\n\\x0b\\f\\r\\x85\\u2028\\u2029])", "N": "[^\\n]",
    "z": "\\Z", "Z": "(?=\\n?\\Z)", "e": "\\x1b", "A": "\\A", "K": "\\K",
}  # fmt: skip
_WORD: Final = "\\p{L}\\p{N}_"
_SPACE: Final = "\\s\\x85\\p{Z}"
_UNICODE_ESCAPES: Final = {
    **_ESCAPES, "d": "\\p{Nd}", "D": "\\P{Nd}", "s": f"[{_SPACE}]", "S": f"[^{_SPACE}]",
    "w": f"[{_WORD}]", "W": f"[^{_WORD}]",
    "b": f"(?:(?<=[{_WORD}])(?![{_WORD}])|(?<![{_WORD}])(?=[{_WORD}]))",
    "B": f"(?:(?<=[{_WORD}])(?=[{_WORD}])|(?<![{_WORD}])(?![{_WORD}]))",
}  # fmt: skip
"""The escapes of a pattern that begins with `(*UCP)`."""
_IN_CLASS: Final = {
    "d": "0-9", "D": "\\x00-/:-\\U0010ffff", "s": " \\t\\n\\r\\f\\v",
    "S": "\\x00-\\x08\\x0e-\\x1f!-\\U0010ffff", "w": "A-Za-z0-9_",
    "W": "\\x00-/:-@\\[-\\^`{-\\U0010ffff",
    "h": " \\t\\xa0\\u1680\\u180e\\u2000-\\u200a\\u202f\\u205f\\u3000",
    "v": "\\n\\x0b\\f\\r\\x85\\u2028\\u2029", "e": "\\x1b", "b": "\\x08",
}  # fmt: skip
_UNICODE_IN_CLASS: Final = {
    **_IN_CLASS, "d": "\\p{Nd}", "D": "\\P{Nd}", "s": _SPACE, "w": _WORD,
    "S": "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Cn}\\p{Co}\\x00-\\x08\\x0e-\\x1f\\x7f-\\x84\\x86-\\x9f",
    "W": "\\p{M}\\p{Pd}\\p{Ps}\\p{Pe}\\p{Pi}\\p{Pf}\\p{Po}\\p{S}\\p{Z}\\p{C}\\u203f\\u2040\\u2054"
         "\\ufe33\\ufe34\\ufe4d-\\ufe4f\\uff3f",
}  # fmt: skip
_POSIX: Final = {
    "alpha": "A-Za-z", "digit": "0-9", "alnum": "A-Za-z0-9", "upper": "A-Z", "lower": "a-z",
    "space": " \\t\\n\\r\\f\\v", "blank": " \\t", "punct": "!-/:-@\\[-`{-~", "xdigit": "A-Fa-f0-9",
    "word": "A-Za-z0-9_", "cntrl": "\\x00-\\x1f\\x7f", "graph": "!-~", "print": " -~", "ascii": "\\x00-\\x7f",
}  # fmt: skip
_UNICODE_POSIX: Final = {
    **_POSIX, "alpha": "\\p{L}", "digit": "\\p{Nd}", "alnum": "\\p{L}\\p{N}", "upper": "\\p{Lu}",
    "lower": "\\p{Ll}", "space": _SPACE, "word": _WORD,
}  # fmt: skip
_START: Final = re.compile(r"\(\*(UTF|UCP)\)")
"""What may begin a pattern: that it is of Unicode, as here they all are, or that its classes are."""
_NAMED_GROUP: Final = re.compile(r"\(\?(?:<([A-Za-z_]\w*)>|'([A-Za-z_]\w*)')")
_BACK_REFERENCE: Final = re.compile(r"\\(?:k(?:<(\w+)>|'(\w+)'|\{(\w+)\})|g\{([A-Za-z_]\w*)\})")
_NUMBERED_REFERENCE: Final = re.compile(r"\\g(?:\{(-?\d+)\}|(-?\d+))")
_CODE_POINT: Final = re.compile(r"\\x\{([0-9A-Fa-f]+)\}|\\x([0-9A-Fa-f]{0,2})")
_PROPERTY: Final = re.compile(r"\\([pP])(?:\{(\^?)(\w+&?)\}|(\w))")
_QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
_OPTIONS: Final = re.compile(r"\(\?([imsx]*)(?:-([imsx]+))?\)")
_POSIX_CLASS: Final = re.compile(r"\[:(\^?)([a-z]+):\]")
_QUANTIFIER: Final = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_GROUP_NAME: Final = re.compile(r"\(\?P<(\w+)>")
_GROUP: Final = re.compile(r"\(\?(?::|[=!>]|<[=!]|P=\w+\)|[imsx]*(?:-[imsx]+)?:|(?=\(\w+\)))")
"""The characters after the bracket of a special group: `(?(1)` begins with a group that is none."""
_LOOKS_BEHIND: Final = frozenset({"(?<=", "(?<!"})
_LOOKS: Final = _LOOKS_BEHIND | {"(?=", "(?!"}
_PLAIN_ESCAPES: Final = frozenset("afnrt")
"""Letters that mean the same here after a backslash. Each other letter has a meaning of its own, or none."""
_MOST_REPEATED: Final = 65_535
_DEEPEST: Final = 250
"""The deepest nesting of groups: PCRE's default when it is built."""
_LARGEST: Final = 2 * 65_536
"""Units of the largest pattern, two for each sign of it. The library writes out what is repeated, so a
repetition counts as often as it must occur: nested ones would fill the memory."""
_LONGEST_TEXT: Final = 64
"""Signs until text is cut. Before it searches for a text, the library makes a table of it, in cubic time."""
_CUT: Final = "(?!(?!))"
"""Holds everywhere: the library does not make one text of what stands before and behind."""
_NO_CUT_BEFORE: Final = frozenset("*+?{)|#")
"""What belongs to the sign before it, or may stand where no sign is."""
_QUANTIFIERS: Final = frozenset("*+?")


@lru_cache(maxsize=256)
def translate(pattern: str, *, verbose: bool = False) -> str:
    """Return a pattern of PCRE as `regex` writes it. Raises `re.error` for what is lacking here.

    The translations of late are kept, by pattern and by whether spaces in it count (`verbose`, the option
    `x`).
    """
    return _Translation(pattern, verbose=verbose).run()


class _Translation:
    def __init__(self, pattern: str, *, verbose: bool) -> None:
        self.pattern = pattern
        self.verbose = verbose
        self.at = 0
        self.escapes, self.in_class, self.posix = _ESCAPES, _IN_CLASS, _POSIX
        self.groups = 0
        self.names: set[str] = set()
        self.scopes: list[list[str]] = [[]]
        """The options set within each open group, as the groups that Python makes of them."""
        self.sizes = [0]
        """The size of what was read of each open group."""
        self.repeated = 0
        """The size of what a quantifier would repeat."""
        self.behind = [False]
        """Whether each open group is part of a look-behind, which has one length."""
        self.outside: list[bool] = []
        """Whether spaces count (`verbose`) outside each open group: an option holds up to its group's end."""

    def run(self) -> str:
        while (start := self._matched(_START)) is not None:
            if start[1] == "UCP":
                self.escapes, self.in_class, self.posix = _UNICODE_ESCAPES, _UNICODE_IN_CLASS, _UNICODE_POSIX
        parts = [""]
        cut = 0
        while self.at < len(self.pattern):
            if self.at - cut >= _LONGEST_TEXT and self._may_be_cut(parts[-1]):
                cut = self.at
                parts.append(_CUT)
            parts.append(self._next())
            if not len(parts) % PACE:
                check_for_interrupt()
        # Options set at the top open a group here, which nobody closes.
        return "".join(parts) + ")" * len(self.scopes[0])

    def _may_be_cut(self, before: str) -> bool:
        # Behind a bracket may stand what makes the group a special one.
        character = self.pattern[self.at]
        return (
            character not in _NO_CUT_BEFORE
            and not before.endswith(("(", "(?"))
            and not (self.verbose and character.isspace())
        )

    def _count(self, size: int) -> None:
        """Count a part of the pattern, which may be repeated."""
        self.repeated = size
        self.sizes[-1] += size
        if self.sizes[-1] > _LARGEST:
            raise self._error("regular expression is too large")

    def _next(self) -> str:
        character = self.pattern[self.at]
        reader = _READERS.get(character)
        if reader is not None:
            return reader(self)
        if character == "#" and self.verbose:
            self._take(self._until("\n"))  # a comment, which would hide what is written behind it
            return ""
        if character not in _QUANTIFIERS:
            self._count(2)
        elif self.behind[-1]:
            raise self._error("lookbehind assertion is not fixed length")
        return self._take(1)

    def _take(self, count: int) -> str:
        taken = self.pattern[self.at : self.at + count]
        self.at += count
        return taken

    def _until(self, end: str) -> int:
        found = self.pattern.find(end, self.at)
        return (found + len(end) if found >= 0 else len(self.pattern)) - self.at

    def _matched(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.pattern, self.at)
        if match is not None:
            self.at = match.end()
        return match

    # Groups.

    def open(self) -> str:
        """Read `(` and what makes the group a special one."""
        if self.pattern.startswith("(?#", self.at):
            self._take(self._until(")"))
            return ""
        options = self._matched(_OPTIONS)
        if options is not None:
            self.verbose = "x" in options[1] or (self.verbose and "x" not in (options[2] or ""))
            # `(?i)` in the middle of a group holds up to its end: a group of its own says the same in
            # Python.
            self.scopes[-1].append(f"{options[0][:-1]}:")
            return self.scopes[-1][-1]
        self.scopes.append([])
        self.sizes.append(2)
        self.behind.append(self.behind[-1])
        self.outside.append(self.verbose)
        if len(self.scopes) > _DEEPEST:
            raise self._error("parentheses are too deeply nested")
        named = self._matched(_NAMED_GROUP) or self._matched(_GROUP_NAME)
        if named is not None:
            return self._named(next(name for name in named.groups() if name))
        if self.pattern.startswith("(*", self.at):
            raise self._error("verbs are not supported")
        if self.pattern.startswith("(?", self.at):
            special = self._matched(_GROUP)
            if special is None:
                raise self._error("unrecognized character after (? or (?-")
            if special[0] in _LOOKS:
                self.behind[-1] = special[0] in _LOOKS_BEHIND
            if special[0].endswith(")"):  # a reference, which closes itself
                self.scopes.pop()
                self.behind.pop()
                self.outside.pop()
                self._count(self.sizes.pop())
            return special[0]
        self.groups += 1
        return self._take(1)

    def _named(self, name: str) -> str:
        if name in self.names:
            raise self._error("two named subpatterns have the same name (PCRE2_DUPNAMES not set)")
        self.names.add(name)
        self.groups += 1
        return f"(?P<{name}>"

    def _error(self, message: str) -> re.error:
        return re.error(message, self.pattern, self.at)

    # Repetitions.

    def brace(self) -> str:
        """Read `{`, which stands for itself unless it begins a quantifier."""
        quantifier = self._matched(_QUANTIFIER)
        if quantifier is None:
            self._count(2)
            return "\\" + self._take(1)
        if any(int(count[:6]) > _MOST_REPEATED for count in quantifier.groups() if count):
            raise self._error("number too big in {} quantifier")
        if self.behind[-1] and quantifier[2] not in {None, quantifier[1]}:
            raise self._error("lookbehind assertion is not fixed length")
        self._count(self.repeated * max(int(quantifier[1]) - 1, 0))
        return quantifier[0]

    def close(self) -> str:
        """Read `)`, where options that were set in the group end too."""
        inner = self.scopes.pop() if len(self.scopes) > 1 else []
        if len(self.sizes) > 1:
            self.behind.pop()
            self.verbose = self.outside.pop()
            self._count(self.sizes.pop() + 2)
        return ")" * len(inner) + self._take(1)

    def alternative(self) -> str:
        """Read `|`: options that were set hold for the alternatives that follow, too."""
        return ")" * len(self.scopes[-1]) + self._take(1) + "".join(self.scopes[-1])

    # Escapes.

    def escape(self) -> str:
        """Read a backslash and what it makes special."""
        self._count(2)
        return self._long_escape() or self._short_escape(self.escapes, inside=False)

    def _long_escape(self) -> str:
        quoted = self._matched(_QUOTED)
        if quoted is not None:
            text = quoted[1]
            starts = range(0, len(text), _LONGEST_TEXT)
            return _CUT.join(re.escape(text[at : at + _LONGEST_TEXT]) for at in starts) or "(?:)"
        reference = self._matched(_BACK_REFERENCE)
        if reference is not None:
            return f"(?P={next(name for name in reference.groups() if name)})"
        numbered = self._matched(_NUMBERED_REFERENCE)
        if numbered is not None:
            number = int(numbered[1] or numbered[2])
            # A negative number counts groups back from here. Brackets keep a digit that follows out of the
            # number.
            return f"(?:\\{number if number > 0 else self.groups + 1 + number})"
        return ""

    def _short_escape(self, escapes: dict[str, str], *, inside: bool) -> str:
        code_point = self._matched(_CODE_POINT)
        if code_point is not None:
            return f"\\U{int(code_point[1] or code_point[2] or '0', 16):08x}"
        found = self._matched(_PROPERTY)
        if found is not None:
            negated = (found[1] == "P") != bool(found[2])
            name = found[3] or found[4]
            ranges = _property(name, negated=negated)
            if name == _CASED:
                # It is written out as some hundred ranges, so it counts as more than one sign.
                self._count(len(ranges) // 10)
            return ranges if inside else f"[{ranges}]"
        letter = self.pattern[self.at + 1 : self.at + 2]
        if letter in escapes and letter:
            self.at += 2
            return escapes[letter]
        if letter.isascii() and letter.isalpha() and letter not in _PLAIN_ESCAPES:
            raise self._error(f"unrecognized character follows \\: {letter}")
        return self._take(2)

    # Classes.

    def bracket(self) -> str:
        """Read a class of characters."""
        self._count(2)
        parts = [self._take(1)]
        if self.pattern.startswith("^", self.at):
            parts.append(self._take(1))
        # The first bracket of a class is one of its characters.
        if self.pattern.startswith("]", self.at):
            self.at += 1
            parts.append("\\]")
        while self.at < len(self.pattern) and self.pattern[self.at] != "]":
            parts.append(self._of_class())
        return "".join(parts) + self._take(1)

    def _of_class(self) -> str:
        posix = self._matched(_POSIX_CLASS)
        if posix is not None:
            if posix[2] not in self.posix or posix[1]:
                raise re.error("unknown POSIX class name", self.pattern, self.at)
            return self.posix[posix[2]]
        character = self.pattern[self.at]
        if character == "\\":
            quoted = self._matched(_QUOTED)
            return re.escape(quoted[1]) if quoted else self._short_escape(self.in_class, inside=True)
        self.at += 1
        # Characters that begin an operation on sets to the library.
        return f"\\{character}" if character in "[&~|" else character


_READERS: Final[dict[str, Callable[[_Translation], str]]] = {
    "\\": _Translation.escape,
    "[": _Translation.bracket,
    "(": _Translation.open,
    "{": _Translation.brace,
    ")": _Translation.close,
    "|": _Translation.alternative,
}


def _property(name: str, *, negated: bool) -> str:
    """Return the characters of a general category (`L`, `Lu` …) or a script as part of a class."""
    if name == _CASED:
        return _cased(negated=negated)
    if name in _SCRIPTS:
        return f"\\{'P' if negated else 'p'}{{scx={name}}}"
    if name not in _CATEGORIES:
        raise re.error(f"unknown property after \\P or \\p: {name}", name, 0)
    return f"\\{'P' if negated else 'p'}{{{name}}}"


_CASED: Final = "L&"
"""Letters that have a case, which the library takes for others."""


@lru_cache(maxsize=2)
def _cased(*, negated: bool) -> str:
    """Return the letters that have a case as ranges."""
    ranges = []
    start: int | None = None
    for point in paced(range(sys.maxunicode + 2)):
        inside = point <= sys.maxunicode and (unicodedata.category(chr(point)) in _WITH_CASE) != negated
        if inside and start is None:
            start = point
        elif not inside and start is not None:
            ranges.append(f"\\U{start:08x}-\\U{point - 1:08x}")
            start = None
    return "".join(ranges)


_WITH_CASE: Final = frozenset({"Lu", "Ll", "Lt"})
_CATEGORIES: Final = frozenset({
    "C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd",
    "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp",
    "Zs",
})  # fmt: skip
_SCRIPTS: Final = frozenset({
    "Arabic", "Armenian", "Bengali", "Bopomofo", "Braille", "Cherokee", "Common", "Coptic", "Cyrillic",
    "Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati", "Gurmukhi", "Han", "Hangul", "Hebrew",
    "Hiragana", "Inherited", "Kannada", "Katakana", "Khmer", "Lao", "Latin", "Malayalam", "Mongolian",
    "Myanmar", "Oriya", "Runic", "Sinhala", "Syriac", "Tamil", "Telugu", "Thaana", "Thai", "Tibetan",
})  # fmt: skip
"""The scripts of living languages, and some more: those that patterns ask for by name."""
