"""A scenario written, run against a scripted adapter and deployment, and both kept to be looked at."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from scripted import ScriptedAdapter, ScriptedDeployment

from harness.sim import run_virtual
from harness.unified.loader import load
from harness.unified.loops import Loops
from harness.unified.runner import run_case

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.adapters.base import Event
    from harness.unified.model import Case
    from harness.unified.outcome import CaseOutcome

ENTITIES = """\
createEntities:
  - client: {id: client0, observeEvents: [commandStartedEvent, connectionReadyEvent]}
  - database: {id: database0, client: client0, databaseName: db}
  - collection: {id: collection0, database: database0, collectionName: coll}
  - session: {id: session0, client: client0}
"""


class World:
    """Writes a scenario, runs it against a scripted adapter and deployment, and keeps both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.adapter = ScriptedAdapter()
        self.deployment = ScriptedDeployment()
        self.loops = Loops()

    def write(self, operations: str, more: str = "", head: str = ENTITIES) -> Path:
        indented = "".join(f"      {line}\n" for line in operations.splitlines())
        body = f"    operations:\n{indented}" if indented.strip() else "    operations: []\n"
        path = self.folder / "case.yml"
        path.write_text(
            f'description: d\nschemaVersion: "1.28"\n{head}tests:\n  - description: one\n{body}{more}'
        )
        return path

    def run(self, operations: str, more: str = "", head: str = ENTITIES) -> CaseOutcome:
        (case,) = load(self.write(operations, more, head)).cases
        return asyncio.run(self.play(case))

    async def play(self, case: Case) -> CaseOutcome:
        return await run_case(case, adapter=self.adapter, deployment=self.deployment, loops=self.loops)

    def run_virtual(self, operations: str, more: str = "", head: str = ENTITIES) -> tuple[CaseOutcome, float]:
        """Run in virtual time, and return the instant at which the case ended."""
        (case,) = load(self.write(operations, more, head)).cases

        async def scenario(world: Any) -> tuple[CaseOutcome, float]:
            self.deployment.clock = world.clock
            begin = world.clock.now()
            outcome = await self.play(case)
            return outcome, world.clock.now() - begin

        result: tuple[CaseOutcome, float] = run_virtual(scenario)
        return result

    def observe(self, *events: Event) -> Callable[[Mapping[str, Any]], None]:
        """Return an answer to an operation that has the first client observe events."""

        def answer(arguments: Mapping[str, Any]) -> None:
            self.adapter.clients[0].events.extend(events)

        return answer
