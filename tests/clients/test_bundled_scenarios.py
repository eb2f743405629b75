"""The bundled scenarios with PyMongo in real time, several at a time: a case waits for most of its time."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from sizes import size

from harness.cli import cli
from harness.running.result import ExitCode

APIS = ("pymongo", "pymongo-async")
"""PyMongo's two APIs, which share their code but for the threads."""
JOBS = 8


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS[: size("apis")])
def test_every_bundled_case_passes_or_is_known_to_fail(api: str) -> None:
    done = CliRunner().invoke(cli, ["conform", "--adapter", api, "--time", "real", "--jobs", str(JOBS)])
    assert done.exit_code == ExitCode.PASSED, done.output
