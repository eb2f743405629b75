"""Mutants: how their lines are found and replaced, how they get into a process, and how they end."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent, indent

import pytest
from mutant_record import FILE, SURVIVED, MutantRecord
from mutant_tests import belonging

from harness.authoring.mutants.mutant import Change, load_mutants
from harness.authoring.mutants.overlay import changed_functions
from harness.planning.discovery import BadInputError, bundled_root

SOURCE = """\
class Pool:
    size = 1

    def grow(self):
        # by one
        self.size += 1
        return self.size

    def shrink(self):
        self.size -= 1
        return self.size
"""

ENTRY = """\
- name: {name}
  rule: CB-2
  wrong: It waits for another time.
  file: {file}
  old: |
{old}
  new: |
{new}
"""


def entry(name: str, old: str, new: str, file: str = "driver/policy/backpressure.py") -> str:
    return ENTRY.format(
        name=name, file=file, old=indent(dedent(old), "    "), new=indent(dedent(new), "    ")
    )


def write(folder: Path, *entries: str) -> Path:
    text = f"kind: driver\nspecification: client-backpressure\nmutants:\n{indent(''.join(entries), '  ')}"
    (folder / "some.yml").write_text(text)
    return folder


# --- lines ---


def test_lines_are_replaced_whatever_their_indentation() -> None:
    changed = Change("x.py", "# by one\nself.size += 1", "self.size += 2").apply(SOURCE)
    assert changed == SOURCE.replace("        # by one\n        self.size += 1", "        self.size += 2")


@pytest.mark.parametrize(
    ("old", "times"), [("self.size += 3", 0), ("return self.size", 2), ("size = 1\nx", 0)]
)
def test_lines_that_do_not_occur_once_are_refused(old: str, times: int) -> None:
    with pytest.raises(ValueError, match=f"occur {times} times"):
        Change("x.py", old, "pass").apply(SOURCE)


def test_lines_can_be_removed() -> None:
    assert Change("x.py", "# by one", "").apply(SOURCE) == SOURCE.replace("        # by one\n", "")


# --- files ---


def test_an_unknown_key_is_an_error_with_its_place(tmp_path: Path) -> None:
    write(tmp_path, entry("one", "a", "b") + "  because: of it\n")
    with pytest.raises(BadInputError, match=r"some\.yml:\d+:\d+: mutants\[0\].*because"):
        load_mutants(tmp_path)


def test_two_mutants_of_one_name_are_an_error(tmp_path: Path) -> None:
    write(tmp_path, entry("one", "a", "b"), entry("one", "a", "c"))
    with pytest.raises(BadInputError, match=r"some\.yml:\d+:\d+.*'one' is the name of .*some\.yml"):
        load_mutants(tmp_path)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no such folder"):
        load_mutants(tmp_path / "none")


def test_a_change_that_does_not_apply_names_the_mutant(tmp_path: Path) -> None:
    (mutant,) = load_mutants(write(tmp_path, entry("one", "no such line", "b")))
    with pytest.raises(BadInputError, match=r"some\.yml:\d+:\d+.*'one': the lines of 'old' occur 0 times"):
        mutant.sources()


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    record = MutantRecord()
    record.note("one", "scenarios", "a case")
    record.note("one", "tests", SURVIVED)
    record.note("gone", "scenarios", "a case")
    record.write(tmp_path, ["one"])
    again = MutantRecord.read(tmp_path)
    assert again.killers == {"one": {"scenarios": "a case", "tests": ""}}
    assert again.killer("one", "corpus") is None


def test_a_broken_record_is_an_error(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("[1, 2")
    with pytest.raises(BadInputError, match=FILE):
        MutantRecord.read(tmp_path)


def test_a_test_has_failed_with_any_of_its_parameters_and_a_machine_with_its_only_method() -> None:
    tests = ["a.py::test_one", "a.py::test_two", "b.py::TestPool"]
    failed = ["a.py::test_one[x::y]", "a.py::test_twofold", "b.py::TestPool::runTest"]
    assert belonging(failed, tests) == {"a.py::test_one", "b.py::TestPool"}


# --- functions ---


def test_a_change_in_a_function_is_found_by_its_name() -> None:
    changed = changed_functions(SOURCE, SOURCE.replace("+= 1", "+= 2"), "x.py")
    assert changed is not None
    assert list(changed) == ["Pool.grow"]


def test_comments_and_blank_lines_are_no_change() -> None:
    assert changed_functions(SOURCE, SOURCE.replace("# by one", "# by 1\n"), "x.py") == {}


@pytest.mark.parametrize(
    ("old", "new"), [("size = 1", "size = 2"), ("def grow(self)", "def grow(self, by=1)"), ("grow", "rise")]
)
def test_a_change_that_works_at_import_is_told_apart(old: str, new: str) -> None:
    assert changed_functions(SOURCE, SOURCE.replace(old, new), "x.py") is None


# --- processes ---

LAST_LINE = "return jitter * min(self.maximum, chosen * 2.0 ** min(exponent, MAX_EXPONENT))"
SCENARIO = str(bundled_root() / "client-backpressure" / "overload-retries.yml")


def tried(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness", "mutants", "--folder", str(folder), "-v", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.slow
def test_wrong_code_is_killed_however_it_is_wrong_and_the_same_code_survives(tmp_path: Path) -> None:
    write(
        tmp_path,
        entry("endless", LAST_LINE, "import threading\nthreading.Event().wait()"),
        entry("leaves", LAST_LINE, "import os\nos._exit(3)"),
        entry("raises", LAST_LINE, "raise ValueError"),
        entry("at import", "MAX_EXPONENT = 64", 'MAX_EXPONENT = "64"'),
        entry("the same", LAST_LINE, f"result: float = {LAST_LINE.removeprefix('return ')}\nreturn result"),
    )
    page = tmp_path / "page.html"
    done = tried(tmp_path, SCENARIO, "--least", "81", "--html", str(page))
    assert done.returncode == 1, done.stdout + done.stderr
    killed = set(re.findall("^(.+): killed by$", done.stdout, re.MULTILINE))
    assert killed == {"endless", "leaves", "raises", "at import"}
    assert "\nsurvives: the same (CB-2, reached by" in done.stdout
    assert "4 of 5 killed (80.0 %)" in done.stdout
    assert "<li><b>the same</b>" in page.read_text()


@pytest.mark.slow
def test_a_case_reaches_what_is_loaded_no_sooner_than_it_runs(tmp_path: Path) -> None:
    line = "if not operation.acknowledged or operation.once:"
    write(tmp_path, entry("never retries", line, "if True:", "driver/execute.py"))
    done = tried(tmp_path, SCENARIO)
    assert "never retries: killed by" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_wrong_code_that_cannot_be_loaded_is_an_error_of_its_file(tmp_path: Path) -> None:
    write(tmp_path, entry("no module", "BASE_BACKOFF = 0.1", "import no_such_module"))
    done = tried(tmp_path, SCENARIO)
    assert done.returncode == 2
    assert "'no module' cannot be loaded" in done.stderr
    assert "no_such_module" in done.stderr


def test_nothing_that_matches_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, entry("one", LAST_LINE, "return 0.0"))
    done = tried(tmp_path, "-k", "another")
    assert done.returncode == 2
    assert "no mutant matches" in done.stderr


# --- the tests of a rule ---

HELD = """\
from driver.policy.backpressure import Backoff
from fakeserver.admission.execution_control import UNLIMITED

