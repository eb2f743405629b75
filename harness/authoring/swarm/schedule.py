"""A schedule of the swarm: a deployment, a client, and steps. A value that can be made smaller.

A step is one operation of the unified test format, on the driver or on the runner, with all that it needs.
Steps and options are kept as JSON text, which makes a schedule hashable: the search for the smallest one
remembers what it has tried. `smaller` may cut any step, also one that a later step needs: such a schedule
fails for another reason than the rule, and the search passes over it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

from harness.authoring.swarm.work import UNACKNOWLEDGED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Step:
    """An operation as it stands in a scenario, as text, so that it can be compared and kept in sets."""

    text: str

    @classmethod
    def of(cls, operation: Mapping[str, Any]) -> Self:
        """Return the step of an operation."""
        return cls(json.dumps(operation))

    @property
    def operation(self) -> dict[str, Any]:
        """The operation as a document."""
        found: dict[str, Any] = json.loads(self.text)
        return found

    @property
    def names(self) -> frozenset[str]:
        """The names of its operation and of those within, and of a collection without acknowledgement."""
        return frozenset(_names(self.operation))

    def smaller(self) -> Iterator[Step]:
        """Yield steps that do the same less often, or with less."""
        operation = self.operation
        arguments = operation.get("arguments", {})
        if operation["name"] == "repeat":
            times = arguments["times"]
            for fewer in (1, times // 2):
                if fewer < times and fewer:
                    yield Step.of({**operation, "arguments": {**arguments, "times": fewer}})
        mode = arguments.get("failPoint", {}).get("mode") if operation["name"] == "failPoint" else None
        if isinstance(mode, dict) and mode.get("times", 1) > 1:
            smaller = {**arguments["failPoint"], "mode": {"times": mode["times"] - 1}}
            yield Step.of({**operation, "arguments": {**arguments, "failPoint": smaller}})
        command = arguments.get("command", {})
        steps = command.get("rule", {}).get("sequence", ())
        for index in range(len(steps) if len(steps) > 1 else 0):
            rule = {**command["rule"], "sequence": [*steps[:index], *steps[index + 1 :]]}
            yield Step.of({**operation, "arguments": {**arguments, "command": {**command, "rule": rule}}})


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for member in value:
            yield from _names(member)
    elif isinstance(value, dict):
        if "object" in value:
            yield value["name"]
            yield from {value["object"]} & {UNACKNOWLEDGED}
        for member in value.values():
            yield from _names(member)


@dataclass(frozen=True, slots=True)
class SwarmSchedule:
    """The draw of one seed.

    `target` is the name of the deployment (`harness.deployments.targets`), `edition` that of the
    specifications. `options` are those of the client's connection string, `traits` the other fields of its
    entity, both as text.
    """

    seed: int
    target: str
    edition: str
    options: tuple[tuple[str, str], ...]
    traits: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]

    def without_what_lacks(self, reason: str) -> SwarmSchedule | None:
        """Return what is left without the options and operations in a reason; None for all or nothing.

        So a driver that cannot do one of them is judged by the rest.
        """
        named = frozenset(_WORD.findall(reason))
        options = tuple(option for option in self.options if option[0] not in named)
        steps = tuple(step for step in self.steps if not named & step.names)
        left = replace(self, options=options, steps=steps)
        return None if left == self or not steps else left

    def smaller(self) -> Iterator[SwarmSchedule]:
        """Yield schedules with fewer steps, the much smaller ones first, then with less in them."""
        size = len(self.steps) // 2
        while size:
            for start in range(0, len(self.steps), size):
                yield replace(self, steps=self.steps[:start] + self.steps[start + size :])
            size //= 2
        for index in range(len(self.options)):
            yield replace(self, options=self.options[:index] + self.options[index + 1 :])
        for index in range(len(self.traits)):
            yield replace(self, traits=self.traits[:index] + self.traits[index + 1 :])
        for index, step in enumerate(self.steps):
            for smaller in step.smaller():
                yield replace(self, steps=(*self.steps[:index], smaller, *self.steps[index + 1 :]))
