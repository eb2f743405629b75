"""The methods of `cluster.control` for rules, beside those of the table."""

from __future__ import annotations

import asyncio
import warnings
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, Unpack

from fakeserver.control.methods import Methods
from fakeserver.rules.builders import Expected, UnmetExpectation, When, conditions
from fakeserver.waiting.pause import Await, Host, Pause
from mongowire.documents.arguments import duration
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from fakeserver.rules.book import RuleBook, RuleEntry
    from fakeserver.rules.builders import Stated
    from fakeserver.rules.holding import HeldRequest


# Requests that a test receives and answers itself, as with MockupDB.
#
# request = await cluster.control.receives("find") request.reply({"cursor": {"id": 0, "ns": "shop.orders",
# "firstBatch": []}})


PATIENCE: Final = "10s"


class ReceivingDeployment(Host, Protocol):
    """The deployment that gets the requests."""

    rules: RuleBook


class Receiver:
    """The requests that a rule holds, in their order. At the end of its `with` block they are let go."""

    def __init__(self, deployment: ReceivingDeployment, entry: RuleEntry) -> None:
        self._deployment = deployment
        self._entry = entry

    async def receive(self, within: str = PATIENCE) -> HeldRequest:
        """Return the next request. Raises `UnmetExpectation` if none comes `within` that time."""
        entry, clock = self._entry, self._deployment.clock
        held = entry.held
        assert held is not None
        until = clock.now() + duration(within)
        while True:
            request = held.take()
            if request is not None:
                return request
            if held.is_over:
                raise ControlError(f"{entry.described}: the rule was removed, or the deployment has stopped")
            if clock.now() >= until:
                raise UnmetExpectation(entry.explained(f"{entry.described}: no request came within {within}"))
            await self._rung(Await(held.arrived, until))

    async def _rung(self, action: Await) -> None:
        rung = asyncio.get_running_loop().create_future()
        pause = Pause(self._deployment, lambda: None if rung.done() else rung.set_result(None), action)
        try:
            await rung
        finally:
            pause.cancel()

    def end(self) -> None:
        """Hold no request any more, and let go those that wait."""
        rules, entry = self._deployment.rules, self._entry
        if rules.get(entry.id) is entry:
            rules.remove(entry.id, self._deployment.clock.now())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Receiving:
    """One request that is about to come; it is held from the call on, and returned when awaited."""

    def __init__(self, receiver: Receiver, within: str) -> None:
        self._receiver = receiver
        self._within = within
        self._awaited = False

    def __await__(self) -> Generator[Any, None, HeldRequest]:
        """Wait for the request, and return it. Raises `UnmetExpectation`."""
        self._awaited = True
        return self._received().__await__()

    async def _received(self) -> HeldRequest:
        try:
            return await self._receiver.receive(self._within)
        except BaseException:
            self._receiver.end()
            raise

    def __del__(self) -> None:
        """Warn of a request that is held, and that nobody answers."""
        if not self._awaited:
            warnings.warn("receives(...) was never awaited", RuntimeWarning, stacklevel=2)


class _Home(Protocol):
    def call(self, function: Callable[[], Any]) -> Any: ...

    def run(self, function: Callable[[], Any]) -> Any: ...


class DistantReceiver:
    """The same for a caller in another thread: `receive` returns when a request has come."""

    def __init__(self, home: _Home, receiver: Receiver) -> None:
        self._home = home
        self._receiver = receiver

    def receive(self, within: str = PATIENCE) -> HeldRequest:
        """Return the next request. Raises `UnmetExpectation` if none comes `within` that time."""
        request: HeldRequest = self._home.run(lambda: self._receiver.receive(within))
        return request.seen_from(self._home.call)

    def end(self) -> None:
        """Hold no request any more, and let go those that wait."""
        self._home.call(self._receiver.end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class RuleMethods(Methods):
    """Rules as Python writes them; each method raises `ControlError`."""

    def when(self, command: str | Sequence[str] | None = None, **more: Unpack[Stated]) -> When:
        """Begin a rule with its conditions: `when("find", nth=2).then(error(462))`.

        The other conditions are those of `fakeserver.rules.builders.Stated`.
        """
        return When(self.perform, conditions(command, **more))

    def expect(
        self,
        command: str | Sequence[str] | None = None,
        *,
        count: int | None = None,
        at_least: int | None = None,
        at_most: int | None = None,
        name: str | None = None,
        **more: Unpack[Stated],
    ) -> Expected:
        """Expect requests: `count`, or a range; by default at least one.

        In a `with` block the expectation is checked at the end; `unmet` checks all that there are.
        """
        return Expected.add(self.perform, conditions(command, **more), count, at_least, at_most, name)

    def unmet(self) -> str:
        """Return why expectations are not met, with the requests that came closest; "" if all are."""
        rules: Sequence[Mapping[str, Any]] = self.perform("listRules")["rules"]
        return "\n".join(rule["unmet"] for rule in rules if "unmet" in rule)


class LocalMethods(RuleMethods):
    """The methods that a caller on the deployment's own loop awaits."""

    @abstractmethod
    def begin(self) -> None:
        """Take the deployment as it is now for the beginning, which `reset` brings back."""

    @abstractmethod
    def receives(
        self,
        command: str | Sequence[str] | None = None,
        *,
        within: str = PATIENCE,
        **more: Unpack[Stated],
    ) -> Receiving:
        """Hold the next request that meets the conditions, and return it when awaited.

        Raises `UnmetExpectation` if none comes `within` that time.
        """

    @abstractmethod
    def hold(self, command: str | Sequence[str] | None = None, **more: Unpack[Stated]) -> Receiver:
        """Hold every request that meets the conditions, from now on until the block ends."""
