"""The guide to scenarios for servers: its tables are those of the code, and its examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fakeserver
from fakeserver.control.scenario import building
from fakeserver.control.scenario.building import build, bundled
from fakeserver.control.scenario.loader import read_text
from fakeserver.control.scenario.triggers import QUANTITIES

GUIDE = (Path(__file__).parents[2] / "docs" / "SERVER-SCENARIOS.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([^`]+)` \| (.+) \|$", re.MULTILINE)


def test_the_tables_are_those_of_the_code() -> None:
    examples = {name: fakeserver.load_scenario(name).description for name in bundled()}
    assert dict(ROW.findall(GUIDE)) == {**building.FIELDS, **building.ENTRY, **QUANTITIES, **examples}


def test_the_scenario_of_the_guide_is_one() -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    scenario = build(read_text(text, "guide.yml"))
    assert [entry.verb for entry in scenario.timeline] == ["kill", "limits"]


@pytest.mark.slow
def test_the_program_of_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    exec(compile(text, "guide.py", "exec"), {})
    assert capsys.readouterr().out.startswith("8 [{")
