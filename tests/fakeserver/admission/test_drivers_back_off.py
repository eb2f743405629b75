"""Real drivers that the request rate limiter turns away: their attempts, as the server's journal has them.

With dice that always fall on their highest, a driver waits for as long as its rule allows, and never less.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from attempts import ALMOST, attempts, gaps
from pymongo import AsyncMongoClient, helpers_shared
from pymongo.errors import OperationFailure

import fakeserver
from fakeserver import ClusterSpec, UserSpec

pytestmark = pytest.mark.slow

NO_TOKENS: Final = {
    "ingressRequestRateLimiterEnabled": True,
    "ingressRequestAdmissionRatePerSec": 1,
    "ingressRequestAdmissionBurstCapacitySecs": 5e-6,
}
USER: Final = UserSpec("bob", "pwd123")
"""With access control the limiter spares those who have not authenticated, a driver's monitors among them."""
_AS_BOB: Final[dict[str, Any]] = {
    "username": USER.name,
    "password": USER.password,
    "serverSelectionTimeoutMS": 20_000,
    "directConnection": True,
}


class _HighestDice:
    """Stands where PyMongo rolls its dice."""

    def random(self) -> float:
        return 1.0


def _rejected_ping(
    options: dict[str, Any], **parameters: Any
) -> tuple[OperationFailure, list[tuple[float, Any]]]:
    """Have PyMongo send a ping to a server without tokens; return its error, and the attempts."""

    async def main() -> tuple[OperationFailure, list[tuple[float, Any]]]:
        spec = ClusterSpec.replica_set(1, profile="9.0", auth=True, users=(USER,), parameters=parameters)
        async with (
            fakeserver.start(spec) as cluster,
            AsyncMongoClient[Any](cluster.uri, **_AS_BOB, **options) as client,
        ):
            await client.admin.command("ping")
            cluster.nodes[0].parameters.set(NO_TOKENS)
            with pytest.raises(OperationFailure) as raised:
                await client.admin.command("ping")
            made = attempts(cluster)
            cluster.nodes[0].parameters.set({"ingressRequestRateLimiterEnabled": False})
            return raised.value, made

    return asyncio.run(main())


@pytest.fixture
def highest_dice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helpers_shared, "random", _HighestDice())


@pytest.mark.usefixtures("highest_dice")
@pytest.mark.parametrize(
    ("options", "parameters", "waits"),
    [
        pytest.param({}, {}, [0.2, 0.4], id="a fifth of a second, doubled each time"),
        pytest.param({}, {"externalClientBaseBackoffMS": 30}, [0.06, 0.12], id="what the server hints at"),
        pytest.param({"maxAdaptiveRetries": 1}, {}, [0.2], id="as often as it is told to"),
        pytest.param(
            {}, {"ingressRequestRateLimiterAllowRetries": False}, [], id="not where the server forbids it"
        ),
    ],
)
def test_pymongo_waits_between_its_attempts(
    options: dict[str, Any], parameters: dict[str, Any], waits: list[float]
) -> None:
    error, made = _rejected_ping(options, **parameters)
    assert error.code == 462
    assert error.has_error_label("SystemOverloadedError")
    assert [outcome for _, outcome in made] == [462] * (len(waits) + 1)
    seen = gaps(made)
    assert all(gap >= wait * ALMOST for gap, wait in zip(seen, waits, strict=True)), seen
