"""How soon planted bugs are found: by places x faults in their order, by random faults, and by drills.

    python benchmarks/hunt.py --budget 60 --mode plan
    python benchmarks/hunt.py --budget 60 --mode twins
    python benchmarks/hunt.py --mode compare --seeds 3 --runs 24 > compared.jsonl
    python benchmarks/hunt.py --mode together --seeds 3 --runs 40 >> compared.jsonl
    python benchmarks/hunt.py --budget 180 --mode suite
    python benchmarks/hunt.py --table plan.jsonl
    python benchmarks/hunt.py --compared compared.jsonl

The applications are those of tests/harness/hunt, each with PLANTED set, but for `twins`. A hunt ends with its
first bug that comes again.

`compare` gives each way of finding bugs the same number of runs of the command, clean ones included, one at a
time: runs are what a budget buys, and the same on a machine that others use. The ways:

    plan     places x faults in their order
    one      any fault at any place, one in each run; the judge is the same
    random   any faults at every tenth place of a run, at least one; the judge is the same
    drill    5 % of requests shed, 5 % of replies lost, a failover each second; the judge is the exit code,
             and a bug is told from a fault that was reported if the correct twin ends with 0 in as many runs

`together` does that to one program of many places: several applications in a process, one of them planted.
`suite` is fifty tests of pytest, of ten handlers of which every other one has a bug. Each line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import islice
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
    from collections.abc import Iterator, Mapping

    from harness.hunt.baseline import Baseline

SHARE = 0.1
CLEAN = 3
"""The clean runs of a hunt that makes one trial at a time."""
ENDLESS = 3600.0
EVERY = 5
"""`compare` takes every fifth application."""
DRILL = ["--shed", "5%", "--lost", "5%", "--failover", "1s"]


class Planned(Hunt):
    """A hunt that ends after so many trials."""

    most: int | None = None

    def _plan(self, baseline: Baseline) -> Iterator[tuple[Strike, ...]]:
        yield from islice(self._drawn(baseline), self.most)

    def _drawn(self, baseline: Baseline) -> Iterator[tuple[Strike, ...]]:
        yield from super()._plan(baseline)


class OneAtRandom(Planned):
    """A hunt without a plan: one fault, anywhere."""

    share = 0.0

    def _drawn(self, baseline: Baseline) -> Iterator[tuple[Strike, ...]]:
        dice = random.Random(self._wishes.seed)  # noqa: S311 - no secret
        facts = self._facts._replace(reads_secondaries=True)
        places = [
            place
            for place, request in baseline.places.items()
            if any(applies(fault, request, facts) for fault in FAULTS)
        ]
        while True:
            chosen = [place for place in places if dice.random() < self.share] or [dice.choice(places)]
            drawn = []
            for place in chosen:
                request = baseline.places[place]
                drawn.append(Strike(dice.choice([f for f in FAULTS if applies(f, request, facts)]), place))
            yield tuple(drawn)


class Random(OneAtRandom):
    """Faults everywhere, as a proxy with a rate makes them."""

    share = SHARE


WAYS: dict[str, type[Planned]] = {"plan": Planned, "one": OneAtRandom, "random": Random}


def hunted(planted: Planted, arguments: argparse.Namespace) -> dict[str, Any]:
    """Hunt in an application, and return the first bug that came again."""
    command, more = command_of(planted.file)
    variables = more if arguments.mode == "twins" else {**more, "PLANTED": "1"}
    needs = arguments.invariants and planted.needs
    known = invariants.read(APPLICATIONS / planted.needs) if needs else None
    wishes = Wishes(arguments.budget, jobs=arguments.jobs, confirmations=1, invariants=known, first=True)
    return hunt(Planned, command, variables, wishes)


def hunt(
    kind: type[Planned],
    command: list[str],
    variables: Mapping[str, str],
    wishes: Wishes,
    most: int | None = None,
) -> dict[str, Any]:
    """Hunt in a way, in so many trials at most, and return the first bug that came again."""
    programs = Programs(command)
    setting = Setting(describe({"topology": "replicaset"}).started, programs, variables)
    must_answer = wishes.invariants is not None and wishes.invariants.within is not None
    if must_answer:
        setting = Setting(setting.started, programs, variables, outage=float("inf"))
    began = processor_seconds()
    hunt = kind(
        partial(run, setting),
        Facts(is_replica_set=True, reads_secondaries=False, must_answer=must_answer),
        wishes,
        lambda _: None,
        programs.end_all,
    )
    hunt.most = most
    report = hunt.run()
    found: dict[str, Any] = {
        "trials": len(report.trials),
        "seconds": round(report.seconds, 1),
        "processor": round(processor_seconds() - began, 1),
        "places": len(report.baseline.places),
    }
    if report.confirmed:
        bug = report.confirmed[0]
        found |= {"kind": bug.cause.kind.name.lower(), "by": bug.only, "text": bug.finding.words[:200]}
    return found


def processor_seconds() -> float:
    """Return what this process and its children have used of a processor so far."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def drilled(command: list[str], variables: Mapping[str, str], seed: int, most: int) -> dict[str, Any]:
    """Drill an application again and again, until its exit code is not 0."""
    began, used = time.monotonic(), processor_seconds()
    found: dict[str, Any] = {}
    for number in range(1, most + 1):
        words = [sys.executable, "-m", "harness", "drill", "-q", "--unmet", "ignore"]
        line = [*words, "--seed", str(seed * most + number), *DRILL, "--", *command]
        done = subprocess.run(line, env={**os.environ, **variables}, capture_output=True, check=False)  # noqa: S603
        found["trials"] = number
        if done.returncode:
            found["kind"] = "exit code"
            break
    found["seconds"] = round(time.monotonic() - began, 1)
    found["processor"] = round(processor_seconds() - used, 1)
    return found


