"""Results for GitHub: annotations beside the lines of scenarios, and the summary of a workflow's step.

GitHub Actions: Workflow commands, Adding a job summary.

Two limits of GitHub decide the form. A step has few annotations, so the last of a level counts the others;
and a summary that is too long is not shown at all, so it ends with a count before that. Both have to be known
here, because GitHub drops the rest without a word.
"""

from __future__ import annotations

import html
import os
import re
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from harness.explaining.explanation import explanation
from harness.planning.result import Result, ResultStatus, Tally
from harness.report.rerun import rerun_command
from harness.report.terminal import by_specification

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.lint.findings import Finding
    from harness.planning.plan import Settings

ANNOTATIONS_MAX: Final = 10
"""Annotations of a level that GitHub takes from a step; it drops the others without a message."""

SUMMARY_MAX: Final = 1_000_000
"""Bytes that a step's summary may have; GitHub shows nothing of a longer one."""

# Of more failures nobody reads the details in a summary; the log has them.
_FAILURES_MAX: Final = 50
_POSITION: Final = re.compile(r"(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?P<message>.*)", re.DOTALL)
_FAILED: Final = (ResultStatus.FAILED, ResultStatus.UNEXPECTED_PASS)


class Annotation(NamedTuple):
    """A sentence about a line of a file; `level` is `error` or `warning`. Lines and columns count from 1."""

    level: str
    title: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        position = {"file": self.file, "line": self.line, "col": self.column} if self.file else {}
        named = {name: value for name, value in {**position, "title": self.title}.items() if value}
        properties = ",".join(f"{name}={_escaped(str(value), ':,')}" for name, value in named.items())
        return f"::{self.level} {properties}::{_escaped(self.message)}"


def of_results(results: Iterable[Result], complaints: Iterable[str]) -> Iterator[Annotation]:
    """Yield an annotation for each file that cannot be used, and for each case that fails the run."""
    for complaint in complaints:
        found = _POSITION.fullmatch(complaint)
        position = (_in_workspace(found["file"]), int(found["line"]), int(found["column"])) if found else ()
        yield Annotation("error", "unusable scenario", found["message"] if found else complaint, *position)
    for result in results:
        if result.status in _FAILED:
            title = f"{result.id} [{result.adapter}, {result.topology}]"
            yield Annotation(
                "error", title, "\n".join(explanation(result)), _in_workspace(result.file), result.line
            )


def of_findings(findings: Iterable[Finding]) -> Iterator[Annotation]:
    """Yield an annotation for each finding of lint: an error for what refuses a file."""
    for each in findings:
        message = "; ".join(filter(None, (each.message, each.hint)))
        yield Annotation(each.level, each.rule, message, _in_workspace(each.path), each.line, each.column)


def commands(annotations: Iterable[Annotation]) -> Iterator[str]:
    """Yield the workflow commands; the last of a level counts the annotations that GitHub would drop."""
    by_level: dict[str, list[Annotation]] = {}
    for annotation in annotations:
        by_level.setdefault(annotation.level, []).append(annotation)
    for level, of_level in by_level.items():
        shown = of_level if len(of_level) <= ANNOTATIONS_MAX else of_level[: ANNOTATIONS_MAX - 1]
        yield from map(str, shown)
        left_out = len(of_level) - len(shown)
        if left_out:
            yield str(Annotation(level, "pushbackd", f"{left_out} more; see the log and the summary"))


def publish(
    results: Sequence[Result], settings: Settings, *, seconds: float, complaints: Sequence[str], err: bool
) -> None:
    """Print annotations (with `err` to standard error) and write the summary. Raises `ClickException`."""
    for line in commands(of_results(results, complaints)):
        click.echo(line, err=err)
    try:
        write_summary(summary(results, settings, seconds=seconds, complaints=complaints))
    except OSError as error:
        raise click.ClickException(f"GITHUB_STEP_SUMMARY: {error.strerror}") from error


