"""Every pair of options of `conform` goes together, or is refused by the one table that says so."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

from harness.cli import cli
from harness.commands.conform import command, run_of
from harness.commands.options.common import Options
from harness.commands.options.naming import paths_and_cases
from harness.commands.options.pairs import ASKED, CLASHES, EXCLUSIONS, Clash, refuse_clashes

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """\
description: x
schemaVersion: "1.0"
tests:
  - description: a
    skipReason: later
    operations: []
"""
NOWHERE = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=1&connectTimeoutMS=1"

SAMPLES: dict[str, tuple[str, ...]] = {
    "--adapter": ("--adapter", "pymongo"),
    "--auth": ("--auth",),
    "--case-timeout": ("--case-timeout", "30s"),
    "--changed": ("--changed=HEAD",),
    "--durations": ("--durations", "3"),
    "--edition": ("--edition", "2026-07-08"),
    "--exitfirst": ("--exitfirst",),
    "--expectations": ("--expectations", "expected.yml"),
    "--github": ("--github",),
    "--html": ("--html", "page.html"),
    "--interrupt-ends-loops": ("--interrupt-ends-loops",),
    "--jobs": ("--jobs", "2"),
    "--journal": ("--journal", "journals"),
    "--json": ("--json",),
    "--junit": ("--junit", "junit.xml"),
    "-k": ("-k", "a"),
    "--last-failed": ("--last-failed",),
    "--loop-iterations": ("--loop-iterations", "3"),
    "--loop-seconds": ("--loop-seconds", "3s"),
    "--max-delay": ("--perturb", "--max-delay", "3ms"),
    "--maxfail": ("--maxfail", "3"),
    "--no-color": ("--no-color",),
    "--perturb": ("--perturb",),
    "--profile": ("--profile", "8.2"),
    "--quiet": ("--quiet",),
    "--repeat": ("--repeat", "3"),
    "--reruns": ("--reruns", "3"),
    "--results": ("--results", "results.jsonl"),
    "--schedule": ("--schedule", "to:node0=1ms"),
    "--scheduler": ("--scheduler", "tcp://127.0.0.1:1"),
    "--seed": ("--seed", "3"),
    "--server-scenario": ("--server-scenario", "overload"),
    "--time": ("--time", "virtual"),
    "--topology": ("--topology", "replicaset"),
    "--uri": ("--uri", NOWHERE),
    "--verbose": ("--verbose",),
    "--watch": ("--watch",),
    "--write-expectations": ("--write-expectations", "drafted.yml"),
}
"""A use of each option, with what it needs to be of use at all."""

OF_OTHERS = {"--trace-adapter", "--uri-multi"}
"""Options that say nothing without a program of one's own, or servers of one's own."""

VALUES = {"--jobs 2": "--jobs", "--time virtual": "--time"}


def names() -> set[str]:
    found = set()
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            found.add(max(parameter.opts, key=len))
    return found


def options_of(*arguments: str) -> Options:
    return Options.of(command.make_context("conform", list(arguments)))


def clashing(one: str, other: str) -> bool:
    """Return whether the table excludes two options, or what one of them needs."""
    named = {one, other} | {name for each in (one, other) for name in SAMPLES[each] if name in SAMPLES}
    return any(
        {VALUES.get(clash.option, clash.option), VALUES.get(clash.other, clash.other)} <= named
        for clash in CLASHES
    )


PAIRS = list(combinations(sorted(SAMPLES), 2))


def test_every_option_is_tried() -> None:
    assert names() == SAMPLES.keys() | OF_OTHERS
    assert {VALUES.get(option, option) for option in ASKED} <= names()
    assert {end for clash in CLASHES for end in (clash.option, clash.other)} <= ASKED.keys()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "case.yml").write_text(SCENARIO)
    (tmp_path / "expected.yml").write_text("{}\n")
    return tmp_path


def test_a_pair_is_refused_if_and_only_if_the_table_has_it(here: Path) -> None:
    for one, other in PAIRS:
        options = options_of(*SAMPLES[one], *SAMPLES[other])
        if clashing(one, other):
            with pytest.raises(click.UsageError, match="not with"):
                refuse_clashes(options)
        else:
            refuse_clashes(options)


@pytest.mark.slow
def test_what_the_table_lets_pass_nothing_else_refuses(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.commands.conform.files_of", lambda _: (here / "case.yml",))
    monkeypatch.setattr("harness.commands.conform.deployments_of", lambda *_: ("replicaset",))
    virtual = {"--time", "--adapter"}  # PyMongo runs on the wall clock only: that is about a value
    for one, other in PAIRS:
        if not clashing(one, other) and {one, other} != virtual:
            arguments = ("case.yml", *SAMPLES[one], *SAMPLES[other])
            context = command.make_context("conform", list(arguments))
            with context:
                run_of(prepared(Options.of(context)))


def prepared(options: Options) -> Any:
    paths, cases = paths_and_cases(options.names)
    return replace(options, paths=paths, cases=cases)


SOME_OF_OTHERS = {
    "--budget": ("1s",),
    "--format": ("cmap",),
    "--from": ("3",),
    "--id": ("shop",),
    "--jobs": ("2",),
    "--minor": ("5",),
    "--replay": ("7",),
    "--scenario": ("retry-storm",),
    "--schedule": ("x.txt",),
    "--seed": ("3",),
    "--seeds": ("3",),
    "--topology": ("single",),
    "IDS": ("shop",),
    "NAME": ("jitter",),
    "PATHS": ("case.yml",),
}
"""A value of each parameter of other commands that takes one."""


def words_of(name: str) -> tuple[str, ...]:
    return (*(() if name.isupper() else (name,)), *SOME_OF_OTHERS.get(name, ()))


@pytest.mark.parametrize(
    ("command", "clash"),
    [(name, clash) for name, clashes in EXCLUSIONS.items() for clash in clashes],
    ids=str,
)
def test_what_another_command_would_drop_is_refused(command: str, clash: Clash) -> None:
    ends = ("--", "true") if command == "hunt" else ()
    words = [*command.split(), *words_of(clash.option), *words_of(clash.other), *ends]
    refused = CliRunner().invoke(cli, words)
    assert refused.exit_code == 2
    assert str(clash) in refused.stderr


@pytest.mark.parametrize("option", [("--json",), ("--clients", "200"), ("--seed", "3"), ("--plot", "x.svg")])
def test_what_no_claim_is_measured_for_is_refused(option: tuple[str, ...]) -> None:
    refused = CliRunner().invoke(cli, ["simulate", "claim", *option])
    assert refused.exit_code == 2
    assert f"{option[0]} needs a claim to measure: give NAME or --all" in refused.stderr


@pytest.mark.parametrize("option", ["--html", "--json", "--junit", "--memory"])
def test_a_hunt_finds_out_before_its_trials_that_a_file_cannot_be_written(option: str) -> None:
    refused = CliRunner().invoke(cli, ["hunt", option, "/dev/null/x", "--", "true"])
    assert (refused.exit_code, refused.stderr) == (2, "Error: /dev/null/x: Not a directory\n")


def test_each_refusal_names_both_options_and_the_reason() -> None:
    for clash in CLASHES:
        assert str(clash).startswith(f"{clash.option}: not with {clash.other}, because it ")
        assert clash.option != clash.other


def test_a_limit_of_what_nobody_draws_is_refused() -> None:
    with pytest.raises(click.UsageError, match="--max-delay limits what --perturb draws"):
        refuse_clashes(options_of("--max-delay", "3ms"))