def compared(
    command: list[str],
    planted: Mapping[str, str],
    twin: Mapping[str, str],
    arguments: argparse.Namespace,
) -> Iterator[dict[str, Any]]:
    """Yield what each way finds with each seed, in as many runs of the command."""
    most = arguments.runs - CLEAN
    for seed in range(arguments.seeds):
        for way in arguments.ways:
            line: dict[str, Any] = {"way": way, "seed": seed, "load": round(os.getloadavg()[0], 1)}
            if way == "drill":
                line |= drilled(command, planted, seed, arguments.runs)
                if "kind" in line:
                    line["twin"] = drilled(command, twin, seed, arguments.runs)
            else:
                wishes = Wishes(ENDLESS, seed=seed, jobs=1, confirmations=1, first=True)
                line |= hunt(WAYS[way], command, planted, wishes, most)
            yield line


TOGETHER = """
import os, runpy, sys, traceback
planted, failed = os.environ.pop("PLANTED", ""), 0
for file in sys.argv[1:]:
    os.environ.pop("PLANTED", None)
    if os.path.basename(file) == planted:
        os.environ["PLANTED"] = "1"
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit as end:
        failed += bool(end.code)
    except Exception:
        traceback.print_exc()
        failed += 1
sys.exit(min(failed, 1))
"""
"""Applications one after the other, as the handlers of a service: each may fail, and the others go on."""

