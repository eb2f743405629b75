"""Proposals: which wrong neighbours a patch has, what a proof needs, and what is written of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sizes import in_full

from fakeserver.commands.default_table import default_table
from harness.authoring.mutants.mutant import Change, original
from harness.authoring.proposals.folder import extensions, placed
from harness.authoring.proposals.neighbours import Neighbour, neighbours
from harness.authoring.proposals.obedience import ObedienceTable
from harness.authoring.proposals.operators import COMMANDS
from harness.authoring.proposals.place import Place
from harness.authoring.proposals.proving import Fate, Proof, Tried
from harness.authoring.proposals.rule import Patch, read_patch, read_rule
from harness.planning.discovery import BadInputError
from harness.planning.result import Result, ResultStatus
from harness.unified.errors import ScenarioError
from harness.unified.loader import read, read_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "proposals"
QUICK = "kill-cursors-once"
ALL = sorted(path.parent.name for path in EXAMPLES.glob("*/rule.yml"))
EXECUTE = "driver/execute.py"
LAST = "return is_retryable_overload(error) and self._retries_overload(operation)"


def patch(new: str, old: str = LAST, file: str = EXECUTE, **also: str) -> Patch:
    """Return a patch of the driver; `also` are further changes of the same file, old by new."""
    changes = [Change(file, old, new), *(Change(file, was, now) for was, now in also.items())]
    text = original(file)
    for change in changes:
        text = change.apply(text)
    return Patch("p", "does", tuple(changes), {file: original(file)}, {file: text}, ROOT / "wanted.yml")


def named(wanted: Patch, *codes: int) -> dict[str, Neighbour]:
    return {each.name: each for each in neighbours(wanted, codes)}


ONCE = patch(f'if operation.name == "getMore" and run.state.attempt >= 1:\n    return False\n{LAST}')


# --- neighbours ---


@pytest.mark.parametrize(
    "name",
    [
        "retries twice",
        "never retries",
        "also for find",
        "also for insert",
        "for killCursors in place of getMore",
        "for every command",
        "where not `operation.name == 'getMore'`",
        "one of the conditions is enough: `operation.name == 'getMore' and run.state.attempt >= 1`",
        "counted by client, not by operation",
        "counted by session, not by operation",
        "counted by connection, not by operation",
        "counted by server, not by operation",
        "only on sharded clusters",
        "only on replica sets",
        "only in transactions",
        "not in transactions",
        "only with timeoutMS",
        "not with timeoutMS",
        "only after the code 462",
    ],
)
def test_a_rule_of_the_retry_decision_has_these_neighbours(name: str) -> None:
    assert name in named(ONCE, 462)


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("run.state.attempt >= 1", {"retries twice", "never retries"}),
        ("run.state.attempt > 1", {"retries once", "retries 3 times"}),
        ("run.state.attempt == 0", {"retries once"}),
        ("not run.state.attempt < 2", {"retries 3 times", "retries once"}),
    ],
)
def test_numbers_of_attempts_are_told_as_retries(condition: str, words: set[str]) -> None:
    found = named(patch(f"if {condition}:\n    return False\n{LAST}"))
    assert words <= found.keys()


def test_a_driver_that_is_the_same_is_no_neighbour() -> None:
    """More than one comparison or number means the same for whole numbers, and is tried once."""
    found = named(ONCE, 462)
    texts = [repr(sorted(each.sources.items())) for each in found.values()]
    assert len(set(texts)) == len(texts)
    assert all(each.sources != ONCE.after for each in found.values())
    assert all(each.sources for each in found.values())


def test_conditions_that_were_there_before_are_other_rules() -> None:
    assert not [
        name for name in named(ONCE) if "is_retryable_overload" in name or "_retries_overload" in name
    ]


def test_a_flag_is_tried_the_other_way_elsewhere_and_everywhere() -> None:
    wanted = read_patch(EXAMPLES / "kill-cursors-once" / "wanted.yml")
    assert list(named(wanted)) == [
        "`once=False` in place of `once=True`",
        "also for getMore",
        "for every command",
    ]


def test_labels_codes_and_questions_of_an_error_have_near_ones() -> None:
    wanted = patch(
        f"if error.code == 462 or error.has_label(Label.RETRYABLE):\n    return is_overload(error)\n{LAST}"
    )
    found = named(wanted)
    assert "by the label SystemOverloadedError in place of RetryableError" in found
    assert [name for name in found if name.startswith("on ") and name.endswith("in place of 462")]
    assert "only after an overload error that is retryable" in found


def test_numbers_that_are_no_attempts_and_arithmetic_have_near_ones() -> None:
    file = "driver/policy/backpressure.py"
    wanted = patch("MAX_BACKOFF = 20.0", "MAX_BACKOFF = 10.0", file)
    assert "40.0 in place of 20.0: `MAX_BACKOFF = 40.0`" in named(wanted)
    wanted = patch(
        "exponent = retry + 1 + self.first_exponent", "exponent = retry - 1 + self.first_exponent", file
    )
    assert (
        any("`retry - 1 + self.first_exponent`" in name for name in named(wanted)) is False
    )  # it is today's
    assert "2 in place of 1: `retry + 2`" in named(wanted)


def test_each_part_of_a_patch_is_left_out_but_not_its_imports() -> None:
    wanted = patch(
        "jitter = 0.5",
        "jitter = self.rng.random() if failure.overloaded and failure.retryable else 0.0",
        **{"if decision.backoff:": "if decision.backoff > 0.5:"},
    )
    without = [name for name in named(wanted) if name.startswith("without its change of")]
    assert len(without) == 2
    survives = read_patch(EXAMPLES / "cursor-survives-overload" / "wanted.yml")
    assert not [name for name in named(survives) if name.startswith("without its change of")]


def test_a_diff_of_a_neighbour_shows_what_is_wrong_beside_the_rule() -> None:
    diff = named(ONCE)["retries twice"].diff(ONCE).splitlines()
    assert [line for line in diff if line.startswith(("+ ", "- "))] == [
        '-        if operation.name == "getMore" and run.state.attempt >= 1:',
        '+        if operation.name == "getMore" and run.state.attempt >= 2:',
    ]


def test_a_patch_counts_under_a_condition_only_and_the_rest_is_as_it_was() -> None:
    before = "class A:\n    def f(self, run: Run):\n        x = 1\n        return x\n"
    place = Place("a.py", before, before.replace("x = 1", "x = 2\n        y = x"))
    assert place.only_where({"f": "run.late"}) == (
        "class A:\n    def f(self, run: Run):\n        if run.late:\n            x = 2\n            y = x\n"
        "        else:\n            x = 1\n        return x\n"
    )


def test_lines_that_a_patch_removes_are_kept_elsewhere() -> None:
    before = "def f():\n    a()\n    b()\n"
    place = Place("a.py", before, "def f():\n    b()\n")
    assert place.only_where({"f": "g()"}) == (
        "def f():\n    if g():\n        pass\n    else:\n        a()\n    b()\n"
    )


def test_the_commands_that_are_mistaken_for_one_another_are_commands_of_the_server() -> None:
    assert {name for names in COMMANDS.values() for name in names} <= set(default_table().commands)


# --- wrong input ---

RULE = """\
rule: a rule
says: Drivers MUST do it.
because: It is right.
specification: client-backpressure
heading: Overload retry policy
after: It is so.
scenarios: [case.yml]
"""
WANTED = f"""\
name: wanted
does: It does it.
file: {EXECUTE}
old: |
  {LAST}
