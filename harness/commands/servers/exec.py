"""`pushbackd exec`: a command with a fake server of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import click

from fakeserver.control.client import ControlClient, ServerStatus
from fakeserver.control.registry import HOME_VARIABLE, ID_VARIABLE
from harness.commands.options.starting import starting_of, starting_options
from harness.commands.output.errors import bad_input
from harness.deployments.launching import LaunchError, launched
from harness.running import interruption

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.control.registry import Registry, RegistryEntry

_NOT_FOUND: Final = 127
"""The exit code of shells for a command that does not exist."""


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@starting_options
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- SERVE-OPTIONS] -- COMMAND")
def command(*, words: tuple[str, ...], **options: Any) -> int:
    """Run COMMAND with a fake server of its own, which ends with it.

    With the --id of a server that runs, COMMAND gets that one. The exit code is that of COMMAND. It finds the
    connection string in `MONGODB_URI`, and the other variables that driver suites read; `PUSHBACKD_ID` lets
    `pushbackd rule add` and its like reach the server.
    """
    served, program = _parted(words)
    if not program:
        raise click.UsageError("there is no command: write it behind --", click.get_current_context())
    if shutil.which(program[0]) is None:
        raise click.ClickException(f"{program[0]}: no such command")
    with ExitStack() as stack:
        with bad_input(ValueError, LaunchError, OSError):
            starting = starting_of(options, served)
            registry = starting.registry
            entry = _running(starting.name, registry)
            if entry is None:
                entry = stack.enter_context(launched(starting.arguments, starting.name, registry))
            variables = ControlClient(entry).about()["variables"]
        return _run(program, {**os.environ, **variables, **_reach(entry, registry)})


def _parted(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the options of `serve`, which are there only in front of a second `--`, and the command."""
    if "--" not in words:
        return (), words
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _running(name: str, registry: Registry) -> RegistryEntry | None:
    entry = registry.read(name)
    return entry if entry is not None and ControlClient(entry).status() is ServerStatus.RUNNING else None


def _reach(entry: RegistryEntry, registry: Registry) -> dict[str, str]:
    return {HOME_VARIABLE: str(registry.folder), ID_VARIABLE: entry.id}


def _run(program: tuple[str, ...], environment: Mapping[str, str]) -> int:
    """Run the command, and return its exit code; of one that a signal ended, what shells say."""
    process = subprocess.Popen(program, env=environment)  # noqa: S603 - the user's own command
    while True:
        try:
            code = process.wait()
            return code if code >= 0 else 128 - code
        except interruption.Interrupted as signalled:
            process.send_signal(signalled.number)
            interruption.forget()
