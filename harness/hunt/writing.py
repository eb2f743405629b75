"""Files that hold a bug for good: a pytest test that repeats its trial, and a scenario for servers.

The test runs `pushbackd hunt --only` and so judges as the hunt did. The scenario is for people who want to
watch the fault, or to have it without a hunt: it knows no places, so it counts requests of one command,
collection and application instead, and is right as long as the application asks in the order of the clean
run.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from harness.hunt.baseline import Baseline
    from harness.hunt.findings import Bug
    from harness.hunt.hunting import Report
    from harness.hunt.places import Place, Request
    from harness.hunt.wire import Strike

_NO_NAME: Final = re.compile(r"[^a-z0-9]+")
_NAME_MOST: Final = 60


def write(folder: Path, report: Report, words: Sequence[str]) -> list[Path]:
    """Write a test and a scenario for each bug, and return their files. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for number, bug in enumerate(report.confirmed, 1):
        name = f"{number}_{_name(bug)}"
        test, scenario = folder / f"test_hunt_{name}.py", folder / f"hunt_{name}.yml"
        write_whole(test, test_of(bug, report, words))
        write_whole(scenario, scenario_of(bug, report.baseline))
        written += [test, scenario]
    return written


def test_of(bug: Bug, report: Report, words: Sequence[str]) -> str:
    """Return a pytest test that fails while the bug is there."""
    said = "; ".join(bug.trial.judgement.story)
    words, strikes = bug.shorter or (words, bug.only)
    arguments = ["hunt", *report.wishes.besides, "--confirm", "0", "--only", strikes, "--", *words]
    only = "\n".join(f"    {word!r}," for word in arguments)
    return f'''"""{_one_line(bug.cause.kind.value)}: {_one_line(bug.finding.words)}.

{_one_line(said)}.
"""

import subprocess
import sys

HUNT = [
    sys.executable,
    "-m",
    "harness",
{only}
]


def test_{_name(bug)}():
    done = subprocess.run(HUNT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
'''


def scenario_of(bug: Bug, baseline: Baseline) -> str:
    """Return a scenario for servers in which the faults of the bug happen: the n-th request that is meant."""
    rules, faults, timeline = [], [], []
    for strike in bug.trial.strikes:
        request = baseline.places.get(strike.place)
        if request is None:
            continue  # a place that only the recovery from another fault has
        conditions = _conditions(strike.place, request, baseline)
        if effects := strike.fault.effects(request):
            rules.append({"when": conditions, "then": effects, "times": 1})
        if strike.fault.bytes is not None:
            plain = {name: value for name, value in conditions.items() if name != "namespace"}
            faults.append({**strike.fault.bytes, **plain, "times": 1})
        count = _number(request, baseline)
        timeline += [
            {"after": f"{count} {request.name} requests", verb: dict(arguments)}
            for verb, arguments in strike.fault.steps(request)
        ]
    parts = {"rules": rules, "faults": faults, "timeline": timeline}
    document = {
        "pushbackd": "1.0",
        "description": _one_line("; ".join(bug.trial.judgement.story)) + ".",
        "deployment": {"topology": "replicaset", "members": 3},
        **{name: value for name, value in parts.items() if value},
    }
    return "".join(f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in document.items())


def _conditions(place: Place, request: Request, baseline: Baseline) -> Mapping[str, Any]:
    found: dict[str, Any] = {"command": request.name, "nth": _number(request, baseline)}
    if place.app:
        found["appName"] = place.app
    if "." in request.namespace and "," not in request.namespace:
        found["namespace"] = request.namespace
    return found


def _number(request: Request, baseline: Baseline) -> int:
    """Return the number of a request among those of its command, collection and application."""
    same = [
        each
        for each in baseline.places.values()
        if (each.name, each.namespace, each.place.app) == (request.name, request.namespace, request.place.app)
    ]
    return 1 + next(index for index, each in enumerate(same) if each is request)


def _name(bug: Bug) -> str:
    strikes: Sequence[Strike] = bug.trial.strikes
    text = f"{strikes[0].fault.name} {strikes[0].place.shape}".lower()
    return _NO_NAME.sub("_", text)[:_NAME_MOST].strip("_")


def _one_line(text: str) -> str:
    return " ".join(text.replace("\\", "/").replace('"""', "'").split())