new: |
  return False
"""
CASE = """\
description: case
schemaVersion: "1.0"
createEntities:
  - client: { id: client }
tests:
  - { description: nothing, operations: [] }
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (RULE.replace("because: It is right.\n", ""), r"rule\.yml:1:1: field 'because' is missing"),
        (RULE.replace("heading:", "heding:"), r"rule\.yml:5:1: heding: unknown field .*'heading'"),
        (RULE.replace("case.yml", "none.yml"), r"rule\.yml:7:13: scenarios\[0\]: .*none\.yml is no file"),
        (
            RULE + "deployments: [replicast]\n",
            r"rule\.yml:8:15: deployments\[0\]: 'replicast' is no deployment",
        ),
        (RULE + "editions: [2020]\n", r"rule\.yml:8:12: editions\[0\]"),
        ("- 1\n", r"rule\.yml:1:1"),
    ],
)
def test_a_wrong_rule_is_told_with_its_place(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "case.yml").write_text(CASE)
    (tmp_path / "rule.yml").write_text(text)
    with pytest.raises((BadInputError, ScenarioError), match=told):
        read_rule(tmp_path / "rule.yml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (WANTED.replace(LAST, "no such line"), r"wanted\.yml:4:6: old: the lines of 'old' occur 0 times"),
        (WANTED.replace("return False", "return ("), r"wanted\.yml:6:6: new: .*no Python"),
        (
            WANTED.replace(EXECUTE, "harness/cli.py"),
            r"wanted\.yml:3:7: file: .*no source file of the reference",
        ),
        (WANTED.replace(EXECUTE, "driver/none.py"), r"wanted\.yml:3:7: file: 'driver/none\.py'"),
        (WANTED.replace("does:", "wrong:"), r"wanted\.yml:1:1: field 'does' is missing"),
    ],
)
def test_a_wrong_patch_is_told_with_its_place(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "wanted.yml").write_text(text)
    with pytest.raises((BadInputError, ScenarioError), match=told):
        read_patch(tmp_path / "wanted.yml")


