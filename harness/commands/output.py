"""Output that commands share: documents of a server, for people or as JSON, and errors about user files.

`show` prints the answers of servers for commands of `control`: people get aligned lines with rounded numbers,
programs one line of relaxed Extended JSON with every digit. `bad_input` is the border between mistakes of the
user and defects of this program. A command names the errors that its arguments can cause, and nothing else is
caught.
"""

from __future__ import annotations

import os
import shlex
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bson import json_util

from fakeserver.deployment.records.record import line_of, lines_of_operation
from harness.report.fitting import aligned, columns, echo

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def show(document: Mapping[str, Any], *, as_json: bool) -> None:
    """Print a document; one without fields is nothing but `done`."""
    if as_json:
        click.echo(compact(document))
    else:
        for line in _lines(document, width=columns()) if document else ["done"]:
            echo(line)


def compact(value: Any) -> str:
    """Return a value in one line: a text as it is, everything else as relaxed Extended JSON."""
    if isinstance(value, str):
        return value
    return json_util.dumps(value, json_options=json_util.RELAXED_JSON_OPTIONS)


def _shown(value: Any) -> str:
    """Return a value as people read it: thousandths of a fraction, lists and flat documents in words.

    What is nested stays JSON, as commands take it.
    """
    if isinstance(value, float):
        return f"{round(value, 3):g}"
    if (
        isinstance(value, dict)
        and value
        and not any(isinstance(each, dict | list) for each in value.values())
    ):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items())
    if isinstance(value, list) and value and all(isinstance(each, str | int | float) for each in value):
        return ", ".join(map(_shown, value))
    return "none" if value in ([], {}) else compact(value)


def table(rows: Sequence[Mapping[str, Any]], width: int | None = None) -> list[str]:
    """Return documents as the lines of a table, with a line of the fields' names; as cards beyond a width."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_shown(row[name]) if name in row else "" for name in names] for row in rows]
    return aligned([names, *cells], width)


def _lines(document: Mapping[str, Any], indent: str = "", *, width: int | None = None) -> Iterator[str]:
    for name, value in document.items():
        first = value[0] if isinstance(value, list) and value else None
        # By their fields: any verb may answer with records of the journal, or with operations.
        if isinstance(first, dict) and {"seq", "at", "kind"} <= first.keys():  # records of the journal
            yield from map(line_of, value)
            continue
        if name == "operations" and value and "attempts" in value[0]:
            yield from (line for operation in value for line in lines_of_operation(operation))
            continue
        if isinstance(value, dict) and value:
            yield f"{indent}{name}:"
            yield from _lines(value, indent + "  ", width=width)
        elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            yield f"{indent}{name}:"
            room = None if width is None else width - len(indent) - 2
            yield from (f"{indent}  {line}" for line in table(value, room))
        else:
            yield f"{indent}{name}: {_shown(value)}"


# The end of a command for errors about the user's files.


@contextmanager
def bad_input(*errors: type[Exception]) -> Iterator[None]:
    """Turn errors about what the user named into `click.ClickException`, which ends with exit code 2."""
    try:
        yield
    except errors as error:
        told = str(error)
        # One of the operating system begins with its file, and has no number.
        if isinstance(error, OSError) and error.strerror and error.filename is not None:
            told = f"{error.filename}: {error.strerror}"
        raise click.ClickException(told) from error


def check_command(program: str) -> None:
    """Check that a program can be run. Raises `click.ClickException`."""
    # As the system will look for it, with PATH; the rest only finds the words for why it will not.
    if shutil.which(program) is not None:
        return
    path = Path(program)
    if os.sep in program and path.is_dir():
        raise click.ClickException(f"{program}: is a folder, not a command")
    if os.sep in program and path.exists():
        raise click.ClickException(
            f"{program}: may not be executed; chmod +x {shlex.quote(program)} allows it"
        )
    raise click.ClickException(f"{program}: no such command")
