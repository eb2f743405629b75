"""How soon planted bugs are found: by places x faults in their order, by random faults, and by drills.

    python benchmarks/hunt.py --budget 60 --mode plan
    python benchmarks/hunt.py --budget 60 --mode random
    python benchmarks/hunt.py --budget 60 --mode twins
    python benchmarks/hunt.py --budget 60 --mode drill
    python benchmarks/hunt.py --budget 60 --mode drill-twins
    python benchmarks/hunt.py --budget 180 --mode suite
    python benchmarks/hunt.py --table plan.jsonl

The applications are those of tests/harness/hunt, each with PLANTED set, but for `twins`. A hunt ends with its
first bug that comes again. Random faults strike every tenth place of a run, at least one, with any fault that
applies there; the judge is the same. A drill sheds and loses requests, and judges by the exit code. `suite`
is fifty tests of pytest, of ten handlers of which every other one has a bug. Each line is JSON:
the application, what was found and by which trial, how many were made, and seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "harness" / "hunt"), str(ROOT / "tests" / "support"), str(ROOT)]

from test_planted import APPLICATIONS, PLANTED, Planted, command_of  # type: ignore[import-not-found]  # noqa: E402

from fakeserver.assembly.description import describe  # noqa: E402
from harness.hunt import invariants  # noqa: E402
from harness.hunt.faults import FAULTS  # noqa: E402
from harness.hunt.hunting import Hunt  # noqa: E402
from harness.hunt.planning import Facts, applies  # noqa: E402
from harness.hunt.program import Programs  # noqa: E402
from harness.hunt.trial import Setting, run  # noqa: E402
from harness.hunt.wire import Strike  # noqa: E402
from harness.hunt.wishes import Wishes  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.hunt.baseline import Baseline

SHARE = 0.1
DRILL = ["--shed", "5%", "--lost", "5%", "--failover", "1s"]


class RandomHunt(Hunt):
    """A hunt without a plan."""

    def _plan(self, baseline: Baseline) -> Iterator[tuple[Strike, ...]]:
        dice = random.Random(self._wishes.seed)  # noqa: S311 - no secret
        facts = self._facts._replace(reads_secondaries=True)
        while True:
            chosen = [place for place in baseline.places if dice.random() < SHARE]
            drawn = []
            for place in chosen or [dice.choice(list(baseline.places))]:
                request = baseline.places[place]
                drawn.append(Strike(dice.choice([f for f in FAULTS if applies(f, request, facts)]), place))
            yield tuple(drawn)


def hunted(planted: Planted, arguments: argparse.Namespace) -> dict[str, Any]:
    """Hunt in an application, and return the first bug that came again."""
    command, more = command_of(planted.file)
    variables = more if arguments.mode == "twins" else {**more, "PLANTED": "1"}
    needs = arguments.invariants and planted.needs
    known = invariants.read(APPLICATIONS / planted.needs) if needs else None
    programs = Programs(command)
    setting = Setting(describe({"topology": "replicaset"}).started, programs, variables)
    must_answer = known is not None and known.within is not None
    if must_answer:
        setting = Setting(setting.started, programs, variables, outage=float("inf"))
    wishes = Wishes(arguments.budget, jobs=arguments.jobs, confirmations=1, invariants=known, first=True)
    kind = RandomHunt if arguments.mode == "random" else Hunt
    hunt = kind(
        partial(run, setting),
        Facts(is_replica_set=True, reads_secondaries=False, must_answer=must_answer),
        wishes,
        lambda _: None,
        programs.end_all,
    )
    report = hunt.run()
    found: dict[str, Any] = {"trials": len(report.trials), "seconds": round(report.seconds, 1)}
    if report.confirmed:
        bug = report.confirmed[0]
        found |= {"kind": bug.cause.kind.name.lower(), "by": bug.only, "text": bug.finding.words[:200]}
    return found


def drilled(planted: Planted, arguments: argparse.Namespace) -> dict[str, Any]:
    """Drill an application again and again, with another seed each time, until its exit code is not 0."""
    command, more = command_of(planted.file)
    began, runs = time.monotonic(), 0
    if arguments.mode == "drill":
        more = {**more, "PLANTED": "1"}
    while time.monotonic() - began < arguments.budget:
        words = [sys.executable, "-m", "harness", "drill", "-q", "--unmet", "ignore", "--seed", str(runs)]
        environment = {**os.environ, **more}
        line = [*words, *DRILL, "--", *command]
        done = subprocess.run(line, env=environment, capture_output=True, check=False)  # noqa: S603
        runs += 1
        if done.returncode:
            return {"trials": runs, "seconds": round(time.monotonic() - began, 1), "kind": "exit code"}
    return {"trials": runs, "seconds": round(time.monotonic() - began, 1)}


SUITE = """
import pymongo, pytest

