"""What a process is told of a client: what its scenario has, and of others only where asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.adapters.base import ClientSpec
from harness.adapters.command import CommandAdapter
from harness.adapters.lines import Answer
from mongowire.system import SystemClock


class RecordingChild:
    """Answers every request with an entity, and keeps its parameters."""

    said: Any = None

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def number(self) -> int:
        return len(self.asked) + 1

    async def ask(self, number: int, _method: str, **request: Any) -> Answer:
        self.asked.append(request["params"])
        return Answer(number, entity=True)


BASIC: dict[str, Any] = {
    "uri": "mongodb://a:1/",
    "options": {},
    "observeEvents": [],
    "observeLogs": [],
    "observeSpans": None,
    "serverApi": None,
}
ENCRYPTION: dict[str, Any] = {"keyVaultNamespace": "k.v", "kmsProviders": {}}


@pytest.mark.parametrize(
    ("spec", "more"),
    [
        ({}, {}),
        ({"observe_spans": {}}, {"observeSpans": {}}),
        ({"auto_encryption": ENCRYPTION}, {"autoEncryptOpts": ENCRYPTION}),
        ({"jitter": 0}, {"jitter": 0}),
        ({"jitter_seed": 0}, {"jitterSeed": 0}),
    ],
)
def test_a_client_is_described_by_what_its_scenario_has(spec: dict[str, Any], more: dict[str, Any]) -> None:
    child: Any = RecordingChild()
    adapter = CommandAdapter(child, SystemClock(), call_seconds=1)
    asyncio.run(adapter.create_client(ClientSpec(uri="mongodb://a:1/", **spec)))
    assert child.asked == [{**BASIC, **more}]
