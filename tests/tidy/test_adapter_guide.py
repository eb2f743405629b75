"""The guide to adapters tells of every method, feature and deadline, and its session is what happens."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bson import json_util
from served import DEPLOYMENTS, served
from started import Started

from harness.adapters.base import Feature
from harness.adapters.child import CLOSE_SECONDS, START_SECONDS
from harness.adapters.lines import METHODS, PROTOCOL, Answer, Observed, error_report, message

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "WRITING-ADAPTERS.md").read_text()
(SESSION,) = re.findall(r"^```session\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
EXAMPLE = ROOT / "examples" / "adapters" / "python" / "adapter.py"


def test_the_table_has_every_method_in_order() -> None:
    table = GUIDE.partition("## Requests")[2].partition("## Answers")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == METHODS


def test_every_feature_that_an_adapter_can_have_is_told_in_its_own_words() -> None:
    told = dict(re.findall(r"^\| ([A-Z_]+) \| (.+) \|$", GUIDE, re.MULTILINE))
    assert told == {feature.name: feature.value for feature in Feature if feature is not Feature.VIRTUAL_TIME}


def test_every_part_of_an_error_is_named() -> None:
    (row,) = re.findall(r'^\| `"error": \{…\}` \| (.*) \|$', GUIDE, re.MULTILINE)
    for name in re.findall(r"`(\w+)`", row):
        if name != "message":
            error_report({"message": "x", name: None})


def test_the_deadlines_and_the_version_are_those_of_the_program() -> None:
    assert f"until `hello` is answered | {START_SECONDS:g} seconds |" in GUIDE
    assert f"after its input has ended | {CLOSE_SECONDS:g} seconds |" in GUIDE
    assert f"nobody waits for any more | {CLOSE_SECONDS:g} seconds |" in GUIDE
    assert f"This is protocol {PROTOCOL}," in GUIDE


def said_to(command: list[str], requests: list[str]) -> list[Any]:
    """Make requests one after the other, and return all that was said until the last was answered."""
    said: list[Any] = []
    with Started[bytes](command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for request in requests:
            process.stdin.write(request.encode() + b"\n")
            process.stdin.flush()
            while (
                not isinstance(said[-1] if said else None, Answer) or said[-1].id != json.loads(request)["id"]
            ):
                said.append(message(process.stdout.readline()))
        process.stdin.close()
        assert process.wait(timeout=10) == 0
    return said


@pytest.mark.slow
def test_the_session_is_what_the_example_says() -> None:
    """Of an event's fields, the guide shows some."""
    lines = SESSION.splitlines()
    asked = [line[2:] for line in lines if line.startswith("→")]
    expected = [message(line[2:].encode()) for line in lines if line.startswith("←")]
    with served(*DEPLOYMENTS["replica_set"]) as uri:
        told = said_to(
            [sys.executable, str(EXAMPLE)],
            [request.replace("mongodb://localhost:27017", uri) for request in asked],
        )
    for shown, said in zip(expected, told, strict=True):
        if isinstance(shown, Observed):
            assert (said.client, said.kind) == (shown.client, shown.kind)
            assert shown.fields.items() <= said.fields.items()
        else:
            assert isinstance(shown, Answer)
            assert replace(said, clock=shown.clock) == shown
            assert (said.clock is None) == (shown.clock is None)
    assert json.loads(asked[0])["id"] == 1
    assert json_util.loads(asked[0])["params"] == {"protocol": PROTOCOL}
