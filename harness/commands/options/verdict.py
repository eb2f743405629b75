"""The options of commands that end with a verdict, and how they tell it.

Standard error has its lines, unless `--quiet`; `--json` has it as a document, `--trace` as a page with the
journal. Where nothing says otherwise, the page of a run in which something failed is in the cache.

The verdict is the server's document (`control.verdict`): its `lines` are for people, the rest for programs,
`asExpected` decides. `Telling.tell` is called once, when the command has ended and the server still answers:
the page with the journal is asked of it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from harness.commands.options.types import FilePath
from harness.commands.output import bad_input
from harness.planning.result import ExitCode
from harness.report.fitting import echo
from harness.world.cache_folder import cached_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from fakeserver.control.control import DistantControl

_FOLDER: Final = "traces"
# Files; older pages are removed, as a test suite that fails writes one each time.
_MOST_TRACES: Final = 20
_NO_OPERATION: Final = "  hint: no operation came; the command gets the connection string in MONGODB_URI"


@dataclass(frozen=True, slots=True)
class Telling:
    """The ways to tell a verdict: quietly, as JSON, as a page, and whether it fails the command."""

    quiet: bool
    file: Path | None
    trace: Path | None
    unmet: str

    def code(self, code: int, verdict: Mapping[str, Any], *, judges: bool) -> int:
        """Return the exit code: the command's own, else 1 for a run that is not as expected."""
        # A command that failed keeps its own code, whatever the verdict is.
        is_allowed = not judges or verdict["asExpected"] or self.unmet == "ignore"
        return code or (ExitCode.PASSED if is_allowed else ExitCode.FAILED)

    def tell(
        self,
        name: str,
        verdict: Mapping[str, Any],
        control: DistantControl,
        *,
        before: Iterable[str] = (),
        extra: Mapping[str, Any] | None = None,
        code: int,
        judged: int,
    ) -> None:
        """Tell the verdict on the run of this name; `extra` fields are for JSON, `before` are lines above.

        `code` is the command's exit code, `judged` the one that the run ends with. Raises
        `click.ClickException` for a file that cannot be written.
        """
        # A page for every run that somebody may want to look into, also where the exit code hides it.
        looked_into = judged or not verdict["asExpected"] or verdict["operations"]["errors"]
        page = self._page(name, control) if self.trace is not None or looked_into else None
        operations = verdict["operations"]
        # The usual reason is a command that connects to somewhere else.
        silent = not operations["operations"] and not operations["awaiting"]["operations"]
        lines = [
            *(*before, *verdict["lines"]),
            *([_NO_OPERATION] if silent else []),
            *([] if page is None else [f"  trace: {page}"]),
        ]
        for line in [] if self.quiet else lines:
            echo(line, err=True)
        if self.file is not None:
            shown = {each: verdict[each] for each in verdict if each not in {"lines", "complaints"}}
            document = {**(extra or {}), "verdict": shown, "trace": None if page is None else str(page)}
            document["exitCode"] = judged
            with bad_input(OSError):
                self.file.write_text(json.dumps(document, indent=2) + "\n")
        if judged != code:
            echo(f"Error: {verdict['reason']}; --unmet ignore allows it", err=True)

    def _page(self, name: str, control: DistantControl) -> Path | None:
        """Write the page, and return its place; None where only the cache is meant, and cannot be written."""
        text = control.trace_page(name)
        if self.trace is not None:
            with bad_input(OSError):
                self.trace.write_text(text, encoding="utf-8")
            return self.trace
        with suppress(OSError):
            return cached_file(_FOLDER, f"{name}.html", text, most=_MOST_TRACES)
        return None


def verdict_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare the options; the function gets them as `quiet`, `file`, `trace` and `unmet`."""
    for declare in reversed(_OPTIONS):
        command = declare(command)
    return command


_OPTIONS: Final = (
    click.option(
        "--unmet",
        type=click.Choice(["fail", "ignore"]),
        default="fail",
        show_default=True,
        help="Exit code of a run in which a fault, a step or an expectation never happened: 1, or none.",
    ),
    click.option(
        "--trace",
        type=FilePath(dir_okay=False),
        help="Write verdict and journal to this file as an HTML page.  [default: in the cache, on failure]",
    ),
    click.option(
        "--results",
        "--json",
        "file",
        type=FilePath(dir_okay=False),
        help="Write the verdict to this file as JSON.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Write no verdict to standard error."),
)
