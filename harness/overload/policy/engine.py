"""The controller's shell: look, decide, set, wait.

It governs one server, by a direct connection: limits belong to a server, and a client of the whole set could
read one member and set another after a failover. It must not be shut out by its own limit, so it exempts its
application name before the first decision. On leaving it puts back the limiters (`_GOVERNED`), after an
error too; its name stays on the list of exemptions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from driver import AsyncClient
from driver.errors import DriverError
from harness.overload.policy.policies import CannotGovernError, Reading
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from harness.overload.policy.policies import Policy, Sample, Settings
    from mongowire.ports import Clock, Network, Rng

APP_NAME: Final = "pushbackd govern"
"""What the controller's connections call themselves: the limiter that it sets must not shut it out."""
_EXEMPTIONS: Final = "ingressRequestRateLimiterApplicationExemptions"
_GOVERNED: Final = (
    *("ingressRequestRateLimiterEnabled", "ingressRequestAdmissionRatePerSec"),
    *("ingressRequestAdmissionBurstCapacitySecs", "ingressConnectionEstablishmentRateLimiterEnabled"),
    *("ingressConnectionEstablishmentRatePerSec", "ingressConnectionEstablishmentBurstCapacitySecs"),
)


_HOSTS: Final = re.compile(r"^(mongodb://(?:[^/?]*@)?)([^/?]*)")


def _several_hosts(uri: str) -> bool:
    """Return whether a connection string names the members of a set."""
    found = _HOSTS.match(uri)
    return found is not None and "," in found[2]


@dataclass(frozen=True, slots=True)
class Decision:
    """A sample at an instant, and the settings that followed: none without a policy."""

    at: float
    sample: Sample
    settings: Settings | None


class Governor:
    """Has a policy set the limiters of one server, every `interval` seconds while `run` runs.

    Without a policy it only looks, and sets nothing.
    Of a connection string with several hosts that server is the primary of the beginning.

    As a context manager it exempts itself from the request rate limiter, and on leaving puts the limiters
    back to what they were. Raises `DriverError` where the server cannot be reached, and
    `CannotGovernError` where it has no queues to read.
    """

    def __init__(
        self,
        uri: str,
        policy: Policy | None,
        *,
        interval: float = 0.25,
        on_decision: Callable[[Decision], object] = lambda _: None,
        network: Network | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        self._policy = policy
        self._interval = interval
        self._on_decision = on_decision
        self._clock: Clock = clock or SystemClock()
        self._uri, self._network, self._rng = uri, network, rng
        self._client = self._client_of(uri, direct=not _several_hosts(uri))
        self.has_restored = False
        """Whether the limiters were changed, and are what they were before."""
        self._before: dict[str, Any] = {}
        self._reading: Reading | None = None
        self._set: Settings | None = None

    def _client_of(self, uri: str, *, direct: bool) -> AsyncClient:
        options = {"appName": APP_NAME, "directConnection": direct}
        return AsyncClient(uri, options=options, network=self._network, clock=self._clock, rng=self._rng)

    async def __aenter__(self) -> Self:
        try:
            if _several_hosts(self._uri):
                # Have a connection to the one server of a set that is governed: the primary that it has
                # now.
                hello = await self._client.command("admin", {"hello": 1})
                await self._client.aclose()
                address = hello.get("primary") or hello["me"]
                self._client = self._client_of(_HOSTS.sub(rf"\g<1>{address}", self._uri), direct=True)
            await self._take_over()
        except BaseException:
            await self._client.aclose()
            raise
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            await self._set_parameters(self._before)
            self.has_restored = self._policy is not None
        finally:
            await self._client.aclose()

    async def run(self) -> None:
        """Go on until cancelled. A look that fails is left out: what was set last stays."""
        due = self._clock.now()
        while True:
            try:
                await self.step()
            except DriverError:
                # The next look begins anew: a sample over the gap would mix a failover or a restart into it.
                self._reading = None
            # Evenly, but without catching up: looks that follow at once would see nothing.
            due = max(due + self._interval, self._clock.now())
            await self._clock.sleep_until(due)

    async def step(self) -> None:
        """Look once; from the second look on decide, and set what is to change. Raises `DriverError`."""
        status = await self._client.command("admin", {"serverStatus": 1})
        before, self._reading = self._reading, Reading.of(status)
        sample = None if before is None else self._reading.since(before)
        if sample is None:
            return
        now = self._clock.now()
        settings = None if self._policy is None else self._policy.decide(sample, now)
        # Only what changes is sent: each `setParameter` costs the server that is overloaded.
        if settings is not None and settings != self._set:
            await self._set_parameters(settings.parameters())
            self._set = settings
        self._on_decision(Decision(now, sample, settings))

    async def _take_over(self) -> None:
        values = await self._client.command(
            "admin", {"getParameter": 1, _EXEMPTIONS: 1, **dict.fromkeys(_GOVERNED, 1)}
        )
        if self._policy is None:
            return
        self._before = {name: values[name] for name in _GOVERNED if name in values}
        if "ingressRequestAdmissionRatePerSec" not in values:
            raise CannotGovernError("the server has no request rate limiter: it is no mongod since 8.2")
        exempt = (values.get(_EXEMPTIONS) or {}).get("appNames", [])
        if APP_NAME not in exempt:
            self._before[_EXEMPTIONS] = {"appNames": exempt}
            await self._set_parameters({_EXEMPTIONS: {"appNames": [*exempt, APP_NAME]}})

    async def _set_parameters(self, values: dict[str, Any]) -> None:
        if values:
            await self._client.command("admin", {"setParameter": 1, **values})
