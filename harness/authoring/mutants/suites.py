"""Suites against mutants: our scenarios, and the public specification tests where they are present."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.adapters.registry import EDITIONS
from harness.authoring.swarm.drawing import draw
from harness.authoring.swarm.driver import driver_of
from harness.authoring.swarm.running import item_of
from harness.running import expectations
from harness.running.discovery import discover
from harness.running.expectations import KNOWN_FAILING, SKIP
from harness.running.plan import load_all, plan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.running.plan import Item


DEPLOYMENTS: Final = {
    EDITIONS[0]: (
        *("replicaset", "sharded", "load-balanced", "single"),
        *("replicaset+auth", "replicaset@4.2", "sharded@4.2"),
    ),
    EDITIONS[1]: ("replicaset", "sharded", "load-balanced", "replicaset@9.0"),
}
"""The deployments of our scenarios, in each edition."""

CORPUS_DEPLOYMENTS: Final = {
    EDITIONS[0]: ("replicaset", "sharded", "load-balanced"),
    EDITIONS[1]: ("replicaset",),
}
CORPUS_FOLDERS: Final = (
    "client-backpressure",
    "client-side-operations-timeout",
    "connection-monitoring-and-pooling",
    "load-balancers",
    "mongodb-handshake",
    "retryable-reads",
    "retryable-writes",
    "server-discovery-and-monitoring",
    "server-selection",
    "sessions",
    "transactions",
)
"""The public specifications that mutants break, and their neighbours."""

_MEANT_TO_BE_REFUSED = ("invalid", "schemaVersion-unsupported")


def scenario_items(paths: Iterable[Path] = ()) -> tuple[Item, ...]:
    """Return the items of our scenarios, or of those in `paths`. Raises BadInputError."""
    return _items(discover(paths), DEPLOYMENTS)


def corpus_items(source: Path) -> tuple[Item, ...]:
    """Return the items of the public specification tests."""
    folders = [folder for name in CORPUS_FOLDERS if (folder := source / name).is_dir()]
    files = [
        path for path in discover(folders) if not any(word in str(path) for word in _MEANT_TO_BE_REFUSED)
    ]
    return _items(files, CORPUS_DEPLOYMENTS)


def swarm_items(folder: Path, count: int) -> tuple[Item, ...]:
    """Return the items of so many drawn schedules, by turns in each edition, written to a folder."""
    drivers = [driver_of("reference", edition) for edition in EDITIONS]
    return tuple(
        item_of(draw(seed, edition=edition), driver, folder / f"seed-{seed}.yml")
        for seed in range(count)
        for edition, driver in [(EDITIONS[seed % len(EDITIONS)], drivers[seed % len(EDITIONS)])]
    )


def _items(files: Iterable[Path], deployments: dict[str, tuple[str, ...]]) -> tuple[Item, ...]:
    """Return the items that are expected to pass, with the reference driver."""
    cases, known = tuple(load_all(files).cases), expectations.of_adapter("reference")

    def expected(item: Item) -> bool:
        entry = known.find(item.id, item.topology, item.edition)
        return entry is None or entry.kind not in (KNOWN_FAILING, SKIP)

    planned = (
        item
        for edition, topologies in deployments.items()
        for item in plan(cases, drivers={"reference": edition}, topologies=topologies)
    )
    return tuple(item for item in planned if expected(item))


def corpus_of(folder: Path) -> Path | None:
    """Return the public specifications that belong to a checkout, or None."""
    return find_corpus(environment=os.environ.get(CORPUS_VARIABLE), start=folder)


# The place of the public specification tests, if they are on this machine.

CORPUS_VARIABLE: Final = "PUSHBACKD_CORPUS"
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def find_corpus(*, environment: str | None, start: Path) -> Path | None:
    """Return the folder `source` of a checkout of the public specifications, or None.

    The environment names it, or it is the newest below a `shared/corpus` beside a folder that holds `start`.
    """
    if environment:
        return _source(Path(environment))
    for parent in start.resolve().parents:
        if found := [path for path in (parent / "shared" / "corpus").glob("*/source") if _is_complete(path)]:
            return max(found, key=lambda path: "".join(_DATE.findall(path.parent.name)))
    return None


def _source(folder: Path) -> Path | None:
    return next((path for path in (folder / "source", folder) if _is_complete(path)), None)


def _is_complete(source: Path) -> bool:
    return (source / "unified-test-format" / "tests").is_dir()
