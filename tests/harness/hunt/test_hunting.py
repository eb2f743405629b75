"""`pushbackd hunt`: a planted bug is found, said in words and repeated by its line; a correct twin holds."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from hunted import CLEAN, INSERT, outcome

import fakeserver
from harness.cli import cli
from harness.hunt.faults import BY_NAME, FAULTS
from harness.hunt.hunting import Hunt
from harness.hunt.planning import Facts
from harness.hunt.results import document
from harness.hunt.terminal import lines
from harness.hunt.wire import Strike
from harness.hunt.wishes import Wishes, text_of
from harness.hunt.writing import write

if TYPE_CHECKING:
    from pathlib import Path

    from harness.hunt.hunting import Report
    from harness.hunt.trial import Outcome

INSERTS = """
import os, sys
from pymongo import MongoClient
from pymongo.errors import PyMongoError
with MongoClient(os.environ["MONGODB_URI"], appname="till") as client:
    for number in range(2):
        try:
            client.shop.orders.insert_one({"_id": number})
        except PyMongoError:
            {handle}
"""


def hunt(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["hunt", "--budget", "90s", *map(str, arguments)])


def python(handle: str) -> list[str]:
    return ["--", sys.executable, "-c", INSERTS.replace("{handle}", handle)]


def hunted_without_a_process(*besides: str, **wished: Any) -> Report:
    """Hunt in a program that forgets an order which fails, and takes its time."""
    seconds = {"error": 1.0, "slow": 5.0, "silent": 10.0}

    def run(strikes: tuple[Strike, ...], _: float, *__: object) -> Outcome:
        if not strikes:
            return outcome()
        name = strikes[0].fault.name
        return outcome(name, seconds=seconds[name], contents={} if name == "error" else CLEAN)

    only = tuple((Strike(BY_NAME[name], INSERT),) for name in seconds)
    wishes = Wishes(60.0, confirmations=0, only=only, besides=besides, **wished)
    return Hunt(run, Facts(is_replica_set=True, reads_secondaries=False), wishes, lambda _: None).run()


def test_a_hunt_goes_on_with_the_pairs_that_are_left_and_then_repeats_what_has_held() -> None:
    def hunted(remembered: dict[str, str]) -> list[str]:
        def run(strikes: tuple[Strike, ...], _: float, *__: object) -> Outcome:
            return replace(outcome(strikes[0].fault.name if strikes else ""), strikes=strikes)

        faults = (BY_NAME["error"], BY_NAME["unacknowledged"])
        wishes = Wishes(60.0, faults=faults, remembered=remembered)
        report = Hunt(run, Facts(is_replica_set=True, reads_secondaries=False), wishes, lambda _: None).run()
        return [text_of(trial.strikes) for trial in report.trials]

    all_of_it = hunted({})
    ones = [each for each in all_of_it if "+" not in each]
    both = [each for each in all_of_it if "+" in each]
    assert (len(ones), len(both)) == (4, 4)
    assert all_of_it == [*ones, *both]
    began = dict.fromkeys([*ones, *both[:3]], "held")
    assert hunted(began) == [both[3], *ones, *both[:3]]
    assert hunted(began | {both[1]: "failed"}) == [both[1], both[3], *ones, both[0], both[2]]


def test_every_fault_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(FAULTS)


def test_the_line_that_repeats_a_trial_has_the_options_without_which_it_is_another_one(
    tmp_path: Path,
) -> None:
    report = hunted_without_a_process("--invariants", "our shop.yml", "--restart", "2")
    (again,) = (line.strip() for line in lines(report, "npm test") if "--only" in line)
    assert again == (
        "pushbackd hunt --invariants 'our shop.yml' --restart 2"
        " --only 'error @ shop: shop.orders insert {_id} #1' -- npm test"
    )
    assert again == document(report, "npm test")["bugs"][0]["repeat"]
    test = next(path for path in write(tmp_path, report, ["npm", "test"]) if path.suffix == ".py")
    assert "'--invariants',\n    'our shop.yml',\n    '--restart',\n    '2',\n" in test.read_text()


def test_a_hunt_tells_how_long_its_faults_let_the_user_wait() -> None:
    report = hunted_without_a_process()
    assert report.waiting is not None
    assert (report.waiting.median, report.waiting.p99) == (4.0, 9.0)
    (at,) = document(report, "npm test")["waiting"]["places"]
    assert (at["place"], at["trials"], at["p99"]) == (str(INSERT), 3, 9.0)
    (told,) = (line for line in lines(report, "npm test") if "waited" in line)
    assert "4.0 s (median), 9.0 s (p99), most at silent @ shop: shop.orders insert {_id} #1" in told


def test_places_that_only_a_recovery_has_are_counted_apart() -> None:
    report = hunted_without_a_process()
    assert "1 of 2 places tried; 1 bug found" in list(lines(report, "npm test"))
    refund = replace(INSERT, number=2)
    report.trials[0].outcome.strikes += (Strike(BY_NAME["error"], refund),)
    assert "1 of 2 places tried, and 1 that a fault brings; 1 bug found" in list(lines(report, "npm test"))


def test_a_bug_of_an_earlier_hunt_is_told_as_known_and_one_that_is_mended_too() -> None:
    earlier = {f"{name} @ {INSERT}": "failed" for name in ("error", "slow")}
    report = hunted_without_a_process(remembered=earlier)
    said = list(lines(report, "npm test"))
    assert said[0].endswith("(1 of 1 runs, known from an earlier hunt)")
    assert "1 trial that failed in an earlier hunt now held" in said
    found = document(report, "npm test")
    assert [bug["known"] for bug in found["bugs"]] == [True]
    assert found["mended"] == [f"slow @ {INSERT}"]
    assert "known" not in next(lines(hunted_without_a_process(), "npm test"))


def test_the_matrix_has_a_line_for_each_place_and_names_the_faults_that_failed_there() -> None:
    said = list(lines(hunted_without_a_process(), "npm test"))
    head = said.index("  failed  reported  held  not reached  place")
    assert (
        said[head + 1] == "       1               2               shop: shop.orders insert {_id} #1 (error)"
    )


@pytest.mark.slow
def test_a_swallowed_error_is_found_and_the_line_that_repeats_it_finds_it_again() -> None:
    done = hunt("--singles", "--faults", "error", "--confirm", 1, *python("pass"))
    assert done.exit_code == 1
    assert "the command succeeds, and the documents are other ones (2 of 2 runs)" in done.output
    assert "till: shop.orders insert {_id} #2 failed with an error that is not retryable" in done.output
    assert "shop.orders has 1 document missing: {_id: 1}" in done.output
    again = hunt("--only", "error @ till: shop.orders insert {_id} #2", "--confirm", 1, *python("pass"))
    assert again.exit_code == 1
    assert "1 of 1 trials" in again.output


@pytest.mark.slow
def test_an_error_that_is_reported_is_no_bug_and_one_that_the_driver_masks_does_not_reach_the_user() -> None:
    done = hunt("--singles", "--faults", "error,lost-reply,lost-request,step-down", *python("raise"))
    assert done.exit_code == 0, done.output
    assert "no bug found" in done.output
    assert "6 held, 2 reported" in done.output


@pytest.mark.slow
def test_a_command_that_fails_without_a_fault_is_not_hunted() -> None:
    done = hunt("--", sys.executable, "-c", "import sys; sys.exit('no database today')")
    assert done.exit_code == 2
    assert "ends with exit code 1, with no fault at all" in done.output
    assert "no database today" in done.output


@pytest.mark.slow
def test_what_was_found_is_written_for_programs_and_kept_by_a_test(tmp_path: Path) -> None:
    report, page, memory, folder = (tmp_path / name for name in ("r.json", "p.html", "m.json", "kept"))
    files = [
        "--results",
        report,
        "--html",
        page,
        "--memory",
        memory,
        "--junit",
        tmp_path / "r.xml",
        "--write",
        folder,
    ]
    done = hunt("--faults", "error", "--confirm", 0, *files, *python("pass"))
    assert done.exit_code == 1, done.output
    found = json.loads(report.read_text())
    assert [bug["only"] for bug in found["bugs"]] == ["error @ till: shop.orders insert {_id} #2"]
    assert found["bugs"][0]["only"] in page.read_text()
    assert [(step["fault"], step["is_ok"]) for step in found["bugs"][0]["trace"]] == [
        ("", True),
        ("error", False),
    ]
    assert 'failures="2"' in (tmp_path / "r.xml").read_text()
    (remembered,) = json.loads(memory.read_text())["commands"].values()
    assert remembered == {
        "error @ till: shop.orders insert {_id} #1": "failed",
        "error @ till: shop.orders insert {_id} #2": "failed",
    }
    (scenario,) = folder.glob("*.yml")
    assert fakeserver.load_scenario(scenario).spec.topology == "replicaset"
    (test,) = folder.glob("test_*.py")
    kept = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test],
        capture_output=True,
        text=True,
        check=False,
    )
    assert kept.returncode == pytest.ExitCode.TESTS_FAILED, kept.stdout
    assert "shop.orders has 1 document missing: {_id: 1}" in kept.stdout
    words = ["exec", "--scenario", str(scenario), *python("pass")]
    met = subprocess.run(
        [sys.executable, "-m", "harness", *words], capture_output=True, text=True, check=False
    )
    assert met.returncode == 0, met.stderr
    assert "InternalError" in met.stderr


@pytest.mark.slow
def test_a_hunt_ends_with_its_first_bug_if_that_is_asked_for() -> None:
    done = hunt("--first", "--faults", "error,lost-replies", "--jobs", 1, "--confirm", 0, *python("pass"))
    assert done.exit_code == 1, done.output
    assert "1 of 4 trials" in done.output


@pytest.mark.slow
def test_a_place_that_is_no_more_is_told() -> None:
    done = hunt("--only", "error @ till: shop.baskets insert {_id} #1", *python("pass"))
    assert done.exit_code == 2
    assert "a place was not reached" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--faults", "eror"], "unknown fault 'eror'; did you mean 'error'?"),
        (["--only", "error"], "'error' is no trial; write it as a hunt prints it: FAULT @ PLACE"),
        (["--scenario", "none.yml"], "none.yml"),
    ],
)
def test_a_mistake_is_told_with_the_cure(arguments: list[str], message: str) -> None:
    done = hunt(*arguments, "--", sys.executable, "-c", "")
    assert done.exit_code == 2
    assert message in done.output


def test_what_varies_is_learned_from_more_clean_runs_before_a_bug_is_repeated() -> None:
    """Threads swap two words in every fourth run, with or without a fault."""
    runs = 0

    def run(strikes: tuple[Strike, ...], *_: object) -> Outcome:
        nonlocal runs
        runs += 1
        contents: dict[str, list[dict[str, Any]]] = {"shop.orders": [{"_id": 1, "word": runs % 4 == 0}]}
        return outcome(strikes[0].fault.name if strikes else "", contents=contents)

    only = tuple((Strike(BY_NAME[name], INSERT),) for name in ("error", "slow", "outage"))
    facts = Facts(is_replica_set=True, reads_secondaries=False)
    report = Hunt(run, facts, Wishes(60.0, confirmations=3, only=only), lambda _: None).run()
    assert [trial.judgement.status for trial in report.trials] == ["failed", "held", "held"]
    assert [(bug.repeated, bug.again) for bug in report.bugs] == [(3, 0)]
    assert "not compared, because clean runs differ: shop.orders.word" in list(lines(report, "npm test"))
