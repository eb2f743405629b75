"""The contract of the doors for scenario files: a verb on a timeline does the same, and refuses the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from control_cases import CASES, NS, RIGHT_OF_KIND, WRONG_OF_KIND, Case

import fakeserver
from fakeserver.control.scenario.building import build
from fakeserver.control.scenario.loader import ScenarioFileError, read_text
from fakeserver.control.verbs.table import VERBS
from fakeserver.storage.port.engine import Namespace
from harness.sim import run_virtual

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fakeserver.control.scenario.model import Scenario
    from fakeserver.control.verbs.form import Verb
    from mongowire.documents.arguments import Argument

TIMED = {verb.name for verb in VERBS if not verb.reads} - {"reset"}
ARGUMENTS = [(verb, argument) for verb in VERBS if verb.name in TIMED for argument in verb.arguments]
FILE = "case.yml"


def _scenario(steps: Iterable[tuple[str, str, Mapping[str, Any]]]) -> Scenario:
    lines = ['pushbackd: "1.0"', "deployment: {topology: replicaset, members: 3}", "timeline:"]
    for at, verb, arguments in steps:
        lines.append(f"  - {{at: {at}, {verb}: {json.dumps(dict(arguments))}}}")
    return build(read_text("\n".join(lines), FILE))


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.verb in TIMED], ids=lambda case: f"{case.verb} {case.arguments}"
)
def test_a_verb_does_what_it_says_on_a_timeline(case: Case) -> None:
    steps = [*(("0s", *earlier) for earlier in case.after), ("1s", case.verb, case.arguments)]
    scenario = _scenario(steps)

    async def main(world: Any) -> None:
        ports = {"network": world.network, "clock": world.clock, "rng": world.rng}
        async with fakeserver.start(scenario, **ports) as cluster:
            await world.clock.sleep_until(world.clock.now() + 1.2)
            state = cluster.control.state()
            assert [(step["verb"], step["performed"]) for step in state["timeline"]] == [
                (verb, 1) for _, verb, _ in steps
            ]
            assert "failed" not in [step["state"] for step in state["timeline"]]
            assert case.seen({each["name"]: each for each in state["servers"]})
            found = cluster.catalog.engine.stats(Namespace.parse(NS)).count
            assert case.documents in {None, found}

    run_virtual(main)


@pytest.mark.parametrize(("verb", "argument"), ARGUMENTS, ids=lambda each: each.name)
def test_a_value_that_cannot_be_read_is_refused_at_its_place(verb: Verb, argument: Argument) -> None:
    arguments = {each.name: RIGHT_OF_KIND[each.kind] for each in verb.arguments if each.is_required}
    arguments[argument.name] = WRONG_OF_KIND[argument.kind]
    with pytest.raises(ScenarioFileError) as caught:
        _scenario([("0s", verb.name, arguments)])
    (line,) = [each for each in str(caught.value).splitlines() if f"{verb.name}.{argument.name}" in each]
    assert line.startswith(f"{FILE}:4:")
