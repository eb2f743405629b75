"""The bundled scenarios with PyMongo in real time, several at a time: a case waits for most of its time."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from sizes import size

from harness.cli import cli
from harness.planning.discovery import bundled_root, discover
from harness.planning.result import ExitCode

APIS = ("pymongo", "pymongo-async")
"""PyMongo's two APIs, which share their code but for the threads."""
JOBS = 8


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_every_bundled_case_passes_or_is_known_to_fail(api: str) -> None:
    every = 100 // size("bundled")
    files = sorted(discover([bundled_root()]))[APIS.index(api) % every :: every]
    options = ["--adapter", api, "--time", "real", "--jobs", str(JOBS)]
    done = CliRunner().invoke(cli, ["conform", *map(str, files), *options])
    assert done.exit_code == ExitCode.PASSED, done.output
