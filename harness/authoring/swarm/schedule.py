"""A schedule of the swarm: a deployment, a client, and steps. A value that can be made smaller.

A step is one operation of the unified test format, on the driver or on the runner, with all that it needs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


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


@dataclass(frozen=True, slots=True)
class SwarmSchedule:
    """What one seed draws.

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
