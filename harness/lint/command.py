"""`pushbackd lint`: what is wrong, suspicious or left over in scenario files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from harness.discovery import BadInputError, discover
from harness.lint.engine import ALL, lint_files
from harness.lint.rules import READING, RULES
from harness.option_types import FilePath
from harness.result import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from harness.lint.findings import Finding


@click.command("lint")
@click.argument("paths", nargs=-1, type=FilePath())
@click.option("--select", multiple=True, metavar="RULES", help="Only these rules (ids, with commas).")
@click.option("--ignore", multiple=True, metavar="RULES", help="All rules but these.")
@click.option(
    "--json", "as_json", is_flag=True, help="Write one JSON object a finding, and one with the totals."
)
@click.option("--rules", "show_rules", is_flag=True, help="Show the rules and leave.")
@click.option(
    "--github/--no-github", envvar="GITHUB_ACTIONS", show_envvar=True, help="Annotations for GitHub."
)
@click.option("--watch", "watching", is_flag=True, help="Then check what is saved, until Ctrl-C.")
def command(
    paths: tuple[Path, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    *,
    as_json: bool,
    show_rules: bool,
    watching: bool,
    github: bool,
) -> ExitCode:
    """Check the scenarios in PATHS (files or folders) without running them; without PATHS, the bundled ones.

    Each finding is a line `file:line:column: message (rule)`. The exit code is 0 when there is none, 1 when
    there are some, 2 when a file cannot be used.
    """
    if show_rules:
        for name, sentence in {**READING, **{rule.id: rule.sentence for rule in RULES}}.items():
            click.echo(f"{name:22} {sentence}")
        return ExitCode.PASSED
    ignored = _ids(ignore)
    chosen = ((_ids(select) or ALL) - ignored) & ALL

    def run(paths: Sequence[Path]) -> ExitCode:
        files = _discovered(paths)
        findings = [each for each in lint_files(files, chosen) if each.rule not in ignored]
        _report(findings, len(files), as_json=as_json)
        if github:
            _annotate(findings, err=as_json)
        return _exit_code(findings)

    if not watching:
        return run(paths)
    from harness.watch import watch  # noqa: PLC0415 - most runs run once

    return watch(paths, run)


def _ids(given: Iterable[str]) -> frozenset[str]:
    names = frozenset(name.strip() for part in given for name in part.split(",") if name.strip())
    for name in sorted(names - ALL - READING.keys()):
        raise click.UsageError(f"there is no rule {name!r}; pushbackd lint --rules shows them")
    return names


def _discovered(paths: Sequence[Path]) -> tuple[Path, ...]:
    try:
        return discover(paths)
    except BadInputError as error:
        raise click.ClickException(str(error)) from error


def _report(findings: Sequence[Finding], files: int, *, as_json: bool) -> None:
    refused = len({each.path for each in findings if each.refused})
    if as_json:
        lines = [json.dumps(each.to_dict(), ensure_ascii=False) for each in findings]
        totals = {"files": files, "findings": len(findings), "unusable-files": refused}
        click.echo("\n".join([*lines, json.dumps({"summary": totals})]))
        return
    if findings:
        click.echo("\n".join(map(str, findings)))
        unusable = f"; {refused} cannot be used" if refused else ""
        click.echo(f"findings: {len(findings)}; files: {files}{unusable}", err=True)


def _annotate(findings: Sequence[Finding], *, err: bool) -> None:
    from harness.report import github  # noqa: PLC0415 - an editor that asks after each key has no use for it

    for line in github.commands(github.of_findings(findings)):
        click.echo(line, err=err)


def _exit_code(findings: Sequence[Finding]) -> ExitCode:
    if any(each.refused for each in findings):
        return ExitCode.BAD_INPUT
    return ExitCode.FAILED if findings else ExitCode.PASSED
