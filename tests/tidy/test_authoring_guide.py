"""The guide for authors has every rule, and its example is what lint says."""

from __future__ import annotations

import re
from pathlib import Path

from harness.authoring.template import starting_text
from harness.lint.engine import lint_file
from harness.lint.rules import READING, RULES

GUIDE = (Path(__file__).parents[2] / "docs" / "AUTHORING.md").read_text()
ROW = re.compile(r"^\| `([a-z-]+)` \| (.+?) \| an? (error|warning) \|$", re.MULTILINE)


def test_the_table_of_rules_is_that_of_the_code() -> None:
    reading = [(name, sentence, "error") for name, sentence in READING.items()]
    rules = [(rule.id, rule.sentence, "error" if rule.refuses else "warning") for rule in RULES]
    assert ROW.findall(GUIDE) == [*reading, *rules]


def test_the_message_in_the_guide_is_what_lint_says_of_that_mistake(tmp_path: Path) -> None:
    path = tmp_path / "my-scenarios" / "first.yml"
    path.parent.mkdir()
    path.write_text(starting_text(path.name, schema="x").replace("name: updateOne", "name: updateOnce"))
    (finding,) = lint_file(path)
    assert str(finding).removeprefix(f"{tmp_path}/") in GUIDE
