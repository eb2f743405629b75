"""The end of a command for errors about the user's files."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def bad_input(*errors: type[Exception]) -> Iterator[None]:
    """Turn errors about what the user named into `click.ClickException`, which ends with exit code 2."""
    try:
        yield
    except errors as error:
        raise click.ClickException(str(error)) from error
