"""The same seed is the same run: of twelve kinds of faults, in virtual time and over TCP."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import played
import pytest
import twelve_faults
from twelve_faults import OPTIONS, scenario, use, verdicts

import fakeserver
from driver import AsyncClient
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from fakeserver.deployment.records.journal import Journal


@cache
def first_run() -> tuple[played.Play, list[str]]:
    return twelve_faults.virtual()


def test_all_twelve_faults_happen() -> None:
    stage, seen = first_run()
    journal = stage.cluster.journal
    hits = {
        getattr(each.event, "name", None) or getattr(each.event, "fault", None)
        for each in journal
        if each.event.kind in {"ruleHit", "faultHit", "failPointHit"}
    }
    rules = {"refused", "slow", "closed", "half", "twice", "dice"}
    assert hits >= rules | {"lost", "pieces", "torn", "failCommand"}
    assert [row["state"] for row in stage.final] == ["over"] * 4
    assert {outcome for *_, outcome in verdicts(journal)} >= {
        "ok",
        "disconnect",
        7,
        91,
        189,
        462,
        463,
        10107,
        11600,
    }
    assert 0 < len([each for each in seen if not each.endswith(" ok")]) < len(seen) / 4


def test_a_second_run_has_the_same_journal_byte_by_byte() -> None:
    assert twelve_faults.virtual()[0].cluster.journal.to_json_lines() == journal_of_first_run()


def journal_of_first_run() -> str:
    return first_run()[0].cluster.journal.to_json_lines()


@pytest.mark.slow
def test_another_process_with_another_hash_seed_has_the_same_journal() -> None:
    program = Path(twelve_faults.__file__)
    paths = [str(program.parent), *(each for each in sys.path if each)]
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join(paths)}
    run = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        timeout=60,
    )
    assert run.stdout == journal_of_first_run()


def test_another_seed_has_another_journal() -> None:
    stage = played.play(scenario(), _used, OPTIONS, seed=12)
    assert stage.cluster.journal.to_json_lines() != journal_of_first_run()


async def _used(stage: played.Play) -> None:
    await use(stage.client)


@pytest.mark.slow
def test_the_same_scenario_over_tcp_has_the_same_verdicts_in_the_same_order() -> None:
    async def live() -> tuple[list[str], Journal]:
        rng = SeededRng(11)
        async with (
            fakeserver.start(scenario(), rng=rng.spawn("cluster")) as cluster,
            AsyncClient(f"{cluster.uri}&{OPTIONS}", rng=rng.spawn("client")) as client,
        ):
            return await use(client), cluster.journal

    seen, journal = asyncio.run(live())
    stage, expected = first_run()
    assert seen == expected
    assert verdicts(journal) == verdicts(stage.cluster.journal)