# --- the place in a specification, and the format ---

SPECIFICATION = """\
# A specification

## Overload retry policy

The first paragraph. It is
so.

1. An item.
    - An item of an item that has
        two lines.
2. Another one.

## Another part

It is other.
"""


def rule_after(sentence: str, tmp_path: Path, heading: str = "Overload retry policy") -> Any:
    (tmp_path / "case.yml").write_text(CASE)
    text = RULE.replace("It is so.", sentence).replace("Overload retry policy", heading)
    (tmp_path / "rule.yml").write_text(text)
    return read_rule(tmp_path / "rule.yml")


@pytest.mark.parametrize(
    ("sentence", "added"),
    [
        ("It is so.", ["+", "+Drivers MUST do it."]),
        ("An item of an item that has two lines.", ["+    - Drivers MUST do it."]),
        ("Another one.", ["+2. Drivers MUST do it."]),
    ],
)
def test_the_paragraph_stands_after_its_sentence_as_what_the_sentence_is(
    sentence: str, added: Sequence[str], tmp_path: Path
) -> None:
    (tmp_path / "spec.md").write_text(SPECIFICATION)
    lines = placed(rule_after(sentence, tmp_path), tmp_path / "spec.md").splitlines()
    assert lines[:2] == [
        "--- a/source/client-backpressure/client-backpressure.md",
        "+++ b/source/client-backpressure/client-backpressure.md",
    ]
    assert [line for line in lines[2:] if line.startswith("+")] == added
    assert not [line for line in lines[2:] if line.startswith("-")]


def test_a_place_that_is_not_there_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "spec.md").write_text(SPECIFICATION)
    with pytest.raises(BadInputError, match=r"rule\.yml:5:10: heading: .*no heading 'Elsewhere'"):
        placed(rule_after("It is so.", tmp_path, "Elsewhere"), tmp_path / "spec.md")
    with pytest.raises(BadInputError, match=r"rule\.yml:6:8: after: .*does not have that sentence"):
        placed(rule_after("It is other.", tmp_path), tmp_path / "spec.md")


def test_what_the_public_format_cannot_say_is_told_with_its_line() -> None:
    text = CASE.replace("{ id: client }", "{ id: client, pushbackd: { jitter: 1 } }")
    document, _ = read_text(text, Path("case.yml"))
    assert extensions(document) == ["line 4: createEntities[0].client.pushbackd (jitter)"]
    assert extensions(read(EXAMPLES / "getmore-once" / "get-more.yml")) == []


# --- who obeys ---


def result(case: str, status: ResultStatus, topology: str = "replicaset", reason: str = "") -> Result:
    return Result(f"f::{case}", status, topology, "x", "2026-07-08", reason)


