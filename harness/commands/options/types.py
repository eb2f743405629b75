"""Types of option values, with the limits of clocks, file systems and integers."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from fakeserver.cli.values import MOST_COUNT, MOST_WHOLE, Count, FilePath, Filled, SeedNumber
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "MOST_COUNT",
    "MOST_JOBS",
    "MOST_SECONDS",
    "MOST_WHOLE",
    "Count",
    "Duration",
    "FilePath",
    "Filled",
    "Jobs",
    "Number",
    "Seconds",
    "SeedNumber",
    "ServerId",
    "Text",
    "Word",
]

MOST_SECONDS: Final = 366 * 24 * 3600
MOST_JOBS: Final = 1000


class Seconds(click.ParamType[float]):
    """A number of seconds above 0 and at most a year."""

    name = "SECONDS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(value)
        except ValueError:
            self.fail(f"'{value}' is no number of seconds", param, ctx)
        if not 0 < seconds <= MOST_SECONDS:  # false for "nan", too
            self.fail(f"{value} is not above 0 and at most {MOST_SECONDS} seconds, a year", param, ctx)
        return seconds


class Jobs(click.ParamType[int | None]):
    """A number of processes, or `auto`."""

    name = "N|auto"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002 - click's signature
        """Return the name as it is: click would upper-case the literal `auto`."""
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value == "auto":
            return None
        text = str(value)
        if not text.isdecimal() or len(text) > len(str(MOST_JOBS)) or not 1 <= int(text) <= MOST_JOBS:
            self.fail(f"'{value}' is neither a number of processes (1 to {MOST_JOBS}) nor 'auto'", param, ctx)
        return int(text)


class Text(click.ParamType[str]):
    """A text for a server; `@FILE` is the text in a file, `-` that of standard input."""

    name = "TEXT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        try:
            if text == "-":
                return sys.stdin.read()
            return Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text
        except (OSError, ValueError) as error:
            self.fail(f"{text}: {getattr(error, 'strerror', None) or error}", param, ctx)


class Word(click.ParamType[str]):
    """One of a few words, which the shell completes; the server tells a wrong one."""

    name = "WORD"

    def __init__(self, known: Sequence[str]) -> None:
        self.known = known

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG002 - click's signature
        return [CompletionItem(word) for word in self.known if word.startswith(incomplete)]


class ServerId(Filled):
    """An id in the registry of running servers, which the shell completes."""

    name = "ID"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG002 - click's signature
        from fakeserver.control.registry import Registry  # noqa: PLC0415 - most commands need none

        return [CompletionItem(word) for word in Registry().ids() if word.startswith(incomplete)]


class Duration(click.ParamType[float]):
    """A length of time above 0 and at most a year: seconds, or a text with units, as 200ms or 1m30s."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from mongowire.documents.arguments import duration  # noqa: PLC0415 - a help text needs no server

        try:
            seconds = duration(value)
        except ControlError as error:
            self.fail(str(error), param, ctx)
        if not 0 < seconds <= MOST_SECONDS:
            self.fail(f"{value} is not above 0 and at most {MOST_SECONDS} seconds, a year", param, ctx)
        return seconds


class Number(click.ParamType[float]):
    """A finite number that is at least, or above, a bound."""

    name = "NUMBER"

    def __init__(self, *, least: float | None = None, above: float | None = None) -> None:
        self._least, self._above = least, above

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(value)
        except ValueError:
            self.fail(f"'{value}' is no number", param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number", param, ctx)
        if self._least is not None and number < self._least:
            self.fail(f"{value} is below {self._least:g}", param, ctx)
        if self._above is not None and number <= self._above:
            self.fail(f"{value} is not above {self._above:g}", param, ctx)
        return number
