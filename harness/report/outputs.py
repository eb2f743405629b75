"""Outputs of a run: the amount of printing, and the files that take results while the run goes on.

Every file is written beside its place first, and takes the place when the run is over: a run that is killed
leaves the last report as it was. Opening fails before the first case, since a run of minutes must not end
with a folder that is not there.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import click

from harness.report.matrix import Filling, Matrix
from harness.report.page import write
from harness.report.picture import svg
from harness.report.results_file import ResultsWriter, RunHeader, is_packed
from mongowire.system import SystemClock
from mongowire.whole_file import beside

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from harness.planning.plan import Settings
    from harness.planning.result import Result
    from harness.report.terminal import Style


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The ways in which a run is reported.

    `style` says how much is printed for people, `color` whether in color (None: as the terminal can); with
    `json` JSON Lines are printed instead. `github` adds annotations and a step summary, `junit` is a file.
    """

    style: Style
    color: bool | None = None
    json: bool = False
    github: bool = False
    junit: Path | None = None


class ResultSink(Protocol):
    """Takes the results of a run, one after the other."""

    def add(self, result: Result) -> None:
        """Take the next result. Raises `OSError`."""
        ...


class ResultFiles:
    """Hands each result of a run to the files that are written while it goes on."""

    def __init__(self, sinks: Mapping[Path, ResultSink]) -> None:
        self._sinks = sinks

    def add(self, result: Result) -> None:
        """Take the next result. Raises `ClickException` when a file cannot be written on."""
        for path, sink in self._sinks.items():
            with writing(path):
                sink.add(result)


@contextmanager
def result_files(
    settings: Settings, *, results: Path | None = None, html: Path | None = None, svg: Path | None = None
) -> Iterator[ResultFiles]:
    """Open the files that take the results of a run; all of them are complete when the block ends.

    Raises `ClickException` when a file cannot be written, which is found out before the run. A block that
    raises leaves what was there before.
    """
    header = RunHeader.at(SystemClock().utc(), settings)
    # The parameter `svg` hides the function here; `_picture` calls the function of the module.
    openers = ((results, _results), (html, _page), (svg, _picture))
    with ExitStack() as stack:
        yield ResultFiles(
            {path: stack.enter_context(opener(path, header)) for path, opener in openers if path}
        )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the error of a file that cannot be written into one for the command line."""
    try:
        yield
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror or error}") from error


@contextmanager
def _results(path: Path, header: RunHeader) -> Iterator[ResultSink]:
    with _new(path) as temporary:
        with writing(path):
            writer = ResultsWriter(temporary, header, packed=is_packed(path))
        with writer:
            yield writer
            with writing(path):
                writer.end()


@contextmanager
def _page(path: Path, header: RunHeader) -> Iterator[ResultSink]:
    filling, matrix = Filling(header), Matrix()
    with _new(path) as temporary:
        yield filling
        matrix.merge(filling)
        with writing(path):
            write(temporary, matrix, utc=SystemClock().utc())


@contextmanager
def _picture(path: Path, header: RunHeader) -> Iterator[ResultSink]:
    class Painter:
        """Draws a result."""

        def add(self, result: Result) -> None:
            picture = svg(result.timeline, title=result.id, whole=header.settings.wire)
            temporary.write_text(picture, encoding="utf-8", newline="\n")

    with _new(path) as temporary:
        yield Painter()


@contextmanager
def _new(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` at the end of the block, unless that raises."""
    with ExitStack() as stack:
        with writing(path):
            temporary = stack.enter_context(beside(path))
        yield temporary
        with writing(path):
            stack.close()