PASSED, FAILED, SKIPPED = ResultStatus.PASSED, ResultStatus.FAILED, ResultStatus.SKIPPED


@pytest.mark.parametrize(
    ("results", "cell", "change"),
    [
        ([result("own", PASSED), result("control", PASSED)], "obeys (1 of 1)", "nothing"),
        ([result("own", FAILED, reason="no\nmore")], "breaks it (1 of 1)", "own: no"),
        (
            [result("own", PASSED), result("control", FAILED)],
            "obeys (1 of 1)",
            "nothing (besides, it fails 1 of what is so today)",
        ),
        ([result("own", FAILED), result("other", FAILED)], "breaks it (2 of 2)", "own: ; 1 more"),
        ([result("own", SKIPPED, reason="no sessions")], "not judged", "unknown: no sessions"),
    ],
)
def test_a_driver_is_judged_by_the_cases_of_the_rule(
    results: Sequence[Result], cell: str, change: str
) -> None:
    table = ObedienceTable(("replicaset",), frozenset({"f::own", "f::other"}))
    table.add("x", "x 1.0", results)
    assert table.headings() == ("driver", "version and edition", "replicaset", "what changes")
    assert table.lines() == [("x", "x 1.0, 2026-07-08", cell, change)]


# --- proofs ---


def test_a_rule_whose_patch_has_no_wrong_neighbour_is_not_proved() -> None:
    rule = read_rule(EXAMPLES / "kill-cursors-once" / "rule.yml")
    red, green = result("own", FAILED), result("own", PASSED)
    found = Tried(next(iter(named(ONCE).values())), Fate.FOUND, "f::own", "no")
    bare, told = (
        Proof(rule, ONCE, (), {"own": red}, {"own": green}, tried) for tried in (list[Tried](), [found])
    )
    assert (bare.holds, told.holds) == (False, True)
    assert bare.verdict().endswith("no wrong neighbour can be made of the patch's lines.")
    assert told.verdict().endswith("1 of 1 wrong neighbours were found.")


