"""A project of a user's: a folder of YAML, a conftest of a few lines, and warnings that are errors."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pymongo
import pytest

import harness

# Pytester forgets what it imports, and neither the YAML parser nor the driver's classes bear a second import.
import harness.adapters.reference.adapter
import harness.unified.loader
from harness.authoring.template import starting_text

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(harness.__file__).parents[1]  # where what is tested is imported from: an installed copy perhaps
GUIDE = (Path(__file__).parents[3] / "docs" / "PYTEST.md").read_text()
(CONFTEST,) = re.findall(r"^```python\n(\"\"\"Scenarios.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)

NAME = "an update that loses its connection is sent again and applied once"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project as the guide has it, next to nothing of ours."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeini(
        "[pytest]\naddopts = --strict-markers --strict-config -W error\nfilterwarnings = error\n"
        "pushbackd_adapter = reference pymongo\npushbackd_time = virtual\n"
    )
    pytester.makeconftest(CONFTEST)
    folder = pytester.mkdir("scenarios")
    (folder / "first.yml").write_text(starting_text("first.yml", schema="x"))
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "no:cacheprovider", *arguments)


def properties(report: Path) -> Sequence[dict[str | None, str | None]]:
    cases = ET.parse(report).getroot().iter("testcase")
    return [{each.get("name"): each.get("value") for each in case.iter("property")} for case in cases]


@pytest.mark.slow
def test_three_lines_of_conftest_make_items_of_a_folder(project: pytest.Pytester) -> None:
    assert len(CONFTEST.strip().splitlines()) <= 3
    done = run(project, "-v", "--junit-xml=report.xml")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(
        [
            f"scenarios/first.yml::{NAME}?reference-replicaset-virtual? PASSED*",
            f"scenarios/first.yml::{NAME}?pymongo-replicaset-real? PASSED*",
        ]
    )
    shared = {
        "topology": "replicaset",
        "edition": "2026-07-08",
        "server_version": "8.2.3",
        "seed": "0",
        "runs": "1",
    }
    assert properties(project.path / "report.xml") == [
        {
            "adapter": "reference",
            "driver": "pushbackd 0.1.0",
            "time": "virtual",
            **shared,
            "edition": "2026-02-20",
        },
        {"adapter": "pymongo", "driver": f"PyMongo {pymongo.version}", "time": "real", **shared},
    ]


@pytest.mark.parametrize(
    "chosen",
    [
        "-k 'loses and pymongo'",
        "-k pymongo-replicaset",
        f"'scenarios/first.yml::{NAME}[pymongo-replicaset-real]'",
        "-m pushbackd --pushbackd-adapter pymongo",
    ],
    ids=["keyword", "the driver's name", "node id", "marker"],
)
def test_items_are_chosen_as_any_others(project: pytest.Pytester, chosen: str) -> None:
    done = project.runpytest_inprocess("--collect-only", "-q", "-p", "no:cacheprovider", *shlex.split(chosen))
    assert done.ret == pytest.ExitCode.OK
    found = [line for line in done.outlines if "::" in line]
    assert found == [f"scenarios/first.yml::{NAME}[pymongo-replicaset-real]"]
    assert not done.parseoutcomes().keys() & {"errors", "warnings"}


@pytest.mark.slow
def test_properties_arrive_from_the_workers_of_xdist(project: pytest.Pytester) -> None:
    run(project, "-n", "1", "--junit-xml=report.xml", "--pushbackd-seed", "5").assert_outcomes(passed=2)
    found = properties(project.path / "report.xml")
    assert sorted(str(each["adapter"]) for each in found) == ["pymongo", "reference"]
    assert {each["seed"] for each in found} == {"5"}
