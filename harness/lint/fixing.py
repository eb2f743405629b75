"""Mending what is certain: names with one wrong letter, versions, anchors without an alias, the encoding.

A fix replaces one word where a finding stands. It is kept only if the finding is gone in the text that it
makes, and the text can still be read: whether a fix fixes is not guessed but looked at.

Most hints are questions ("did you mean …?"), and a name in one is put in only where it differs from the word
in the file by a slip of one letter. One fix at a time: each is followed by a new look at the whole text,
since it moves what comes behind it, and may settle other findings or raise new ones. That costs two checks of
the file for each word, which for a few slips is a fraction of a second.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.lint.engine import ALL, lint_text
from mongowire.documents.errors import is_slip, meant_by
from mongowire.documents.reader import encoding_of
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from harness.lint.findings import Finding

_WORD = re.compile(r"[\w$.-]+")
_VERSION = re.compile(r'declare (?:schemaVersion )?"(1\.\d+)"')
_SCHEMA_VERSION = re.compile(r"""(?m)^(?P<before>\s*["']?schemaVersion["']?\s*:\s*)(?P<version>[^\s,#]+)""")
_ANCHOR = re.compile(r"&[\w.-]+\s*")
_MOST_FIXES: Final = 500
"""How many words of a file are replaced at most: more are no slips."""


@dataclass(frozen=True, slots=True)
class AppliedFix:
    """What was replaced in a line of a file."""

    path: Path
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before} → {self.after}"


def fix_file(path: Path, rules: frozenset[str] = ALL) -> Sequence[AppliedFix]:
    """Mend a file as far as that is certain, and return what was done. Raises `OSError`.

    A file in UTF-16 becomes one in UTF-8; a byte order mark stays. The file is written once, at the end and
    as a whole, so that an interruption leaves the old one.
    """
    data = path.read_bytes()
    encoding = encoding_of(data)
    try:
        # Without a mark of its encoding a file is UTF-8; what is none cannot be mended by guessing.
        text = data.decode(encoding.replace("-", "").lower() if encoding else "utf-8")
    except UnicodeDecodeError:
        return ()
    applied = [AppliedFix(path, 1, encoding, "UTF-8")] if encoding else []
    mark = "\ufeff" if data.startswith(codecs.BOM_UTF8) else ""
    text = text.removeprefix("\ufeff")
    while len(applied) < _MOST_FIXES and (step := _next(text, path, rules)):
        text, fix = step
        applied.append(fix)
    if applied:
        write_whole(path, (mark + text).encode())
    return applied


def _next(text: str, path: Path, rules: frozenset[str]) -> tuple[str, AppliedFix] | None:
    """Return the text after the next fix, and the fix; None when nothing more is certain."""
    findings = lint_text(text, path, rules)
    for finding in findings:
        for start, end, word in _replacements(finding, text):
            edited = text[:start] + word + text[end:]
            after = lint_text(edited, path, rules)
            same = [each for each in after if (each.rule, each.message) == (finding.rule, finding.message)]
            known = [
                each for each in findings if (each.rule, each.message) == (finding.rule, finding.message)
            ]
            # Fewer than before, not none: the same mistake may stand at several places, and one is mended at
            # a time.
            if len(same) < len(known) and all(each.rule != "syntax" for each in after):
                line = text.count("\n", 0, start) + 1
                return edited, AppliedFix(path, line, text[start:end].strip(), word or "(removed)")
    return None


def _replacements(finding: Finding, text: str) -> Iterator[tuple[int, int, str]]:
    """Yield what may be replaced for a finding: where it begins and ends in the text, and by what."""
    # This finding is about what needs the version; the word to replace is at the top.
    if version := _VERSION.match(finding.hint):
        if declared := _SCHEMA_VERSION.search(text):
            yield *declared.span("version"), f'"{version[1]}"'
        return
    lines = text.splitlines(keepends=True)
    start = sum(map(len, lines[: finding.line - 1])) + finding.column - 1
    if finding.rule == "unused-anchor":
        if anchor := _ANCHOR.match(text, start):
            yield *anchor.span(), ""
        return
    meant = meant_by(finding.hint or finding.message)
    # Findings point at the quote of a quoted word.
    quoted = start + (text[start : start + 1] in ('"', "'"))
    word = _WORD.match(text, quoted)
    if meant and word and is_slip(word[0], meant):
        yield *word.span(), meant
