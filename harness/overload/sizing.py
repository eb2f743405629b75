"""The rate for a server's request rate limiter, from what its operator knows: by trial, on a simulated fleet.

Every candidate is played with several seeds, at the capacity that the operator names and at one that is lower
by a margin, for nobody knows it exactly. The lowest rate whose worst run answers nearly as much as that of
any is the advice: a higher one only lengthens the queue. A large deployment is played at a smaller size with
the same load for each of its parts, so that the question takes seconds: chance then weighs more than it
would, and the interval that is told is rather too wide.

`Deployment` is the question and makes scenarios of `harness.sim.fleet`; `measure` plays the runs on an
executor, and `Sizing` is the answer in every form: document, sentences, bars, charts, a page. `runs` has an
order, and the results are put back into it, so that the answer does not depend on which process was first.

The model: one server with `capacity * latency` workers, service times spread exponentially around a base
that gives that capacity, as many tickets as workers, clients whose load comes from outside and does not wait
for answers, and rejections that cost nothing. docs/ROLLOUT.md, "What the simulation does not know", tells
operators so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from harness.overload.policy.advice import burst_of
from harness.report.pages import chart, frame
from harness.report.pages.chart import Instant, Level, Line, Panel, Span
from harness.report.pages.markup import escaped
from harness.running.cluster import as_they_end, result_of
from harness.sim.article.parameters import Strategy
from harness.sim.fleet import simulate, strategies
from harness.sim.fleet.scenario import RequestLimit, Scenario, Servers, Service, Spike

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor

CLIENTS_DO: Final[Mapping[str, strategies.Strategy]] = {
    str(Strategy.BACKPRESSURE_JULY): strategies.Backpressure(edition="2026-07-08"),
    str(Strategy.BACKPRESSURE_FEBRUARY): strategies.Backpressure(edition="2026-02-20", token_bucket=False),
    str(Strategy.NO_RETRY): strategies.NoRetry(),
}
"""What clients do after an error, by the names of `simulate article`."""

_SHARES: Final = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.1)
"""The candidates, as parts of the capacity."""
_PLAYED: Final = 100.0
"""Operations a second of the largest server that is played at its full size."""
# The peak lasts long enough for a queue to grow past the clients' timeout and stay there, and the time after
# it for one to drain: both are so many timeouts, or so many seconds where clients wait for less.
_BEFORE_SECONDS: Final = 5.0
_PEAK_SECONDS: Final = 20.0
_PEAK_TIMEOUTS: Final = 8
_AFTER_SECONDS: Final = 10.0
_AFTER_TIMEOUTS: Final = 4
# The model moves in ticks: ten to a service time, so that rounding weighs little, within bounds that keep a
# run short.
_TICKS_OF_A_SERVICE: Final = 10
_TICK_BOUNDS: Final = (0.001, 0.005)
_ENOUGH: Final = 0.95
"""A part of the best goodput that is as good; and of what is asked for, where nothing is amiss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The facts that an operator knows of a server and its clients. Rates are a second, times are seconds.

    `clients` may each have one operation under way. `timeout` is how long they wait for an answer, `latency`
    how long one takes while the server is not busy. `usual` operations are asked for before and after the
    `peak`. The capacity may be less by the part `margin`. `clients_do` is a name of `CLIENTS_DO`. To refuse
    costs nothing. Raises `ValueError` for what cannot be.
    """

    capacity: float
    peak: float
    clients: int
    timeout: float
    usual: float
    latency: float = 0.01
    margin: float = 0.1
    clients_do: str = str(Strategy.BACKPRESSURE_JULY)

    def __post_init__(self) -> None:
        if self.peak < self.usual:
            raise ValueError(f"the peak, {self.peak:g}/s, is below what is usual, {self.usual:g}/s")
        if self.latency >= self.timeout:
            raise ValueError(
                f"an operation takes {self.latency:g} s while the server is not busy, and clients wait for"
                f" {self.timeout:g} s: none would be answered in time"
            )

    @property
    def size(self) -> float:
        """The part of it that is played."""
        return min(1.0, _PLAYED / self.capacity)

    @property
    def peak_ends(self) -> float:
        return _BEFORE_SECONDS + max(_PEAK_SECONDS, _PEAK_TIMEOUTS * self.timeout)

    @property
    def seconds(self) -> float:
        return self.peak_ends + max(_AFTER_SECONDS, _AFTER_TIMEOUTS * self.timeout)

    def scenario(self, rate: float | None, capacity: float, seed: int) -> Scenario:
        """Return it at its played size, with a limiter of that rate (None: without one)."""
        size = self.size
        # Little's law: so many are under way when a server without a queue answers its capacity. They come
        # from the capacity that was named, and the one that is played only stretches their time.
        workers = max(1, round(self.capacity * self.latency * size))
        base = workers / (capacity * size)
        limit = None
        if rate is not None:
            limit = RequestLimit(rate=rate * size, burst_seconds=burst_of(rate * size))
        least, most = _TICK_BOUNDS
        return Scenario(
            clients=max(1, round(self.clients * size)),
            seconds=self.seconds,
            arrivals=Spike(
                rate=self.usual * size,
                factor=self.peak / self.usual,
                start=_BEFORE_SECONDS,
                end=self.peak_ends,
            ),
            fleet=((1.0, CLIENTS_DO[self.clients_do]),),
            servers=Servers(
                service=Service(
                    workers=workers,
                    base=base,
                    recompute=0,
                    spread="exponential",
                ),
                tickets=workers,
                request_limit=limit,
            ),
            timeout=self.timeout,
            seed=seed,
            tick=min(most, max(least, round(base / _TICKS_OF_A_SERVICE, 3))),
        )


@dataclass(frozen=True, slots=True)
class LimiterRun:
    """A run with one rate (None: no limiter): goodput a second at the peak and in the end, in full size.

    `p99` is the latency that 99 of 100 successes did not exceed, None without a success; `failed` the part of
    the operations that did. `answered` are the successes a second by second.
    """

    rate: int | None
    capacity: float
    goodput: float
    afterwards: float
    p99: float | None
    failed: float
    answered: tuple[float, ...] = ()


def run(deployment: Deployment, rate: int | None, capacity: float, seed: int) -> LimiterRun:
    """Play one run."""
    # A run has some thousand operations: too few to load a compiler in every process of the executor.
    outcome = simulate(deployment.scenario(rate, capacity, seed), engine="plain")
    # The first of the peak are answered whatever comes: a queue takes a timeout to grow.
    settled = min(_BEFORE_SECONDS + 2 * deployment.timeout, deployment.peak_ends - _PEAK_SECONDS / 2)
    # Recovery is judged in the second half of what is left: the first may still drain a queue.
    middle = (deployment.peak_ends + deployment.seconds) / 2
    p99 = outcome.percentile(0.99)
    failed, offered = outcome.total("failed"), outcome.total("offered")
    return LimiterRun(
        rate,
        capacity,
        outcome.goodput(math.ceil(settled), deployment.peak_ends) / deployment.size,
        outcome.goodput(math.ceil(middle), deployment.seconds) / deployment.size,
        p99 if math.isfinite(p99) else None,
        failed / offered if offered else 0.0,
        tuple(ok / deployment.size for ok in outcome.columns["ok"]),
    )


def runs(deployment: Deployment, seeds: int) -> list[tuple[int | None, float, int]]:
    """Return what is to be played: each rate at both capacities with each seed."""
    rates = sorted({max(1, round(deployment.capacity * share)) for share in _SHARES})
    # Without a margin both are the same, and each run is played once.
    capacities = sorted({deployment.capacity, deployment.capacity * (1 - deployment.margin)}, reverse=True)
    return [(rate, able, seed) for rate in (None, *rates) for able in capacities for seed in range(seeds)]


def measure(
    deployment: Deployment, seeds: int, executor: Executor, on_run: Callable[[], object] = lambda: None
) -> Sizing:
    """Play all runs on an executor; `on_run` hears of each that has ended. Raises `Interrupted`."""
    wanted = runs(deployment, seeds)
    futures = {executor.submit(run, deployment, *each): place for place, each in enumerate(wanted)}
    played: dict[int, LimiterRun] = {}
    for future, place in as_they_end(futures):
        played[place] = result_of(future)
        on_run()
    return Sizing(deployment, seeds, [played[place] for place in range(len(wanted))])


@dataclass(frozen=True, slots=True)
class Candidate:
    """The runs with one rate."""

    rate: int | None
    runs: Sequence[LimiterRun]

    @property
    def name(self) -> str:
        return "none" if self.rate is None else f"{self.rate:,}"

    @property
    def worst(self) -> float:
        """The least goodput at the peak."""
        return min(each.goodput for each in self.runs)

    @property
    def best(self) -> float:
        return max(each.goodput for each in self.runs)

    @property
    def mean(self) -> float:
        return fmean(each.goodput for each in self.runs)

    @property
    def failed(self) -> float:
        return fmean(each.failed for each in self.runs)

    @property
    def afterwards(self) -> float:
        """The least goodput after the peak."""
        return min(each.afterwards for each in self.runs)

    @property
    def p99(self) -> float | None:
        """The longest of the runs' latencies, None if one of them had no success."""
        known = [each.p99 for each in self.runs if each.p99 is not None]
        return max(known) if len(known) == len(self.runs) else None

    @property
    def interval(self) -> str:
        return f"{_whole(self.worst)} to {_whole(self.best)}"


