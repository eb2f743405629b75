"""Types of option values, with the limits of clocks, file systems and integers.

Values are read here for two reasons only: to refuse them with a sentence that names the option, and to
complete them. How a duration, a rate or a share is written is decided in `mongowire.documents.arguments`,
which verbs, rules and scenarios read by as well, so that `200ms` means the same in all of them. Limits keep a
value within what the clock, the file system or an integer of the server can hold.

Words of `Word` are for completion and are not checked: the server that runs knows them better.
"""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import click
from click.shell_completion import CompletionItem

from fakeserver.cli.values import MOST_COUNT, MOST_WHOLE, Count, FilePath, Filled, SeedNumber
from fakeserver.control.client import ControlClient, find
from fakeserver.control.registry import Registry
from fakeserver.settings.failpoints import NAMES
from mongowire.codes import ErrorCode
from mongowire.documents.arguments import Kind
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mongowire.documents.arguments import Argument


__all__ = [
    "MOST_COUNT",
    "MOST_JOBS",
    "MOST_WHOLE",
    "Count",
    "Duration",
    "FilePath",
    "Filled",
    "Jobs",
    "Milliseconds",
    "Number",
    "Rate",
    "Seconds",
    "SeedNumber",
    "Share",
    "Text",
    "Word",
]

# Processes; beyond this a typing error is likelier than a machine of that size.
MOST_JOBS: Final = 1000


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
        # The length first: Python refuses to read a number of many thousand digits, and takes long for fewer.
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


class Word(Text):
    """A text of words that the shell completes, each behind a comma as well; the server tells a wrong one.

    `known` are the words, or what returns them for a context.
    """

    name = "WORD"

    def __init__(self, known: Sequence[str] | Callable[[click.Context], Iterable[str]]) -> None:
        self.known = known

    def words(self, ctx: click.Context) -> Sequence[str]:
        """Return the words that are known now."""
        return list(self.known(ctx) if callable(self.known) else self.known)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG002 - click's signature
        # Each word of a list is completed by itself, with what stands before it.
        before, comma, begun = incomplete.rpartition(",")
        found = [word for word in self.words(ctx) if word.startswith(begun)]
        return [CompletionItem(f"{before}{comma}{word}") for word in found]


class Duration(click.ParamType[float]):
    """A length of time above 0 and at most a year, with its unit: 200ms, 5s, 1m30s."""

    name = "DURATION"
    in_seconds: ClassVar[bool] = False

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            found = _read("seconds" if self.in_seconds else "duration", value)
        except ControlError as error:
            self.fail(str(error), param, ctx)
        # A length of zero would be taken for none where an option has no default.
        if not found:
            self.fail(f"{value} is not above 0", param, ctx)
        return found


class Seconds(Duration):
    """The same of an option whose name is of seconds: a number is a number of them."""

    name = "SECONDS"

    in_seconds = True


class Milliseconds(Duration):
    """The same in whole milliseconds, one at least."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        # Less than a millisecond is not nothing.
        return max(1, round(1000 * super().convert(value, param, ctx)))


class Rate(click.ParamType[float]):
    """A rate above 0 with its unit, as events a second: 20/s, 100/min."""

    name = "RATE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            found = _read("rate", value)
        except ControlError as error:
            self.fail(str(error), param, ctx)
        if not found:
            self.fail(f"{value} is not above 0", param, ctx)
        return found


class Share(click.ParamType[float]):
    """A number from 0 to 1, or a percentage: 0.02, 2%."""

    name = "SHARE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return _read("share", value)
        except ControlError as error:
            self.fail(str(error), param, ctx)


def _read(kind: str, value: Any) -> float:
    """Read a value as the verbs of a deployment read theirs. Raises `ControlError`."""
    from mongowire.documents import arguments  # noqa: PLC0415 - help needs none

    read: Callable[[Any], float] = getattr(arguments, kind)
    return read(value)


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


# What the shell completes: names that are fixed, and those of the server that runs.


class ServerId(Filled):
    """An id in the registry of running servers, which the shell completes."""

    name = "ID"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG002 - click's signature
        return [CompletionItem(word) for word in Registry().ids() if word.startswith(incomplete)]


_OUTCOMES: Final = ("ok", "error", "disconnect", "silence")
ERROR_NAMES: Final = tuple(sorted(each.code_name for each in ErrorCode))
"""The names of error codes."""


def commands(_: click.Context | None = None) -> Iterable[str]:
    """Return the names of the server's commands."""
    from fakeserver.commands.default_table import default_table  # noqa: PLC0415 - loads every command

    return default_table().commands


def servers(context: click.Context) -> Iterable[str]:
    """Return the names of the members of the server that runs, and the roles that stand for one."""
    found = [str(server.get("name")) for server in _asked(context, "state").get("servers", ())]
    return (*found, "primary", "secondary", "mongos")


def _ids(verb: str, field: str) -> Callable[[click.Context], Iterable[str]]:
    return lambda context: [str(each.get("id")) for each in _asked(context, verb).get(field, ())]


def _asked(context: click.Context, verb: str) -> Mapping[str, Any]:
    """Return the answer of the server that runs, empty where none does: completion tells no mistakes."""
    # Completion runs at each press of a key: a server that does not answer is no server, and no message.
    with suppress(ControlError, OSError):
        return ControlClient(find(context.params.get("server_id"))).perform(verb, {})
    return {}


_BY_KIND: Final[Mapping[Kind, Any]] = {
    Kind.SERVER: servers,
    Kind.SERVERS: lambda context: (*servers(context), "all"),
    Kind.GROUPS: lambda context: (*servers(context), "clients"),
    Kind.CODES: ERROR_NAMES,
    Kind.OUTCOME: (*_OUTCOMES, *ERROR_NAMES),
    Kind.MODE: ("alwaysOn", "off"),
}
_BY_NAME: Final[Mapping[tuple[str, str], Any]] = {
    ("restore", "name"): lambda context: _asked(context, "state").get("snapshots", ()),
    ("setFailPoint", "name"): NAMES,
    ("removeRule", "id"): lambda context: (*_ids("listRules", "rules")(context), "all"),
    ("removeFault", "id"): _ids("listFaults", "faults"),
}


def words_for(verb: str, argument: Argument) -> Any:
    """Return the words that an argument of a verb may be, or what returns them; empty for any text."""
    if argument.known:
        return argument.known
    if argument.name == "command":
        return commands
    return _BY_NAME.get((verb, argument.name), _BY_KIND.get(argument.kind, ()))
