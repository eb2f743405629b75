"""What servers saw in runs, as `expectAttempts`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner
from seen import OVERLOADED, request, requests

from harness.authoring.recording.observation import expected_attempts
from harness.cli import cli
from harness.unified.loader import load
from harness.unified.server_side.attempts import SeenOperation
from harness.unified.server_side.rules import Timing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.unified.server_side.seen import SeenRequest

EXACT = Timing(round_trip=0.0)
GUIDE = (Path(__file__).parents[4] / "docs" / "WITNESS.md").read_text()
EXAMPLE = re.findall(r"```yaml\n(.+?)    pushbackd:", GUIDE, re.DOTALL)[0]


def run(*operations: Sequence[SeenRequest]) -> dict[str, tuple[list[SeenOperation], Timing]]:
    return {"find": ([SeenOperation.of("find", sent, EXACT) for sent in operations], EXACT)}


def expected(*runs: dict[str, tuple[list[SeenOperation], Timing]]) -> tuple[list[dict[str, Any]], list[str]]:
    notes: list[str] = []
    return expected_attempts(runs, notes.append), notes


def test_the_attempts_of_one_operation_are_listed_with_the_rules_of_their_gaps() -> None:
    sent = [
        *requests(0.05),
        request(0.2, {"ok": 0, "code": 262}, server="node1"),
        request(0.2, server="node1"),
    ]
    attempts = [
        {"meets": 462},
        {"meets": 462, "on": "same", "gap": "overload backoff"},
        {"meets": 262, "on": "another", "gap": "overload backoff"},
        {"meets": "ok", "on": "same", "gap": "none"},
    ]
    assert expected(run(sent), run(sent)) == ([{"command": "find", "attempts": attempts}], [])


def test_what_varies_between_runs_is_not_expected() -> None:
    one = [request(0, OVERLOADED), request(0.1)]
    other = [request(0, {"ok": 0, "code": 262}), request(0.1, server="node1")]
    attempts = [{"meets": [462, 262]}, {"meets": "ok"}]
    assert expected(run(one), run(other)) == ([{"command": "find", "attempts": attempts}], [])


def test_several_operations_are_counted_with_their_attempts() -> None:
    several = run(requests(0), requests(0))
    assert expected(several, several) == ([{"command": "find", "operations": 2, "count": 2}], [])
    assert expected(several, run(requests(0, 0), requests())) == ([{"command": "find", "operations": 2}], [])


def test_attempts_that_have_nothing_in_common_are_noted() -> None:
    assert expected(run(requests(0)), run(requests(), requests())) == (
        [],
        ["the attempts of find vary, so nothing is expected of them"],
    )
    assert expected(run(requests()), {}) == (
        [],
        ["find was sent in some runs only, so no attempts of it are expected"],
    )


def test_a_recorded_section_is_that_of_the_guide(tmp_path: Path) -> None:
    path = tmp_path / "backoff.yml"
    path.write_text(EXAMPLE)
    done = CliRunner().invoke(cli, ["record", str(path), "--attempts", "--topology", "single", "--in-place"])
    assert done.exit_code == 0, done.output
    own = load(path).cases[0].server_side
    assert own is not None
    (element,) = own.attempts
    assert element.commands == ("find",)
    assert [dict(attempt.body) for attempt in element.attempts or ()] == [
        {"meets": 462},
        {"meets": 462, "on": "same", "gap": "overload backoff"},
        {"meets": "ok", "on": "same", "gap": "overload backoff"},
    ]


def test_a_case_that_has_the_key_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "backoff.yml"
    path.write_text(f"{EXAMPLE}    pushbackd: {{ runOn: {{ time: virtual }} }}\n")
    done = CliRunner().invoke(cli, ["record", str(path), "--attempts", "--topology", "single"])
    assert "expectAttempts" not in done.output
