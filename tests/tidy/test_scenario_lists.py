"""Scenarios that are lists hold every entry of their tables: of error codes, and of operations."""

from __future__ import annotations

from typing import Final

import check_lists
import concern_lists
import connection_lists
import operation_lists
import pool_copies
import pytest
import rule_lists
import scenario_lists

from harness.adapters.base import EntityKind
from harness.planning.discovery import bundled_root
from harness.unified.loader import read
from harness.unified.operations import OPERATIONS

LISTED: Final = ("every-operation", "further-operations")

ELSEWHERE: Final = {
    "abortTransaction": "transactions/overload",
    "appendMetadata": "sends nothing",
    "commitTransaction": "transactions/overload",
    "createChangeStream": "change-streams/overload",
    "createCommandCursor": "sends a command as runCursorCommand does",
    "deleteByName": "finds a file, then deletes it as delete does",
    "download": "finds a file and its chunks as find does",
    "downloadByName": "finds a file and its chunks as find does",
    "endSession": "aborts as abortTransaction does",
    "getSnapshotTime": "sends nothing",
    "listCollectionObjects": "lists as listCollections does",
    "listDatabaseObjects": "lists as listDatabases does",
    "renameByName": "finds a file, then renames it as rename does",
    "startTransaction": "sends nothing",
    "upload": "stores a file as uploadWithId does",
    "withTransaction": "transactions/with-transaction",
}
"""Operations that the lists do not have: the scenario that retries them, or why none has to."""

KINDS: Final = {
    EntityKind.CLIENT,
    EntityKind.DATABASE,
    EntityKind.COLLECTION,
    EntityKind.SESSION,
    EntityKind.BUCKET,
}


def used(scenario: str) -> set[str]:
    cases = read(bundled_root() / "client-backpressure" / f"{scenario}.yml").value["tests"]
    return {operation["name"] for case in cases for operation in case["operations"]}


def test_every_code_is_in_the_scenarios_of_codes() -> None:
    assert scenario_lists.FILE.read_text(encoding="utf-8") == scenario_lists.text(), (
        "run: python tests/support/scenario_lists.py"
    )


def test_every_operation_says_its_concerns_in_the_scenario_of_concerns() -> None:
    assert concern_lists.FILE.read_text(encoding="utf-8") == concern_lists.text(), (
        "run: python tests/support/concern_lists.py"
    )


def test_the_scenarios_of_tokens_and_of_other_servers_are_those_of_the_table() -> None:
    kept = {path: path.read_text(encoding="utf-8") for path in operation_lists.texts()}
    assert kept == operation_lists.texts(), "run: python tests/support/operation_lists.py"


def test_the_scenarios_of_waits_and_of_rules_are_those_of_the_table() -> None:
    kept = {path: path.read_text(encoding="utf-8") for path in rule_lists.texts()}
    assert kept == rule_lists.texts(), "run: python tests/support/rule_lists.py"


def test_every_failure_of_every_phase_of_a_connection_is_in_the_scenarios_of_connections() -> None:
    kept = {path: path.read_text(encoding="utf-8") for path in connection_lists.texts()}
    assert kept == connection_lists.texts(), "run: python tests/support/connection_lists.py"


def test_every_failure_beside_a_check_under_way_is_in_the_scenarios_of_checks() -> None:
    kept = {path: path.read_text(encoding="utf-8") for path in check_lists.texts()}
    assert kept == check_lists.texts(), "run: python tests/support/check_lists.py"


def test_pools_of_members_are_asked_what_pools_behind_load_balancers_are() -> None:
    assert pool_copies.FILE.read_text(encoding="utf-8") == pool_copies.text(), (
        "run: python tests/support/pool_copies.py"
    )


def test_every_operation_is_retried_after_overload_in_some_scenario() -> None:
    operations = {name for kind, name in OPERATIONS if kind in KINDS}
    listed = set[str]().union(*map(used, LISTED))
    assert operations - listed == set(ELSEWHERE)


@pytest.mark.parametrize("scenario", [where for where in ELSEWHERE.values() if "/" in where])
def test_a_scenario_that_is_named_here_exists(scenario: str) -> None:
    assert (bundled_root() / f"{scenario}.yml").is_file()
