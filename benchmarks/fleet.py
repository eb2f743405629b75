"""The model of a fleet: cost per client, and speed of each engine beside SimPy on the same model.

`python -m benchmarks.fleet` simulates the article's scenario (120 s, of which the server is stopped for 30)
with `--clients N` clients by each engine and in SimPy, in one process and one after the other, and then with
10^3 to 10^6 clients, each in a process of its own. `--most 1` leaves these out.
`--most 10000000` goes on to 10^7, which takes 1 GB, and `--plot FILE` draws the cost per client.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.report.pages import chart
from harness.report.pages.chart import Line, Panel
from harness.sim.fleet import simulate
from harness.sim.fleet.scenario import Closed, Outage, Scenario, Servers, Service
from harness.sim.fleet.strategies import Exponential, Fixed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from harness.sim.fleet.outcome import FleetOutcome
    from harness.sim.fleet.strategies import Strategy

_SECONDS, _STOP, _RESUME = 120.0, 30.0, 60.0
_GAP, _TIMEOUT = 10.0, 2.0
_KIB = 1024
_STRATEGIES: dict[str, Strategy] = {"fixed": Fixed(), "exponential": Exponential()}


def article(clients: int, strategy: Strategy) -> Scenario:
    """Return the article's scenario with a server that is as much larger as there are clients."""
    scale = clients / 1000
    service = Service(limit=round(30 * scale), k=15 * scale)
    return Scenario(
        clients=clients,
        seconds=_SECONDS,
        arrivals=Closed(gap=_GAP),
        fleet=((1, strategy),),
        servers=Servers(service=service, abandoned="never", backlog=round(128 * scale)),
        timeout=_TIMEOUT,
        outages=(Outage(start=_STOP, end=_RESUME),),
    )


def measure(clients: int, strategy: str) -> dict[str, Any]:
    """Simulate once in this process; the compiled engine is loaded before the clock runs."""
    began = time.perf_counter()
    simulate(article(10, _STRATEGIES[strategy]), engine="compiled")
    loaded = time.perf_counter()
    cpu = time.process_time()
    outcome = simulate(article(clients, _STRATEGIES[strategy]), engine="compiled")
    return {
        "clients": clients,
        "strategy": strategy,
        "load_s": loaded - began,
        "wall_s": time.perf_counter() - loaded,
        "cpu_s": time.process_time() - cpu,
        "peak_mib": peak_kib() / _KIB,
        "attempts": outcome.total("started"),
        "events": outcome.events,
        "recovery_s": outcome.recovery_time(_RESUME),
    }


