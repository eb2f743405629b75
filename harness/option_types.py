"""What the values of options can be: nothing that a clock, a file system or a processor cannot take."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

MOST_SECONDS: Final = 366 * 24 * 3600
MOST_COUNT: Final = 1_000_000
MOST_WHOLE: Final = (1 << 63) - 1


class FilePath(click.Path):
    """A path that can be one: not empty, and not longer than the system allows."""

    def __init__(self, *, dir_okay: bool = True, file_okay: bool = True) -> None:
        super().__init__(path_type=Path, dir_okay=dir_okay, file_okay=file_okay)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value):
            self.fail("the name of a file is empty", param, ctx)
        try:
            return super().convert(value, param, ctx)
        except OSError as error:
            self.fail(f"{value}: {error.strerror}", param, ctx)


class Seconds(click.ParamType[float]):
    """A finite number of seconds above 0, and not more than a clock can wait."""

    name = "SECONDS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(value)
        except ValueError:
            self.fail(f"'{value}' is no number of seconds", param, ctx)
        if not 0 < seconds <= MOST_SECONDS:  # which nothing is that is not a number
            self.fail(f"{value} is not above 0 and at most {MOST_SECONDS} seconds, a year", param, ctx)
        return seconds


class Count(click.IntRange):
    """A whole number from `least` to `most`."""

    def __init__(self, least: int, most: int = MOST_COUNT) -> None:
        super().__init__(min=least, max=most)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return int(super().convert(value, param, ctx))


class Seed(click.ParamType[int]):
    """A whole number of 64 bits."""

    name = "INTEGER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            seed = int(value)
        except ValueError:
            self.fail(f"'{value}' is not a valid integer", param, ctx)
        if abs(seed) > MOST_WHOLE:
            self.fail(f"{seed} does not fit into 64 bits", param, ctx)
        return seed
