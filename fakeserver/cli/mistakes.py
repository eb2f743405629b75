"""Mistakes on the command line, told in one line with their cure, and the exit codes of the server."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mongowire.documents.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

BAD_INPUT: Final = 2
"""A file or a value cannot be used."""
USAGE: Final = 4
"""The command line is wrong."""
CANNOT_START: Final = 48
"""The exit code of a mongod that cannot listen."""

_MESSAGE_MAX: Final = 600
_CHOICE: Final = re.compile(r"(argument [^:]+): invalid choice: (.+) \(choose from (.+)\)", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """Reports an error in one line with its cure; argparse would print all options before it."""

    def add_argument(self, *names: str, **facts: Any) -> argparse.Action:
        """Declare an option; one that takes a text, a path or a name takes no empty one."""
        if facts.get("action", "append") == "append" and not facts.keys() & {"type", "choices"}:
            facts["type"] = filled
        return super().add_argument(*names, **facts)

    def parse_args(  # type: ignore[override]  # the namespace is argparse's own
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        """Return the options. An unknown one ends the process, with the one that was meant."""
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.error(self._unknown(unknown[0]))
        return options

    def error(self, message: str) -> NoReturn:
        """Print a mistake and end the process."""
        message = _CHOICE.sub(_choice, message)
        self.exit(USAGE, f"Error: {cut(message)}\n'{self.prog} --help' lists arguments and options.\n")

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"unexpected argument {word!r}: a server takes options only"
        name = word.partition("=")[0]
        known = [option for action in self.shown() for option in action.option_strings]
        hint = did_you_mean(name, known)
        return f"no such option: {name}" + (f"; {hint}" if hint else "")

    def shown(self) -> list[Any]:
        """Return the options that the help lists."""
        return [action for action in self._actions if action.help != argparse.SUPPRESS]


def filled(text: str) -> str:
    """Return a text that is not empty. Raises `ArgumentTypeError`."""
    if not text:
        raise argparse.ArgumentTypeError("the value is empty; leave the option out, or say what it names")
    return text


def cut(message: str) -> str:
    """Return a message, cut to a length that can be read: it may quote a long argument."""
    return message if len(message) <= _MESSAGE_MAX else f"{message[:_MESSAGE_MAX]}…"


def _choice(found: re.Match[str]) -> str:
    argument, word, choices = found.groups()
    known = [choice.strip().strip("'") for choice in choices.split(",")]
    cure = did_you_mean(word.strip("'"), known, f"known are {', '.join(known)}")
    return f"{argument}: unknown value {word}; {cure}"
