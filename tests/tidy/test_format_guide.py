"""The guide to the formats has all of them, and its example passes."""

from __future__ import annotations

import re
from pathlib import Path

from harness.formats import FORMATS, Marks
from harness.formats.grammar import POOL_OPERATIONS
from harness.planning.plan import Settings, load_all, plan
from harness.planning.result import ResultStatus
from harness.running.executor import ItemExecutor

GUIDE = (Path(__file__).parents[2] / "docs" / "FORMATS.md").read_text()
ROW = re.compile(r"^\| `([a-z-]+)` \| (.+?) \| (.+?) \|$", re.MULTILINE)
EXAMPLE = re.compile(r"^```yaml\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def fields(mark: Marks) -> str:
    def listed(names: tuple[str, ...]) -> str:
        return " and ".join(f"`{name}`" for name in names)

    return listed(mark.of_file) + (f" with {listed(mark.of_tests)}" if mark.of_tests else "")


def test_the_table_of_formats_is_that_of_the_code() -> None:
    rows = [(each.name, each.about, ", or ".join(map(fields, each.marks))) for each in FORMATS]
    assert ROW.findall(GUIDE)[: len(rows)] == rows


def test_every_operation_on_a_pool_is_in_the_guide_with_its_arguments() -> None:
    for name, (arguments, _) in POOL_OPERATIONS.items():
        (row,) = (line for line in GUIDE.splitlines() if line.startswith("| `") and f"`{name}`" in line)
        assert all(f"`{argument}`" in row for argument in arguments)


def test_the_example_in_the_guide_passes(tmp_path: Path) -> None:
    (example,) = EXAMPLE.findall(GUIDE)
    path = tmp_path / "case.yml"
    path.write_text(example)
    items = plan(load_all([path]).cases, drivers={"reference": "2026-07-08"}, topologies=["single"])
    with ItemExecutor(Settings(time="virtual")) as executor:
        assert [executor.run(item).status for item in items] == [ResultStatus.PASSED] * 2
