"""docs/LIMITS.md and docs/STORAGE.md tell the truth about what is missing and what is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from data_commands import Server

from fakeserver.errors import CommandError
from fakeserver.profile import PROFILES
from fakeserver.storage.expressions.compiler import UNSUPPORTED
from fakeserver.storage.stages.pipeline_stages import UNSUPPORTED_STAGES

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
GAPS = re.findall(
    r"^\| `?([^|`]+)`? \| `(\{[^`]*\})` \| (\d+) \|$", (DOCS / "LIMITS.md").read_text(), re.MULTILINE
)
MODULES = re.findall(
    r"^\| ((?:`\w+\*?`(?:, )?)+) \| [^|]+ \| [^|]+ \|$", (DOCS / "STORAGE.md").read_text(), re.MULTILINE
)


@pytest.mark.parametrize(("name", "command", "code"), GAPS, ids=[name for name, _command, _code in GAPS])
def test_what_is_missing_is_an_error(name: str, command: str, code: str) -> None:
    server = Server()
    server.node.profile = PROFILES["9.0"]
    server.fill("c", {"_id": 1})
    with pytest.raises(CommandError) as caught:
        server.run(json.loads(command))
    assert caught.value.code == int(code), name


def test_every_stage_and_expression_that_is_refused_is_listed() -> None:
    assert {name for name, _command, code in GAPS if code == "238"} >= UNSUPPORTED_STAGES | UNSUPPORTED


def test_the_modules_that_are_told_of_are_there() -> None:
    storage = ROOT / "fakeserver" / "storage"
    patterns = [pattern for row in MODULES for pattern in re.findall(r"`(\w+\*?)`", row)]
    assert len(patterns) > 10
    assert all(list(storage.rglob(f"{pattern}.py")) for pattern in patterns)
