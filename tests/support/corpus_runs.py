"""Runs of public scenario files, for tests that say what must come of them."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from sizes import size

from harness.adapters.registry import DRIVERS
from harness.planning import expectations
from harness.planning.discovery import discover
from harness.planning.plan import Settings, load_all, plan
from harness.running.run import Patience, run_patiently

if TYPE_CHECKING:
    from pathlib import Path

    from harness.planning.plan import Time
    from harness.planning.result import Result, ResultStatus


def share_of(whole: float = 1.0) -> float:
    """Return the share of the public cases that runs where another run has them all, as `tox -e report`."""
    return min(1.0, whole * size("public") / 100)


def share_of_reference() -> float:
    """Return the share of the public cases that the reference driver runs where they are not its subject."""
    return min(1.0, size("reference") / 100)


def run_folder(
    folder: Path,
    *,
    adapter: str,
    time: Time,
    topology: str = "replicaset",
    edition: str = "",
    journal_dir: str = "",
    share: float = 1.0,
) -> list[Result]:
    """Run a share of a folder's cases, the same each time, and judge them by the bundled expectations."""
    scenarios = load_all(path for path in discover([folder]) if not _is_meant_to_be_refused(path))
    assert scenarios.complaints == ()
    book = expectations.of_adapter(adapter)
    items = plan(
        scenarios.cases,
        drivers={adapter: edition or DRIVERS[adapter].editions[0]},
        topologies=[topology],
        wanted=lambda case_id: (
            zlib.crc32(case_id.encode()) < share * 2**32
            and ((entry := book.find(case_id, topology, edition)) is None or entry.kind != "skip")
        ),
    )
    settings = Settings(time=time, journal_dir=journal_dir)
    results: dict[int, Result] = {}
    run_patiently(
        dict(enumerate(items)),
        settings,
        jobs=1,
        on_result=results.__setitem__,
        patience=Patience(book.is_flaky),
    )
    return [book.judge(results[place]) for place in range(len(items))]


def _is_meant_to_be_refused(path: Path) -> bool:
    return "invalid" in path.parts or "schemaVersion-unsupported" in path.name


def complaints(results: list[Result], *statuses: ResultStatus) -> list[str]:
    """Return a line for each result that ended in one of the statuses."""
    return [
        f"{result.id} ({result.location}): {result.reason}" for result in results if result.status in statuses
    ]
