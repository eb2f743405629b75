"""`pushbackd journal` shows records and attempts as lines for a reader, and as JSON on request."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from controlled import controlled
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from harness.cli import cli
from harness.planning.result import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", autouse=True)
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A deployment that has refused an insert, which was repeated, and a find, which was not."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch, controlled(home) as (running, _):
        patch.setenv("PUSHBACKD_HOME", str(home))
        patch.delenv("PUSHBACKD_ID", raising=False)
        client: MongoClient[dict[str, Any]] = MongoClient(running.uri, appname="till")
        with client:
            running.fail_command("insert", times=1, error_code=6, error_labels=["RetryableWriteError"])
            client.shop.orders.insert_one({"_id": 1})
            running.fail_command("find", times=1, error_code=8)
            with pytest.raises(OperationFailure):
                client.shop.orders.find_one()
        yield


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_records_are_lines() -> None:
    lines = run("journal", "--command", "insert,find").stdout.splitlines()
    words = [line.split("  [conn")[0].split(maxsplit=3)[3] for line in lines]
    assert words == [
        "insert shop.orders -> 6 HostUnreachable",
        "insert shop.orders -> ok",
        "find shop.orders -> 8 UnknownError",
    ]
    assert len(lines) == 3


def test_without_options_all_of_the_journal_is_shown() -> None:
    done = run("journal")
    assert done.exit_code == ExitCode.PASSED
    assert "elected primary in term 1" in done.stdout.splitlines()[0]


def test_records_are_json_where_that_is_asked_for() -> None:
    answer = json.loads(run("journal", "--command", "find", "--json").stdout)
    assert [(each["command"], each["outcome"]) for each in answer["records"]] == [("find", 8)]


def test_attempts_are_lines_with_their_gaps() -> None:
    first, *attempts = run("journal", "attempts").stdout.splitlines()
    assert first == "insert shop.orders -> ok in 2 attempts"
    assert [line.split()[3] for line in attempts] == ["6", "ok"]
    assert " later  [conn" in attempts[1]
    alone = run("journal", "attempts", "--command", "find", "--least", "1").stdout
    assert alone.startswith("find shop.orders -> 8 in 1 attempt\n")


def test_what_was_not_met_is_one_line_and_exit_code_1() -> None:
    done = run("journal", "verify", "--command", "insert", "--count", "3")
    assert done.exit_code == ExitCode.FAILED
    assert done.stderr.startswith("Error: 3 insert requests expected, 2 came; nearest: #")
    assert run("journal", "verify", "--command", "insert", "--count", "2").exit_code == ExitCode.PASSED


def test_the_verdict_says_what_was_met_and_what_the_application_was_told() -> None:
    assert run("journal", "verdict").stdout.splitlines() == [
        "verdict: met rule failCommand1 once, rule failCommand2 once; 1 of 2 operations failed",
        "  failed in the application: find, 8 UnknownError, once",
    ]
    assert json.loads(run("journal", "verdict", "--json").stdout)["asExpected"] is True