def test_one(): assert Backoff().before(1, 0.5) >= 0

def test_two(): assert Backoff().before(2, 0.5) >= 0

def test_three(): assert UNLIMITED == 2**31 - 1
"""

SUPPORT = Path(__file__).parents[2] / "support"
FAILING = """\
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[2])

from mutant_tests import failing

from harness.authoring.mutants.mutant import load_mutants

root = Path(sys.argv[1])
tests = [f"test_held.py::test_{number}" for number in ("one", "two", "three")]
mutants = load_mutants(root)
failed = failing({mutant.name: tests for mutant in mutants}, mutants, root=root, jobs=1)
print(*sorted(test.rpartition("_")[2] for test in failed[mutants[0].name]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        pytest.param(
            entry("one", LAST_LINE, "import os\nos._exit(3)"),
            "one two",
            id="after a crash the others are tried",
        ),
        pytest.param(
            entry(
                "one",
                "UNLIMITED: Final = 2**31 - 1",
                "UNLIMITED: Final = 7",
                "fakeserver/admission/execution_control.py",
            ),
            "three",
            id="what is imported is the mutant's, though pytest rewrites its package",
        ),
    ],
)
def test_all_tests_that_fail_with_wrong_code_are_found(wrong: str, expected: str, tmp_path: Path) -> None:
    write(tmp_path, wrong)
    (tmp_path / "test_held.py").write_text(HELD)
    command = [sys.executable, "-c", FAILING, str(tmp_path), str(SUPPORT)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert (done.stdout.strip(), done.returncode) == (expected, 0), done.stderr