@pytest.fixture
def shop(fakeserver):
    with pymongo.MongoClient(fakeserver.uri, appname="shop") as client:
        yield client.shop

@pytest.mark.parametrize("step", range(5))
@pytest.mark.parametrize("handler", range(10))
def test_a_handler(shop, handler, step):
    orders = shop[f"orders{handler}"]
    shop.customers.insert_one({"_id": step, "name": "ann"})
    try:
        orders.insert_one({"customer": step, "items": ["tea"]})
    except pymongo.errors.PyMongoError:
        if handler % 2:
            raise
    shop.customers.update_one({"_id": step}, {"$inc": {"orders": 1}})
    assert shop.customers.find_one({"_id": step})["orders"] == 1
"""


def hunted_suite(budget: float) -> dict[str, Any]:
    """Hunt in each of fifty tests, and return what pytest says in the end."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_orders.py").write_text(SUITE)
        words = [sys.executable, "-m", "pytest", "-q", "--fakeserver-hunt", f"{budget:.0f}s", folder]
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    said = [line.strip("= ") for line in done.stdout.splitlines() if " trials, " in line or " passed" in line]
    found = set(re.findall(r"^FAILED .*\[(\d)-\d\]", done.stdout, re.MULTILINE))
    return {
        "suite": 50,
        "seconds": round(time.monotonic() - began, 1),
        "handlers": sorted(found),
        "said": said,
    }


def table(path: Path) -> str:
    """Return the lines of a run as the table of docs/HUNT.md."""
    found = {each["file"]: each for each in map(json.loads, path.read_text().splitlines())}
    rows = ["| program | planted bug | found by | fault | trials | seconds |", "|---|---|---|---|---|---|"]
    for planted in PLANTED:
        each = found.get(planted.file, {})
        kind = each.get("kind", "not found").replace("_", " ")
        fault = each.get("by", "").split(" @ ")[0]
        facts = (planted_bug(planted.file), kind, f"`{fault}`" if fault else "")
        rows.append(
            f"| `{planted.file}` | {' | '.join(facts)} | {each.get('trials')} | {each.get('seconds')} |"
        )
    return "\n".join(rows)


def planted_bug(file: str) -> str:
    """Return what an application says itself of its bug."""
    source = APPLICATIONS / file
    head: str = (source / "main.go" if source.is_dir() else source).read_text().splitlines()[0]
    return head.split("PLANTED: ", 1)[1].strip('"').rstrip(".")


def main() -> None:
    """Hunt in each application, or in those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument(
        "--mode", choices=["plan", "random", "twins", "drill", "drill-twins", "suite"], default="plan"
    )
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--invariants", action="store_true", help="with the invariants of applications")
    parser.add_argument("--table", type=Path, metavar="FILE", help="print the lines of a run as a table")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(arguments.table))
        return
    if arguments.mode == "suite":
        print(json.dumps(hunted_suite(arguments.budget)))
        return
    for planted in PLANTED:
        if arguments.names and planted.file not in arguments.names:
            continue
        try:
            drill = arguments.mode.startswith("drill")
            found = drilled(planted, arguments) if drill else hunted(planted, arguments)
        except Exception as error:  # noqa: BLE001 - the others are still hunted
            found = {"error": repr(error)[:300]}
        print(json.dumps({"file": planted.file, "mode": arguments.mode, **found}), flush=True)


if __name__ == "__main__":
    main()
