"""The lines of a file to which findings point, with a caret below the place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.lint.findings import Finding

_WORD: Final = re.compile(r"""["'&*]?[\w$.-]+["']?|.""")
_BEFORE: Final = 24
"""Columns in front of the place that remain of a line that is too wide."""


def excerpt(finding: Finding, lines: Sequence[str], width: int) -> list[str]:
    """Return the line that a finding is about and a line of carets; nothing where there is no such line.

    `lines` is the file's text, `width` the number of columns that a line may take.
    """
    if not 0 < finding.line <= len(lines):
        return []
    line = lines[finding.line - 1].expandtabs(1).rstrip()
    start = min(finding.column - 1, len(line))
    if not line:
        return []
    word = _WORD.match(line, start)
    length = len(word[0]) if word else 1
    margin = f"{finding.line:>5} | "
    line, start = _window(line, start, max(width - len(margin), 2 * _BEFORE))
    carets = "^" * max(1, min(length, len(line) - start))
    return [f"{margin}{line}", f"{'':>5} | {'':{start}}{carets}"]


def _window(line: str, start: int, room: int) -> tuple[str, int]:
    """Return the part of a line around a place that fits, and where the place is in it."""
    if len(line) <= room:
        return line, start
    first = max(0, min(start - _BEFORE, len(line) - room + 1)) if start >= room - _BEFORE else 0
    shown = line[first : first + room]
    if first:
        shown = "…" + shown[1:]
    if first + room < len(line):
        shown = shown[:-1] + "…"
    return shown, start - first