@dataclass(frozen=True, slots=True)
class Sizing:
    """The outcome of all runs, and the advice."""

    deployment: Deployment
    seeds: int
    runs: Sequence[LimiterRun]

    @property
    def candidates(self) -> list[Candidate]:
        """The runs by their rate; the first is without a limiter."""
        rates = dict.fromkeys(each.rate for each in self.runs)
        return [Candidate(rate, [each for each in self.runs if each.rate == rate]) for rate in rates]

    @property
    def without(self) -> Candidate:
        return self.candidates[0]

    @property
    def near(self) -> list[Candidate]:
        """The rates whose worst run answers nearly as much as that of any."""
        enough = _ENOUGH * max(each.worst for each in self.candidates[1:])
        return [each for each in self.candidates[1:] if each.worst >= enough]

    @property
    def advised(self) -> Candidate:
        """The lowest of the rates that are near; where none is needed the highest, which refuses least."""
        return self.near[0 if self.is_needed else -1]

    @property
    def rate(self) -> int:
        """The advised rate."""
        return self.advised.rate or 0

    @property
    def is_needed(self) -> bool:
        """Whether the server without a limiter answers less, at the peak or after it."""
        bare, limited = self.without, self.near
        usual = min(self.deployment.usual, limited[0].afterwards)
        most = max(each.worst for each in limited)
        return bare.worst < _ENOUGH * most or bare.afterwards < _ENOUGH * usual

    def to_document(self) -> dict[str, Any]:
        """Return it as a document of plain values; rates are a second, times are seconds."""
        own = self.deployment
        return {
            "deployment": {name: getattr(own, name) for name in own.__dataclass_fields__},
            "seeds": self.seeds,
            "size": own.size,
            "needed": self.is_needed,
            "rate": self.rate,
            "burstSeconds": burst_of(self.rate),
            "nearlyAsGood": [each.rate for each in self.near],
            "why": self.reasons(),
            "candidates": [
                {
                    "rate": each.rate,
                    "goodput": {"least": each.worst, "mean": each.mean, "most": each.best},
                    "afterwards": each.afterwards,
                    "p99": each.p99,
                    "failed": each.failed,
                }
                for each in self.candidates
            ],
        }

    # In words

    def setting(self) -> str:
        """Return what was played, as a sentence."""
        own = self.deployment
        size = "" if own.size == 1 else f" at 1/{1 / own.size:.3g} of its size"
        return (
            f"{own.clients:,} clients that wait for {_time(own.timeout)} ({own.clients_do}) ask a server of"
            f" {_whole(own.capacity)} operations/s for {_whole(own.usual)}/s, at the peak for"
            f" {_whole(own.peak)}/s. Simulated{size}, {self.seeds} seeds at that capacity and"
            f" {self.seeds} at {own.margin:.0%} less; to refuse costs nothing."
        )

    def verdict(self) -> str:
        """Return what to set, as the first part of a sentence that its reasons end."""
        rate = f"ingressRequestAdmissionRatePerSec to {self.rate:,}"
        burst = f"ingressRequestAdmissionBurstCapacitySecs to {burst_of(self.rate):g}"
        if self.is_needed:
            return f"Set {rate} and {burst}, because"
        return "Leave the request rate limiter off, because"

    def reasons(self) -> list[str]:
        """Return why, a clause each."""
        return list(self._why_set() if self.is_needed else self._why_not())

    def _why_set(self) -> Iterator[str]:
        own, bare, best = self.deployment, self.without, self.advised
        yield (
            f"without a limit {bare.interval} operations/s are answered in time at the peak: the others wait"
            f" for longer than the clients' {_time(own.timeout)}, and the server works for clients that have"
            " gone"
        )
        if bare.afterwards < _ENOUGH * min(own.usual, best.afterwards):
            answered = f"{_whole(bare.afterwards)} of {_whole(own.usual)}/s"
            yield f"after the peak it stays so: {answered} are answered in the worst run"
        yield f"at {best.rate:,} it answers {best.interval}/s, 99 of 100 of them within {_said(best.p99)}"
        others = [each.rate or 0 for each in self.near]
        if len(others) > 1:
            yield (
                f"up to {max(others):,} the worst run has nearly the same, with a longer queue:"
                f" {_said(self.near[-1].p99)} at {max(others):,}"
            )
        higher = [each for each in self.candidates[1:] if (each.rate or 0) > max(others)]
        if higher and higher[-1].worst < _ENOUGH * best.worst:
            failing = next(each for each in higher if each.worst < _ENOUGH * best.worst)
            yield (
                f"a limit of {failing.rate:,} is too high if the capacity is {own.margin:.0%} less than you"
                f" say: then as few as {_whole(failing.worst)}/s are answered"
            )
        yield (
            f"{best.failed:.0%} of all operations fail with it, {bare.failed:.0%} without: a limit saves the"
            " server, not the operations beyond its capacity. For these it takes more capacity, or clients"
            " that ask for less"
        )

    def _why_not(self) -> Iterator[str]:
        own, bare, best = self.deployment, self.without, self.advised
        yield (
            f"without it {bare.interval} operations/s are answered in time at the peak, 99 of 100 of them"
            f" within {_said(bare.p99)}, and no limit has more of them answered"
        )
        able = own.capacity * (1 - own.margin)
        if own.peak <= able:
            yield f"the peak of {_whole(own.peak)}/s is below the capacity, {own.margin:.0%} less included"
        elif own.clients / able < own.timeout:
            yield (
                f"no more than {own.clients:,} operations can wait at a time, which takes the server"
                f" {_time(own.clients / able)}, and the clients wait for {_time(own.timeout)}"
            )
        yield (
            f"as an insurance against more clients or a slower server {best.rate:,}/s would do:"
            f" {best.interval} operations/s are answered with it, and {best.failed:.0%} of all fail"
        )

    def commands(self) -> list[str]:
        """Return what sets the advised rate: on a server, and on a fake one."""
        burst = burst_of(self.rate)
        parameters = (
            f"ingressRequestAdmissionRatePerSec: {self.rate},"
            f" ingressRequestAdmissionBurstCapacitySecs: {burst:g}, ingressRequestRateLimiterEnabled: true"
        )
        return [
            f"db.adminCommand({{setParameter: 1, {parameters}}})",
            f"pushbackd limits --requests {self.rate}/s --requests-burst {burst * 1000:g}ms",
        ]

    def rows(self) -> list[tuple[str, ...]]:
        """Return a row of texts for each candidate, under `HEADINGS`."""
        return [
            (
                each.name,
                _whole(each.worst),
                _whole(each.mean),
                _whole(each.best),
                _said(each.p99),
                f"{each.failed:.0%}",
            )
            for each in self.candidates
        ]

    def bars(self, width: int) -> list[str]:
        """Return the picture for a terminal, not wider than `width`: a bar for each candidate.

        It is full to the worst run, and shaded to the best.
        """
        candidates, advised = self.candidates, self.advised.rate
        most = max(each.best for each in candidates) or 1.0
        name = max(len(each.name) for each in candidates)
        told = max(len(each.interval) for each in candidates)
        room = max(8, min(50, width - name - told - 4))
        lines = []
        for each in candidates:
            full, shaded = round(each.worst / most * room), round(each.best / most * room)
            bar = "█" * full + "░" * (shaded - full)
            mark = ">" if each.rate == advised and self.is_needed else " "
            lines.append(f"{mark} {each.name:>{name}} {bar:{room}} {each.interval}".rstrip())
        return lines

    # As a picture

    def panels(self) -> list[Panel]:
        """Return the charts: goodput by limit, and over time with the advised limit and without."""
        own, limited, bare = self.deployment, self.candidates[1:], self.without
        advised = self.advised

        def line(name: str, number_of: Callable[[Candidate], float], place: int) -> Line:
            points = [(float(each.rate or 0), number_of(each)) for each in limited]
            return Line(name, points, chart.SERIES[place], dash=place, dots=place == 0)

        def over_time(name: str, of: Candidate, place: int) -> Line:
            points = [(float(at), answered) for at, answered in enumerate(of.runs[0].answered, 1)]
            return Line(name, points, chart.SERIES[place], dash=place)

        return [
            Panel(
                title="Goodput at the peak, by the limit",
                x="limit, requests per second",
                y="operations per second",
                lines=[
                    line("worst run", lambda each: each.worst, 0),
                    line("mean", lambda each: each.mean, 1),
                    line("best run", lambda each: each.best, 2),
                ],
                instants=[Instant(float(advised.rate or 0), f"{advised.rate:,}", good=True)],
                levels=[Level(bare.mean, "without a limit")],
                x_least=float(limited[0].rate or 0),
                x_most=float(limited[-1].rate or 0),
            ),
            Panel(
                title="Goodput over time",
                x="seconds",
                y="operations per second",
                lines=[
                    over_time(f"limit {advised.rate:,}", advised, 0),
                    over_time("no limit", bare, 1),
                ],
                spans=[Span(_BEFORE_SECONDS, own.peak_ends, "peak")],
                levels=[Level(own.capacity, "capacity")],
                x_least=0.0,
                x_most=own.seconds,
            ),
        ]

    def picture(self) -> str:
        """Return the charts as an SVG file."""
        return chart.file(self.panels(), title=_TITLE, columns=2)

    def page(self) -> str:
        """Return the page: what to set and why, the charts, and all candidates."""
        because = "".join(f"<li>{escaped(reason)}</li>" for reason in self.reasons())
        commands = "\n".join(self.commands())
        return frame.page(
            _TITLE,
            [
                frame.section(
                    "What to set",
                    frame.paragraph(self.verdict()),
                    f"<ul>{because}</ul>\n",
                    f"<pre>{escaped(commands)}</pre>\n",
                ),
                frame.section("By trial", frame.panels(self.panels(), title=_TITLE)),
                frame.section(
                    "All limits that were tried",
                    frame.table(HEADINGS, self.rows(), caption="Goodput at the peak by the limit"),
                ),
            ],
            facts=self.setting(),
        )


_TITLE: Final = "A rate for the request rate limiter"
HEADINGS: Final = ("limit", "worst run", "mean", "best run", "p99", "failed")
"""The headings of `Sizing.rows`: goodput at the peak a second, and the latency and failures of all time."""


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.3g} s"


def _said(seconds: float | None) -> str:
    return "never" if seconds is None else _time(seconds)