def peak_kib() -> float:
    """Return the most memory that this process had; what its parent had before the fork does not count."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return float(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def apart(clients: int, strategy: str) -> dict[str, Any]:
    """Measure in a new process."""
    command = [sys.executable, "-m", "benchmarks.fleet", "--one", str(clients), "--strategy", strategy]
    output = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own
    found: dict[str, Any] = json.loads(output.stdout)
    return found


class SimpyModel:
    """The same scenario as processes of SimPy: one for each client, one for each request at the server."""

    def __init__(self, clients: int) -> None:
        import simpy  # noqa: PLC0415 - it may be missing

        self.env = simpy.Environment()
        self.scenario = article(clients, Exponential())
        self.concurrency = self.peak = self.backlog = self.attempts = 0
        self.given_up: set[Any] = set()
        self.resumed = self.env.timeout(_RESUME)
        self.dice = random.Random(0)  # noqa: S311 - a model's dice
        for _ in range(clients):
            self.env.process(self.client())

    @property
    def stands(self) -> bool:
        """Whether the server stands still."""
        return _STOP <= self.env.now < _RESUME

    def delay(self) -> float:
        """Return the service time now, in seconds."""
        own = self.scenario.servers.service
        beyond = max(self.concurrency - own.limit, 0) / own.k
        return own.base * math.exp(min(beyond * math.log(own.factor), 100.0))

    def client(self) -> Generator[Any, Any, None]:
        """Ask, with exponential backoff."""
        own = Exponential()
        while True:
            yield self.env.timeout(self.dice.expovariate(1 / _GAP))
            wait = own.minimum
            while True:
                answer = self.env.event()
                self.attempts += 1
                self.env.process(self.serve(answer))
                ended = yield answer | self.env.timeout(_TIMEOUT)
                if answer in ended:
                    break
                self.given_up.add(answer)
                yield self.env.timeout(max(wait, 0.0))
                wait = min(wait * own.factor, own.maximum)
                wait += self.dice.gauss(0, own.jitter * wait)

    def serve(self, answer: Any) -> Generator[Any, Any, None]:
        """Work on a request, whoever waits for it."""
        if self.stands:
            yield self.resumed
            if answer in self.given_up:
                if self.backlog >= self.scenario.servers.backlog:
                    return
                self.backlog += 1
        self.concurrency += 1
        self.peak = max(self.peak, self.concurrency)
        began = self.env.now
        while self.env.now - began <= self.delay():
            yield self.env.timeout(self.scenario.servers.service.recompute)
            if self.stands:
                yield self.resumed
        self.concurrency -= 1
        answer.succeed()


def beside_simpy(clients: int) -> Iterator[dict[str, Any]]:
    """Yield attempts a second of CPU of one scenario by each engine, in this process, one after the other.

    Without SimPy its row is missing. `times_plain` says how often as fast as plain Python an engine is.
    """
    scenario = article(clients, Exponential())
    simulate(article(10, Exponential()), engine="compiled")  # loads it
    engines: dict[str, Callable[[], tuple[float, float]]] = {
        "plain": lambda: _played(simulate(scenario, engine="plain")),
        "compiled": lambda: _played(simulate(scenario, engine="compiled")),
    }
    if find_spec("simpy"):
        engines["simpy"] = lambda: _by_simpy(clients)
    plain = 0.0
    for engine, run in engines.items():
        began = time.process_time()
        attempts, peak = run()
        cpu = time.process_time() - began
        plain = plain or attempts / cpu
        yield {
            "engine": engine,
            "clients": clients,
            "attempts": attempts,
            "cpu_s": cpu,
            "attempts_per_s": attempts / cpu,
            "times_plain": attempts / cpu / plain,
            "peak_concurrency": peak,
        }


def _played(outcome: FleetOutcome) -> tuple[float, float]:
    return outcome.total("started"), outcome.peak_concurrency


def _by_simpy(clients: int) -> tuple[float, float]:
    model = SimpyModel(clients)
    model.env.run(_SECONDS)
    return model.attempts, model.peak


def plot(path: str, costs: Sequence[dict[str, Any]]) -> None:
    """Draw CPU time per client, and memory per client, on logarithmic scales."""
    measured: tuple[tuple[str, str, Callable[[dict[str, Any]], float]], ...] = (
        ("CPU time per client", "µs", lambda row: row["cpu_s"] / row["clients"] * 1e6),
        ("Peak memory per client", "KiB", lambda row: row["peak_mib"] * _KIB / row["clients"]),
    )
    panels = [
        Panel(
            title=title,
            x="clients",
            y=unit,
            lines=[
                Line(
                    strategy,
                    [(row["clients"], cost(row)) for row in costs if row["strategy"] == strategy],
                    chart.SERIES[number],
                    dash=number,
                    dots=True,
                )
                for number, strategy in enumerate(_STRATEGIES)
            ],
            x_kind="log",
            y_kind="log",
        )
        for title, unit, cost in measured
    ]
    Path(path).write_text(chart.file(panels, title="The cost of a simulated client", columns=2))


def main() -> None:
    """Print what was measured, as lines of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=10**6)
    parser.add_argument("--clients", type=int, default=5000)
    parser.add_argument("--plot")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--strategy", choices=list(_STRATEGIES), default="fixed", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.strategy)))
        return
    for row in beside_simpy(options.clients):
        print(json.dumps(row), flush=True)
    if not find_spec("simpy"):
        print("SimPy is not installed: it is not compared (pip install simpy)")
    costs = []
    for clients in (10**power for power in range(3, 1 + int(math.log10(options.most) + 0.5))):
        for strategy in _STRATEGIES:
            costs.append(apart(clients, strategy))
            print(json.dumps(costs[-1]), flush=True)
    if options.plot:
        plot(options.plot, costs)


if __name__ == "__main__":
    main()
