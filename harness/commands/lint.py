"""`pushbackd lint`: find errors, suspicious constructs and leftovers in scenario files.

`harness.lint.engine` checks files and knows the rules; this module chooses rules and files, and prints
findings. A file that cannot be read has findings too, by the rules of `READING`, so all mistakes of all files
come in one list. With `--fix` files are mended first and checked afterwards, and what is left is reported.
"""

from __future__ import annotations

import json
import shutil
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.commands.options.pairs import refuse_excluded
from harness.commands.options.types import FilePath, Filled
from harness.commands.output import bad_input
from harness.lint.cache import FindingsCache
from harness.lint.engine import ALL, lint_files
from harness.lint.findings import excerpt
from harness.lint.fixing import fix_file
from harness.lint.rules import READING, RULES
from harness.planning.discovery import BadInputError, discover
from harness.planning.result import ExitCode
from harness.report.progress import work
from harness.running.watch import watch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.lint.findings import Finding


@click.command("lint")
@click.argument("paths", nargs=-1, type=FilePath())
@click.option(
    "--select",
    type=Filled(),
    multiple=True,
    metavar="RULES",
    help="Check only these rules (ids, separated by commas).",
)
@click.option("--ignore", type=Filled(), multiple=True, metavar="RULES", help="Check all rules but these.")
@click.option(
    "--errors-only",
    is_flag=True,
    help="Tell only what makes a file unusable: warnings are not shown and do not fail a step.",
)
@click.option(
    "--fix",
    "fixing",
    is_flag=True,
    help="First mend what is certain: names with one wrong letter, the declared schemaVersion, anchors"
    " without an alias, files in UTF-16. What is replaced is printed.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Write one JSON object per finding, then one with the totals."
)
@click.option("--rules", "show_rules", is_flag=True, help="Print the rules and exit.")
@click.option(
    "--github/--no-github",
    envvar="GITHUB_ACTIONS",
    show_envvar=True,
    help="Print annotations for GitHub Actions.",
)
@click.option(
    "--watch", "watching", is_flag=True, help="Check files again when they are saved, until Ctrl-C."
)
@click.option(
    "--no-cache",
    is_flag=True,
    help="Read every file, and keep nothing in .pushbackd_cache. With it, files that have not changed since"
    " the last time are not read again.",
)
def command(
    paths: tuple[Path, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    *,
    errors_only: bool,
    fixing: bool,
    as_json: bool,
    show_rules: bool,
    watching: bool,
    github: bool,
    no_cache: bool,
) -> ExitCode:
    """Check the scenarios in PATHS (files or folders) without running them; without PATHS, the bundled ones.

    Scenarios for servers are checked as well, as far as `pushbackd serve --scenario` would refuse them.

    Each finding is a line `file:line:column: message (rule)`, and below it the line of the file with the
    place. All mistakes of a file are told at once. The exit code is 0 when there is none, 1 when there are
    warnings, 2 when a file cannot be used. A comment `# lint: allow RULE` allows what a rule warns of.
    """
    refuse_excluded(click.get_current_context(), "lint")
    if show_rules:
        for name, sentence in {**READING, **{rule.id: rule.sentence for rule in RULES}}.items():
            click.echo(f"{name:22} {sentence}")
        return ExitCode.PASSED
    # Rules of reading are always applied, and only what they find can be ignored.
    ignored = _ids(ignore)
    chosen = ((_ids(select) or ALL) - ignored) & ALL

    def run(paths: Sequence[Path]) -> ExitCode:
        with bad_input(BadInputError):
            # Inside of `run`, as files come and go while they are watched.
            files = discover(paths, servers=True)
        if fixing:
            with bad_input(OSError):
                for applied in (each for path in files for each in fix_file(path, chosen)):
                    click.echo(f"fixed: {applied}", err=True)
        cache = None if no_cache else FindingsCache(chosen)
        with work("files", len(files)) as advance:
            found = lint_files(files, chosen, cache=cache, on_checked=advance)
        findings = [each for each in found if each.rule not in ignored and (each.refused or not errors_only)]
        _report(findings, len(files), as_json=as_json)
        if github:
            from harness.report import github as annotations  # noqa: PLC0415 - an editor has no use for it

            for line in annotations.commands(annotations.of_findings(findings)):
                click.echo(line, err=as_json)
        # Before warnings: a file that cannot be used makes a run end with the same code.
        if any(each.refused for each in findings):
            return ExitCode.BAD_INPUT
        return ExitCode.FAILED if findings else ExitCode.PASSED

    if not watching:
        return run(paths)
    return watch(paths, run, servers=True)


def _ids(texts: Iterable[str]) -> frozenset[str]:
    """Return the rules that options name. Raises `UsageError` for an unknown one."""
    names = frozenset(name.strip() for text in texts for name in text.split(",") if name.strip())
    for name in sorted(names - ALL - READING.keys()):
        raise click.UsageError(f"there is no rule {name!r}; pushbackd lint --rules shows them")
    return names


def _lines(path: str) -> Sequence[str]:
    """Return the lines of a file that findings are about, none where it has no text."""
    try:
        return Path(path).read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        return ()


def _report(findings: Sequence[Finding], files: int, *, as_json: bool) -> None:
    refused = len({each.path for each in findings if each.refused})
    if as_json:
        lines = [json.dumps(each.to_dict(), ensure_ascii=False) for each in findings]
        totals = {"files": files, "findings": len(findings), "unusable-files": refused}
        click.echo("\n".join([*lines, json.dumps({"summary": totals})]))
        return
    if findings:
        # An excerpt is cut around the place; `COLUMNS` says how wide, also in a pipe.
        width = shutil.get_terminal_size().columns
        for path, of_file in groupby(findings, key=lambda each: each.path):
            text = _lines(path)
            for each in of_file:
                click.echo("\n".join([str(each), *excerpt(each, text, width)]))
        unusable = f"; {refused} cannot be used" if refused else ""
        click.echo(f"findings: {len(findings)}; files: {files}{unusable}", err=True)
