"""What a run leaves behind for later: its results as a file, the HTML report, the picture of a case."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol

import click

from mongowire.system import SystemClock
from mongowire.whole_file import beside

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from harness.plan import Settings
    from harness.report.results_file import Run
    from harness.result import Result


class Taker(Protocol):
    """What takes results."""

    def add(self, result: Result) -> None:
        """Take the next result. Raises `OSError`."""
        ...


class Keeper:
    """Hands results to all who take them, each of them for a file."""

    def __init__(self, takers: Mapping[Path, Taker]) -> None:
        self._takers = takers

    def add(self, result: Result) -> None:
        """Take the next result. Raises `ClickException` when a file cannot be written on."""
        for path, taker in self._takers.items():
            with writing(path):
                taker.add(result)


@contextmanager
def keeping(
    settings: Settings, *, results: Path | None = None, html: Path | None = None, svg: Path | None = None
) -> Iterator[Keeper]:
    """Give what takes the results of a run; all files are whole when the block ends.

    Raises `ClickException` when a file cannot be written, which is found out before the run. A block that
    raises leaves what was there before.
    """
    from harness.report.results_file import Run  # noqa: PLC0415 - most runs leave nothing behind

    run = Run.at(SystemClock().utc(), settings)
    openers = ((results, _results), (html, _page), (svg, _picture))
    with ExitStack() as stack:
        yield Keeper({path: stack.enter_context(opener(path, run)) for path, opener in openers if path})


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the error of a file that cannot be written into one for the command line."""
    try:
        yield
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror or error}") from error


@contextmanager
def _results(path: Path, run: Run) -> Iterator[Taker]:
    from harness.report.results_file import ResultsWriter, is_packed  # noqa: PLC0415 - as above

    with _new(path) as temporary:
        with writing(path):
            writer = ResultsWriter(temporary, run, packed=is_packed(path))
        with writer:
            yield writer
            with writing(path):
                writer.end()


@contextmanager
def _page(path: Path, run: Run) -> Iterator[Taker]:
    from harness.report.matrix import Filling, Matrix  # noqa: PLC0415 - as above
    from harness.report.page import write  # noqa: PLC0415 - as above

    filling, matrix = Filling(run), Matrix()
    with _new(path) as temporary:
        yield filling
        matrix.merge(filling)
        with writing(path):
            write(temporary, matrix, utc=SystemClock().utc())


@contextmanager
def _picture(path: Path, _: Run) -> Iterator[Taker]:
    from harness.report.picture import svg  # noqa: PLC0415 - as above

    class Painter:
        """Draws a result."""

        def add(self, result: Result) -> None:
            temporary.write_text(svg(result.timeline, title=result.id), encoding="utf-8", newline="\n")

    with _new(path) as temporary:
        yield Painter()


@contextmanager
def _new(path: Path) -> Iterator[Path]:
    """Give a file that takes the place of `path` at the end. Errors of the block are not the file's."""
    with ExitStack() as stack:
        with writing(path):
            temporary = stack.enter_context(beside(path))
        yield temporary
        with writing(path):
            stack.close()