ROOMS = (
    *("points.py", "swallowed.py", "registration.py", "whole_handler.py", "push_event.py", "report.py"),
    *("weak_write.py", "queue_claim.py", "migration.py", "lost_update.py"),
)
PLANTED_ROOMS = (
    *("registration.py", "report.py", "migration.py", "queue_claim.py", "points.py", "whole_handler.py"),
)


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
    began, used = time.monotonic(), processor_seconds()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_orders.py").write_text(SUITE)
        words = [sys.executable, "-m", "pytest", "-q", "--fakeserver-hunt", f"{budget:.0f}s", folder]
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    said = [line.strip("= ") for line in done.stdout.splitlines() if " trials, " in line or " passed" in line]
    found = set(re.findall(r"^FAILED .*\[(\d)-\d\]", done.stdout, re.MULTILINE))
    return {
        "suite": 50,
        "seconds": round(time.monotonic() - began, 1),
        "processor": round(processor_seconds() - used, 1),
        "load": round(os.getloadavg()[0], 1),
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


def of_its_kind(file: str, line: dict[str, Any]) -> dict[str, Any]:
    """Return a line with another name for a finding that is not the planted bug."""
    kinds = next(each.kinds for each in PLANTED if each.file == file)
    if line["way"] != "drill" and "kind" in line and line["kind"] not in kinds:
        line["other"] = line.pop("kind")
    return line


def comparison(path: Path) -> str:
    """Return the lines of `compare` and `together` as the table of docs/HUNT.md."""
    lines = list(map(json.loads, path.read_text().splitlines()))
    rows = [
        "| | bugs found | trials to the bug | faults in its trial | runs, all | processor seconds |",
        "|---|---|---|---|---|---|",
    ]
    for mode in ("compare", "together"):
        for way in (*WAYS, "drill"):
            mine = [each for each in lines if (each["mode"], each.get("way")) == (mode, way)]
            if mine:
                rows.append(f"| {mode}, {way} | {' | '.join(_figures(mine, way))} |")
    return "\n".join(rows)


def _figures(lines: list[dict[str, Any]], way: str) -> Iterator[str]:
    clean = 0 if way == "drill" else CLEAN
    found = [each for each in lines if "kind" in each and "kind" not in each.get("twin", {})]
    yield f"{len(found)} of {len(lines)}"
    trials = sorted(each["trials"] for each in found)
    yield f"{sum(trials) / len(trials):.1f}, {trials[-1]} at most" if trials else ""
    faults = [each["by"].count(" + ") + 1 for each in found if "by" in each]
    yield f"{sum(faults) / len(faults):.1f}" if faults else ""
    yield str(sum(each["trials"] + clean for each in lines))
    yield f"{sum(each['processor'] for each in lines):.0f}"


def main() -> None:
    """Hunt in each application, or in those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--mode", choices=["plan", "twins", "compare", "together", "suite"], default="plan")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--invariants", action="store_true", help="with the invariants of applications")
    parser.add_argument("--seeds", type=int, default=3, help="of `compare` and `together`")
    parser.add_argument("--runs", type=int, default=24, help="of the command, for each seed and way")
    parser.add_argument("--ways", nargs="+", choices=[*WAYS, "drill"], default=[*WAYS, "drill"])
    parser.add_argument("--table", type=Path, metavar="FILE", help="print the lines of a run as a table")
    parser.add_argument(
        "--compared", type=Path, metavar="FILE", help="print the lines of `compare` as a table"
    )
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(arguments.table))
    elif arguments.compared:
        print(comparison(arguments.compared))
    elif arguments.mode == "suite":
        print(json.dumps(hunted_suite(arguments.budget)))
    else:
        for line in measured(arguments):
            print(json.dumps({"mode": arguments.mode, **line}), flush=True)


def measured(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the lines of a mode; an application that cannot be hunted does not end it."""
    every = EVERY if arguments.mode == "compare" and not arguments.names else 1
    chosen = [each for each in PLANTED if not arguments.names or each.file in arguments.names][::every]
    if arguments.mode == "together":
        command = [sys.executable, "-c", TOGETHER, *(str(APPLICATIONS / each) for each in ROOMS)]
        for name in arguments.names or PLANTED_ROOMS:
            for line in compared(command, {"PLANTED": name}, {}, arguments):
                yield {"file": name, **of_its_kind(name, line)}
        return
    for planted in chosen:
        try:
            if arguments.mode == "compare":
                command, more = command_of(planted.file)
                for line in compared(command, {**more, "PLANTED": "1"}, more, arguments):
                    yield {"file": planted.file, **of_its_kind(planted.file, line)}
            else:
                yield {"file": planted.file, **hunted(planted, arguments)}
        except Exception as error:  # noqa: BLE001 - the others are still hunted
            yield {"file": planted.file, "error": repr(error)[:300]}


if __name__ == "__main__":
    main()
