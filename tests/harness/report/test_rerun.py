"""The command that explains a failure is one that `explain` takes, and means the same case and run."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
from made_results import failed

from harness.commands.explain import command
from harness.commands.options.naming import case_named
from harness.planning.discovery import bundled_root
from harness.planning.plan import Settings
from harness.report.rerun import explain_command

CASE = "retryable-writes/batches::overload to the end ends a bulkWrite"
FILE = str(bundled_root() / "retryable-writes" / "batches.yml")
RESULT = replace(failed(), id=CASE, file=FILE, edition="2026-02-20")
NODE = (("node", "node adapter.js"),)


@pytest.mark.parametrize(
    ("result", "settings", "words"),
    [
        (RESULT, Settings(time="virtual"), "--adapter reference --topology replicaset"),
        (
            replace(RESULT, edition="2026-07-08", topology="sharded+auth@7.0"),
            Settings(time="real", seed=7),
            (
                "--adapter reference --topology sharded+auth --profile 7.0 --edition 2026-07-08 --time real"
                " --seed 7"
            ),
        ),
        (
            replace(RESULT, seed=3),
            Settings(seed=7, time="virtual"),
            "--adapter reference --topology replicaset --seed 3",
        ),
        (
            replace(RESULT, adapter="pymongo", edition="2026-07-08"),
            Settings(time="real"),
            "--adapter pymongo --topology replicaset",
        ),
        (
            replace(RESULT, adapter="node"),
            Settings(time="real", commands=NODE),
            "--adapter 'cmd:node adapter.js' --topology replicaset",
        ),
        (replace(RESULT, topology="no-server"), Settings(time="virtual"), "--adapter reference"),
    ],
)
def test_a_bundled_case_is_explained_by_its_short_name_with_what_is_not_the_default(
    result: Any, settings: Settings, words: str
) -> None:
    told = explain_command(result, settings)
    assert told == f"pushbackd explain '{CASE}' {words}"
    arguments = shlex.split(told)[2:]
    if "node" not in words:
        with command.make_context("explain", arguments) as context:
            assert case_named(context.params["case"]).id == CASE


def test_a_case_of_the_users_is_explained_by_its_file() -> None:
    result = replace(RESULT, file="mine/it's.yml", id="mine/it's::a [1]")
    assert shlex.split(explain_command(result, Settings(time="virtual")))[2] == "mine/it's.yml::a [1]"


@pytest.mark.parametrize(
    ("result", "settings"),
    [
        (replace(RESULT, topology="replicaset+uri"), Settings(uri="mongodb://localhost")),
        (RESULT, Settings(server_scenario="election")),
        (replace(RESULT, schedule="s1"), Settings()),
    ],
)
def test_what_explain_cannot_run_has_no_command(result: Any, settings: Settings) -> None:
    assert explain_command(result, settings) == ""
