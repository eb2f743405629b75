"""The article's scenario live: a fake over TCP that is stopped and goes on, and clients with real drivers.

Clients, the outage and the looks at the server are tasks of one loop, on one clock that begins with the run.
The result has the form of a model's outcome, so that the same tables and pictures hold both; what only a
server knows (requests at work) is asked for by its control, and is missing while it is stopped.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from harness.sim.article.live_clients import LiveAttempt, ReferenceClients
from harness.sim.article.live_server import LiveServer, Stop, server_parameters
from harness.sim.article.parameters import OF_THE_APPLICATION, ArticleParameters, Strategy
from harness.sim.fleet.clients import ClientDice
from harness.sim.fleet.outcome import COLUMNS, FleetOutcome
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from harness.sim.article.live_clients import Asking, Driver


Abandoned: TypeAlias = Literal["atOnce", "atInterruptCheck", "never"]


_LOOK_SECONDS: Final = 0.25
"""Between two looks at the server, of windows that are not longer."""


def run_live(
    parameters: ArticleParameters,
    strategy: Strategy,
    *,
    driver: Driver = "pymongo",
    abandoned: Abandoned = "never",
    stop_with: Stop = "signal",
    window: float = 1.0,
    on_progress: Callable[[float], None] | None = None,
) -> FleetOutcome:
    """Play the scenario in real time, and return what its clients and its server measured.

    A process runs the fake with the article's service times, and is stopped by SIGSTOP or by its own pause;
    clients are tasks, which ask with `driver`: PyMongo in a thread for each, or the reference driver. They
    roll the dice of the model's clients, so that the same seed has the same gaps. `on_progress` hears the
    seconds that are over, after each window. Raises `ValueError` for a strategy that the driver does not
    have, and `OSError` if the server does not start.
    """
    scenario = _Scenario(
        parameters, strategy, driver, abandoned, stop_with, window, on_progress or (lambda _: None)
    )
    return asyncio.run(scenario.play())


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def asking(driver: Driver, uri: str, parameters: ArticleParameters, strategy: Strategy) -> Asking:
    """Return the clients of a run. Raises `ValueError` for a strategy that the driver does not have."""
    if driver == "reference":
        return ReferenceClients(uri, parameters, strategy)
    if strategy not in OF_THE_APPLICATION:
        raise ValueError(f"{strategy} is a strategy of the reference driver; PyMongo has no such option")
    from harness.sim.article.live_clients import PyMongoClients  # noqa: PLC0415 - PyMongo is slow to import

    return PyMongoClients(uri, parameters)


@dataclass
class _Scenario:
    """One run: its clients, its server's outage and the samples of its server, side by side."""

    own: ArticleParameters
    strategy: Strategy
    driver: Driver
    abandoned: Abandoned
    stop_with: Stop
    window: float
    on_progress: Callable[[float], None]

    async def play(self) -> FleetOutcome:
        """Play it to its end."""
        self._clock = SystemClock()
        self._measuring = Measuring(self.own.seconds, self.window)
        parameters = server_parameters(self.own, self.strategy, self.abandoned)
        async with LiveServer(parameters, self.stop_with) as server:
            clients = asking(self.driver, server.uri, self.own, self.strategy)
            self._began = self._clock.now()
            tasks = [asyncio.create_task(self._client(clients, number)) for number in range(self.own.clients)]
            tasks.append(asyncio.create_task(self._watch(server)))
            try:
                await self._outage(server)
                await _cancel(tasks)
                await self._look(server)
            finally:
                await _cancel(tasks)
                await clients.aclose()
        return self._measuring.outcome(self.own)

    @property
    def _now(self) -> float:
        return self._clock.now() - self._began

    async def _sleep_until(self, when: float) -> None:
        await self._clock.sleep_until(self._began + when)

    async def _outage(self, server: LiveServer) -> None:
        """Stop the server and have it go on, and tell of the progress."""
        due = {self.own.stops_at: server.stop, self.own.resumes_at: server.go_on}
        windows = (self.window * number for number in range(1, round(self.own.seconds / self.window) + 1))
        for when in sorted({*due, *windows, self.own.seconds}):
            await self._sleep_until(when)
            if when in due:
                await due[when]()
            self.on_progress(when)

    # The clients.

    async def _client(self, clients: Asking, number: int) -> None:
        """Wait a gap, ask until there is an answer, and so on."""
        dice = ClientDice(self.own.seed, number)
        while True:
            gap = self.own.mean_gap * dice.gap()
            await self._sleep_until(self._now + gap)
            await self._operation(partial(clients.ask, number), dice, gap)

    async def _operation(
        self, ask: Callable[[], Awaitable[LiveAttempt]], dice: ClientDice, gap: float
    ) -> None:
        measuring, began, failures, last = self._measuring, self._now, 0, gap
        measuring.offered(began)
        while True:
            measuring.started(self._now)
            attempt = await ask()
            now = self._now
            measuring.ended(attempt, now)
            if attempt is LiveAttempt.OK:
                measuring.succeeded(began, now)
                return
            failures += 1
            delay = self._delay(failures, last, dice)
            if delay is None:
                measuring.failed(now)
                return
            last = delay
            await self._sleep_until(now + delay)

    def _delay(self, failures: int, last: float, dice: ClientDice) -> float | None:
        """Return the wait before the next attempt, None where the application makes none."""
        if self.strategy is Strategy.EXPONENTIAL:
            return self.own.backoff(failures, last, dice.normal)
        retries = self.strategy in OF_THE_APPLICATION and self.strategy is not Strategy.NO_RETRY
        return self.own.simple_delay if retries else None

    # The server.

    async def _watch(self, server: LiveServer) -> None:
        """Look at the server in the middle of each window, unless it is stopped."""
        every = max(self.window, _LOOK_SECONDS)
        at = every / 2
        while True:
            await self._sleep_until(at)
            if not self.own.stops_at <= self._now < self.own.resumes_at:
                await self._look(server)
            at = max(at + every, self._now)

    async def _look(self, server: LiveServer) -> None:
        """Ask the server how many requests are at work, and the most so far. Raises `OSError`."""
        concurrency, peak = await server.work()
        self._measuring.level(self._now, concurrency, self.own.service_delay(concurrency), peak)