def propose(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness", "propose", "--jobs", "2", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=cwd)


def copied(name: str, folder: Path, **changed: str) -> list[str]:
    """Copy an example, with other texts of some files, and return the arguments that propose it."""
    for path in (EXAMPLES / name).iterdir():
        (folder / path.name).write_text(changed.get(path.stem, path.read_text()))
    return [str(folder / "rule.yml"), "--patch", str(folder / "wanted.yml")]


ONE_EDITION = 'scenarios: [kill-cursors.yml]\neditions: ["2026-02-20"]\ndeployments: [replicaset]\n'


def example(file: str) -> str:
    return (EXAMPLES / "kill-cursors-once" / file).read_text()


@pytest.mark.slow
def test_a_proved_rule_is_a_folder_for_a_pull_request(tmp_path: Path) -> None:
    (tmp_path / "spec.md").write_text(
        SPECIFICATION.replace(
            "Overload retry policy", "Driver mechanisms subject to the retry policy"
        ).replace("An item.", "Commands executed during [connection establishment].")
    )
    out = tmp_path / "out"
    rule = example("rule.yml").replace("scenarios: [kill-cursors.yml]\n", ONE_EDITION)
    done = propose(
        *copied("kill-cursors-once", tmp_path, rule=rule),
        *("--out", str(out), "--json", str(tmp_path / "outcome.json"), "--topology", "single"),
        *("--specification", str(tmp_path / "spec.md")),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killCursors is sent once: Proved: 2 passed with the patch" in done.stdout
    outcome: Mapping[str, Any] = json.loads((tmp_path / "outcome.json").read_text())
    assert outcome["proved"] is True
    assert {each["fate"] for each in outcome["neighbours"]} == {"found"}
    assert [each["single"] for each in outcome["drivers"]] == [
        "not judged"
    ] * 2  # runOn asks for more members
    written = {path.name for path in out.iterdir()}
    assert written == {
        *("README.md", "paragraph.md", "specification.patch", "driver.patch", "table.md", "neighbours.md"),
        *("kill-cursors.yml", "kill-cursors.json", "today.svg", "wanted.svg", "index.html"),
    }
    assert json.loads((out / "kill-cursors.json").read_text()) == read(out / "kill-cursors.yml").value
    assert "| reference | pushbackd" in (out / "table.md").read_text()
    assert "breaks it (1 of 1)" in (out / "table.md").read_text()
    page = (out / "index.html").read_text()
    assert "What is sent today" in page
    assert "What is wanted" in page
    assert page.count("<svg") == 2
    assert "in the public unified test format" in (out / "README.md").read_text()


@pytest.mark.slow
def test_a_neighbour_that_no_case_tells_is_listed_with_its_diff_and_the_case_that_would(
    tmp_path: Path,
) -> None:
    rule = example("rule.yml").replace("scenarios: [kill-cursors.yml]\n", ONE_EDITION)
    cases = example("kill-cursors.yml").partition(
        "\n  - description: a getMore that meets overload is retried"
    )[0]
    arguments = copied("kill-cursors-once", tmp_path, rule=rule)
    (tmp_path / "kill-cursors.yml").write_text(cases)
    done = propose(*arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    told = "no case of the scenario tells 'also for getMore' from the rule: add a case in which getMore meets"
    assert told in done.stdout
    assert "  +++ driver/operations/cursors.py (also for getMore)" in done.stdout
    assert "Not proved" in done.stdout


ALLOWED = """\
survives:
  - { neighbour: also for getMore, as: not observable, because: Nobody looks. }
  - { neighbour: also for nothing, as: equivalent, because: It is the same. }
"""


@pytest.mark.slow
def test_what_need_not_be_found_is_said_by_the_patch_and_must_be_so(tmp_path: Path) -> None:
    rule = example("rule.yml").replace("scenarios: [kill-cursors.yml]\n", ONE_EDITION)
    arguments = copied("kill-cursors-once", tmp_path, rule=rule, wanted=example("wanted.yml") + ALLOWED)
    done = propose(*arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "survives[0]: 'also for getMore' does not survive" in done.stdout
    assert "survives[1]: no neighbour is called 'also for nothing'" in done.stdout


@pytest.mark.slow
def test_a_wrong_patch_and_a_driver_that_obeys_already_are_not_proved(tmp_path: Path) -> None:
    rule = example("rule.yml").replace("scenarios: [kill-cursors.yml]\n", ONE_EDITION)
    idle = example("wanted.yml").replace("once=True", "once=False")
    done = propose(*copied("kill-cursors-once", tmp_path, rule=rule, wanted=idle))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "fails with the patch: " in done.stdout
    assert "a cursor that is closed under overload is not killed again" in done.stdout
    green = example("kill-cursors.yml").replace("*find, *killCursors]", "*find, *killCursors, *killCursors]")
    arguments = copied("kill-cursors-once", tmp_path, rule=rule, wanted=idle)
    (tmp_path / "kill-cursors.yml").write_text(green)
    done = propose(*arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "no case fails without the patch" in done.stdout


def test_a_wrong_file_ends_with_2_and_its_place(tmp_path: Path) -> None:
    arguments = copied("kill-cursors-once", tmp_path, wanted=WANTED.replace(LAST, "no such line"))
    done = propose(*arguments)
    assert done.returncode == 2
    assert "wanted.yml:4:6: old: the lines of 'old' occur 0 times in driver/execute.py" in done.stderr


@pytest.mark.parametrize("name", ALL)
def test_an_example_is_read_and_its_patch_has_neighbours(name: str) -> None:
    folder = EXAMPLES / name
    assert read_rule(folder / "rule.yml").scenarios
    assert len(neighbours(read_patch(folder / "wanted.yml"))) > 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == QUICK else in_full("guides", "has many neighbours"))
        for name in ALL
    ],
)
def test_an_example_is_proved(name: str) -> None:
    folder = EXAMPLES / name
    done = propose(str(folder / "rule.yml"), "--patch", str(folder / "wanted.yml"))
    assert done.returncode == 0, done.stdout + done.stderr
