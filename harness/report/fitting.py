"""Lines that fit a terminal: wrapped between words, and tables that become cards where they are too wide.

Into a pipe or a file lines go as they are: who reads them there has no width.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ESCAPE: Final = re.compile(r"\x1b\[[0-9;]*m")
# Quoted texts are one word each: a case's description is copied whole.
_WORDS: Final = re.compile(r"""\s*(?:'[^']*'|"[^"]*"|[^\s'"]|['"])+|\s+""")
_LEADING: Final = re.compile(r"(?:\x1b\[[0-9;]*m)*( *)")
_COMMAND: Final = re.compile(r"^ *(?:again|explain|shrink): ")
"""What a line begins with that ends with a command: the shell has to read it over several lines as well."""
# Columns: in fewer, nothing but cut words would be left.
_LEAST: Final = 20
_HANGING: Final = 2
_CONTINUED: Final = " \\"


def columns(*, err: bool = False) -> int | None:
    """Return the width of the terminal that standard output (or error) is; None where it is none."""
    stream = sys.stderr if err else sys.stdout
    if not stream.isatty():
        return None
    if err and not os.environ.get("COLUMNS") and not sys.stdout.isatty():
        # The size is asked of standard output, which may be a pipe beside it.
        return max(_LEAST, os.get_terminal_size(stream.fileno()).columns)
    return max(_LEAST, shutil.get_terminal_size().columns)


def echo(line: str, *, color: bool | None = None, err: bool = False) -> None:
    """Print a line, on as many lines as the terminal needs for it."""
    for part in wrapped(line, columns(err=err)):
        click.echo(part, color=color, err=err)


def length(text: str) -> int:
    """Return how many columns a text takes, without the marks of its colours."""
    return len(_ESCAPE.sub("", text))


def wrapped(line: str, width: int | None) -> Iterator[str]:
    """Yield a line in parts that are not wider than `width`; what follows the first is indented further."""
    if width is None or length(line) <= width:
        yield line
        return
    # A command is copied into a shell, for which a line that goes on ends with a backslash.
    end = _CONTINUED if _COMMAND.match(_ESCAPE.sub("", line)) else ""
    leading = _LEADING.match(line)
    margin = " " * min(width // 2, (len(leading[1]) if leading else 0) + _HANGING)
    part, empty = "", True
    for word in _pieces(line, width - len(margin) - len(end)):
        if not empty and length(part) + length(word) > width - len(end):
            yield part + end
            part, word = margin, word.lstrip()  # noqa: PLW2901 - a line does not begin with a space
        part, empty = part + word, False
    yield part


def _pieces(line: str, room: int) -> Iterator[str]:
    """Yield the words of a line, with the spaces before them; what is longer than the room is cut.

    An address is not: the terminal continues it on its next line, and whoever copies it has it whole.
    """
    for found in _WORDS.finditer(line):
        word = found[0]
        while length(word) > room and "://" not in word:
            # The mark of a colour takes no room and is not cut.
            cut = filled = 0
            while filled < room:
                mark = _ESCAPE.match(word, cut)
                cut, filled = (mark.end(), filled) if mark else (cut + 1, filled + 1)
            yield word[:cut]
            word = word[cut:]
        yield word


def aligned(
    rows: Sequence[Sequence[str]], width: int | None, *, words: int | None = None, gap: str = "  "
) -> list[str]:
    """Return a table as lines, the first row of which has the headings; as cards where it is too wide.

    The first columns, `words` of them, are texts and begin at one place; the others are numbers and end at
    one.
    """
    widths = [max(map(length, column)) for column in zip(*rows, strict=True)]
    if width is None or sum(widths) + len(gap) * (len(widths) - 1) <= width:
        texts = len(widths) if words is None else words
        return [
            gap.join(
                cell + " " * (wide - length(cell)) if number < texts else " " * (wide - length(cell)) + cell
                for number, (cell, wide) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
    return list(_cards(rows, width))


def _cards(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield each row as a card: its first cell, and below it the others beside their columns' headings."""
    headings, *others = rows
    name = max(map(length, headings[1:]), default=0)
    for row in others:
        yield from wrapped(row[0], width)
        for heading, cell in zip(headings[1:], row[1:], strict=True):
            if cell:
                yield from wrapped(f"  {heading:<{name}}  {cell}", width)