def write_summary(text: str) -> None:
    """Append to the summary of this step, if there is one. Raises `OSError`."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if path:
        with Path(path).open("a", encoding="utf-8") as stream:
            stream.write(text)


def summary(
    results: Sequence[Result], settings: Settings, *, seconds: float, complaints: Sequence[str]
) -> str:
    """Return the Markdown of a run: tables by specification, unusable files, and every failure in detail."""
    text = "".join(f"{line}\n" for line in _overview(results, settings, seconds, complaints))
    failed = [each for each in results if each.status in _FAILED]
    for index, result in enumerate(failed):
        detail = "".join(f"{line}\n" for line in _detail(result, settings))
        if index == _FAILURES_MAX or len((text + detail).encode()) > SUMMARY_MAX:
            return f"{text}\n… and {len(failed) - index} more.\n"
        text += detail
    return text


def _overview(
    results: Sequence[Result], settings: Settings, seconds: float, complaints: Sequence[str]
) -> Iterator[str]:
    mark = "✅" if not complaints and Tally.of(results).exit_code == 0 else "❌"
    yield f"## {mark} pushbackd: {Tally.of(results)}"
    yield f"\n{seconds:.2f} s, {settings.time} time, seed {settings.seed}"
    for (adapter, edition, topology), group in groupby(
        results, key=lambda each: (each.adapter, each.edition, each.topology)
    ):
        facts = ", ".join(filter(None, (settings.driver(adapter), f"edition {edition}")))
        yield f"\n**{_in_cell(adapter)}** ({_in_cell(facts)}) on **{topology}**\n"
        of_table = list(group)
        tally = Tally.of(of_table)
        used = [each for each in ResultStatus if each is ResultStatus.PASSED or tally[each]]
        yield f"| specification | {' | '.join(each.value for each in used)} | time |"
        yield f"|---|{'--:|' * (len(used) + 1)}"
        for name, of_name in by_specification(of_table).items():
            counts = Tally.of(of_name)
            cells = " | ".join(str(counts[each] or "·") for each in used)
            yield f"| {_in_cell(name)} | {cells} | {sum(each.duration_ms for each in of_name) / 1000:.2f} s |"
    if complaints:
        yield "\n### Unusable files\n"
        yield from (f"- {_code(complaint)}" for complaint in complaints)
    if any(each.status in _FAILED for each in results):
        yield "\n### Failures"


def _detail(result: Result, settings: Settings) -> Iterator[str]:
    yield f"\n<details><summary><code>{html.escape(result.id)}</code>"
    yield f"{html.escape(f'[{result.adapter}, {result.topology}]')}</summary>\n"
    # The location, as a link into the repository where that is known.
    link, file = _code(result.location), _in_workspace(result.file)
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_SHA")
    server, repository, commit = (os.environ.get(name) for name in names)
    if file and server and repository and commit:
        line = f"{file}#L{result.line}"
        link = f"[{_code(f'{file}:{result.line}')}]({server}/{repository}/blob/{commit}/{line})"
    yield f"{link}\n"
    text = [*explanation(result), "", rerun_command(result, settings)]
    # A fence that is longer than any in the text: a description may hold backticks.
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", "\n".join(text))), default=0))
    yield from (f"{fence}text", *text, fence)
    yield "\n</details>"


def _in_workspace(path: str) -> str:
    """Return a path as GitHub names files: from the root of the repository; or nothing for one outside."""
    root = Path(os.environ.get("GITHUB_WORKSPACE") or ".").resolve()
    file = Path(path).resolve()
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else ""


def _code(text: str) -> str:
    return f"<code>{html.escape(text)}</code>"


def _in_cell(text: str) -> str:
    return html.escape(text).replace("|", "\\|")


def _escaped(text: str, beside: str = "") -> str:
    """Return a text that a workflow command can hold; `beside` has the characters that end a property."""
    # The percent sign first, or it would escape the escapes.
    for character in f"%\r\n{beside}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text
