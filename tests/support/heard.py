"""Finds, for each oracle of the swarm, a wrong driver of the catalogue that it hears, with a schedule.

`python tests/support/heard.py` looks for those that heard.jsonl lacks, with names of oracles it looks
for those anew. test_heard.py runs what it has found.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.authoring.mutants.mutant import CATALOGUE, load_mutants
from harness.authoring.mutants.overlay import load_modules
from harness.authoring.mutants.trial import become

if TYPE_CHECKING:
    from collections.abc import Mapping
    from multiprocessing.connection import Connection

    from harness.authoring.mutants.mutant import Mutant
    from harness.authoring.swarm.schedule import SwarmSchedule

ROOT: Final = Path(__file__).resolve().parents[2]
HEARD: Final = ROOT / "tests/harness/authoring/swarm/heard.jsonl"
WORDS: Final = ("seed", "target", "edition", "options", "traits")
SEEDS: Final = 120
LIKELY: Final = {
    "backoff-connection": "the connection is kept during the backoff",
    "dirty-session": "a session stays clean after a network error",
    "not-cleared": "a step down clears the pool",
    "retargeting": "overload retargeting without the option",
    "transient": "errors in a transaction are labelled RetryableWriteError",
}
"""Wrong drivers of oracles whose rules have no number."""


def document_of(schedule: SwarmSchedule) -> dict[str, Any]:
    """Return a schedule as JSON."""
    return {word: getattr(schedule, word) for word in WORDS} | {
        "steps": [each.text for each in schedule.steps]
    }


def schedule_of(document: Mapping[str, Any]) -> SwarmSchedule:
    """Return the schedule of a document."""
    module = import_module("harness.authoring.swarm.schedule")
    pairs = {name: tuple(map(tuple, document[name])) for name in ("options", "traits")}
    steps = tuple(module.Step(text) for text in document["steps"])
    schedule: SwarmSchedule = module.SwarmSchedule(**{**document, **pairs, "steps": steps})
    return schedule


def broken(document: Mapping[str, Any], rules: list[str] | str) -> str:
    """Run a schedule here; return what it says of the first rule that it breaks, empty for none."""
    running = import_module("harness.authoring.swarm.running")
    driver = import_module("harness.authoring.swarm.work").driver_of("reference", document["edition"])
    settings = import_module("harness.planning.plan").Settings(time="virtual", case_timeout=3600.0)
    with running.SwarmRunner(driver, settings, jobs=1) as runner:
        result = runner.failure(schedule_of(document), rules)
    return "" if result is None else str(result.mismatch)


def as_mutant(mutant: Mutant, function: Any, *arguments: Any) -> Any:
    """Return what a function returns in a process that is a mutant; None if it does not live to return."""

    def work(end: Connection) -> None:
        become(mutant)
        end.send(function(*arguments))

    load_modules(change.file for change in mutant.changes)
    ours, theirs = get_context("fork").Pipe(duplex=False)
    process = get_context("fork").Process(target=work, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(120) else None
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()


def _search(oracle: str, editions: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the least schedule found that breaks the rule of an oracle here."""
    drawing, shrinking = (import_module(f"harness.authoring.swarm.{name}") for name in ("drawing", "session"))
    registry = import_module("harness.adapters.registry")
    settings = import_module("harness.planning.plan").Settings(time="virtual", case_timeout=3600.0)
    running = import_module("harness.authoring.swarm.running")
    drivers = import_module("harness.authoring.swarm.work")
    for edition in editions or registry.EDITIONS:
        with running.SwarmRunner(drivers.driver_of("reference", edition), settings, jobs=1) as runner:
            for seed in range(SEEDS):
                schedule = drawing.draw(seed, edition=edition)
                result = runner.failure(schedule, [oracle])
                if result is not None and shrinking.broken_by(result) == oracle:
                    smallest, again = shrinking.shrink(runner, schedule, oracle, most=60)
                    return document_of(schedule if again is None else smallest)
    return None


def main(names: list[str]) -> None:
    """Look for wrong drivers, and keep what was found."""
    oracles = import_module("harness.unified.server_side.oracles").ORACLES
    kept = {each["oracle"]: each for each in map(json.loads, HEARD.read_text().splitlines())}
    mutants = [each for each in load_mutants(CATALOGUE) if each.kind == "driver"]
    for name in names or [name for name in oracles if name not in kept]:
        rules = oracles[name].rules
        likely = [each for each in mutants if each.rule in rules or each.name == LIKELY.get(name)]
        for mutant in likely:
            found = as_mutant(mutant, _search, name, mutant.editions)
            if found is not None:
                kept[name] = {"oracle": name, "mutant": mutant.name, "schedule": found}
                break
        sys.stdout.write(f"{name}: {kept[name]['mutant'] if name in kept else 'nobody'}\n")
        sys.stdout.flush()
        lines = [json.dumps(kept[each]) for each in oracles if each in kept]
        HEARD.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main(sys.argv[1:])