# Measurements of a live run: events as they happen, and windows of them at the end.

_COLUMN: Final = {
    LiveAttempt.OK: ("ok", "completed"),
    LiveAttempt.TIMED_OUT: ("timed_out", "abandoned"),
    LiveAttempt.REJECTED: ("errors", "rejected"),
    LiveAttempt.ERROR: ("errors",),
}
_ROUNDED_TO: Final = 3
"""Latencies are kept by the millisecond."""


@dataclass
class Measuring:
    """The measurements of a run of so many `seconds`, in windows of `window` seconds from its beginning.

    What happens beyond the end is not counted. A request whose client gave up counts as abandoned: nobody
    outside the server knows whether it was done already.
    """

    seconds: float
    window: float
    columns: dict[str, list[float]] = field(init=False)
    latencies: Counter[float] = field(default_factory=Counter)
    latency_sum: float = 0.0
    events: int = 0
    peak: int = 0
    """The most requests that have been at work at a time, as far as the server was asked."""

    def __post_init__(self) -> None:
        windows = max(round(self.seconds / self.window), 1)
        self.columns = {name: [0.0] * windows for name in COLUMNS}
        self.columns["time"] = [self.window * (number + 1) for number in range(windows)]

    def _count(self, name: str, at: float) -> None:
        number = int(at / self.window)
        if number < len(self.columns[name]):
            self.columns[name][number] += 1

    def offered(self, at: float) -> None:
        """Take note of an operation that begins."""
        self._count("offered", at)

    def started(self, at: float) -> None:
        """Take note of an attempt that begins."""
        self.events += 1
        self._count("started", at)

    def ended(self, attempt: LiveAttempt, at: float) -> None:
        """Take note of the end of an attempt."""
        self.events += 1
        for name in _COLUMN[attempt]:
            self._count(name, at)

    def succeeded(self, began: float, at: float) -> None:
        """Take note of an operation that succeeded, with its first attempt."""
        if at < self.seconds:
            self.latencies[round(at - began, _ROUNDED_TO)] += 1
            self.latency_sum += at - began

    def failed(self, at: float) -> None:
        """Take note of an operation that ended without success."""
        self._count("failed", at)

    def level(self, at: float, concurrency: int, delay: float, peak: int) -> None:
        """Take note of how things stand at the server, and of the most requests at work at a time so far.

        A peak that has grown was in this window or since the one before it that was asked in; in a window in
        which it has not grown, the requests of now are the most that is known. The largest of all windows is
        what the server counted at every arrival and departure, if it is asked at the end.
        """
        number = int(at / self.window)
        if number < len(self.columns["time"]):
            self.columns["concurrency"][number] = concurrency
            self.columns["delay"][number] = delay
        number = min(number, len(self.columns["time"]) - 1)
        most = peak if peak > self.peak else min(concurrency, self.peak)
        self.peak = max(peak, self.peak)
        self.columns["peak_concurrency"][number] = max(self.columns["peak_concurrency"][number], most)

    def outcome(self, parameters: ArticleParameters) -> FleetOutcome:
        """Return the windows and latencies. A live run has no trace: no two are alike."""
        return FleetOutcome(
            columns={name: tuple(values) for name, values in self.columns.items()},
            latencies=tuple(sorted(self.latencies.items())),
            window=self.window,
            latency_sum=self.latency_sum,
            events=self.events,
            outage=(parameters.stops_at, parameters.resumes_at),
        )
