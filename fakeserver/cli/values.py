"""Types of option values, with the limits of file systems and integers; they complete what they know."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from mongowire.documents.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST_COUNT: Final = 1_000_000
MOST_WHOLE: Final = (1 << 63) - 1
MOST_PORT: Final = 65_535


class FilePath(click.Path):
    """A path that is not empty, and not longer than the system allows."""

    def __init__(self, *, dir_okay: bool = True, file_okay: bool = True) -> None:
        super().__init__(path_type=Path, dir_okay=dir_okay, file_okay=file_okay)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Return what help texts call it: a folder, not a directory."""
        return super().get_metavar(param, ctx) if self.file_okay else "FOLDER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value):
            self.fail("the name of a file is empty", param, ctx)
        try:
            return super().convert(value, param, ctx)
        except OSError as error:
            self.fail(f"{value}: {error.strerror}", param, ctx)


class FileName(FilePath):
    """A path that stays a text."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(super().convert(value, param, ctx))


class Filled(click.ParamType[str]):
    """A text that is not empty: of an option that was given, something is meant."""

    name = "TEXT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value:
            self.fail("the value is empty; leave the option out, or say what it names", param, ctx)
        return str(value)


class ScenarioName(Filled):
    """A file of a scenario for servers, or the name of one of the package; the shell completes both."""

    name = "FILE|NAME"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG002 - click's signature
        """Return the names of the package that begin so, and have the shell look for files."""
        folder = resources.files("fakeserver") / "control" / "scenario" / "bundled"
        names = sorted(each.name.removesuffix(".yml") for each in folder.iterdir())
        found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
        return [*found, CompletionItem(incomplete, type="file")]


class Count(click.IntRange):
    """A whole number from `least` to `most`."""

    def __init__(self, least: int, most: int = MOST_COUNT) -> None:
        super().__init__(min=least, max=most)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return what help texts call it; the range stands behind the text."""
        return super().get_metavar(param, ctx) or "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return int(super().convert(value, param, ctx))


class SeedNumber(click.ParamType[int]):
    """A whole number of 64 bits."""

    name = "N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            seed = int(value)
        except ValueError:
            self.fail(f"'{value}' is not a valid integer", param, ctx)
        if abs(seed) > MOST_WHOLE:
            self.fail(f"{seed} does not fit into 64 bits", param, ctx)
        return seed


class OneOf(click.Choice[str]):
    """One of a few words; another one is told with the one that was meant.

    `read` turns other spellings of a word into the word.
    """

    def __init__(self, choices: Iterable[str], read: Callable[[str], str] = str) -> None:
        super().__init__(tuple(choices))
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return super().convert(self._read(str(value)), param, ctx)
        except click.BadParameter as error:
            hint = did_you_mean(str(value)[:100], self.choices)
            message = error.message.rstrip(".") + (f"; {hint}" if hint else "")
            raise click.BadParameter(message, ctx, param) from None
