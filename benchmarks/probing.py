"""Whether throughput probing finds the best concurrency: from below and from above, in virtual time.

`python -m benchmarks.probing` runs a workload against a server whose best concurrency is known, and prints
where tickets and throughput settle in the last third; then the same under a load that never lets up, with far
more clients than tickets, from above the best, by the specified rule and by that of newer servers, which
compare pool by pool (`throughputProbingComparesPools`). `--plot FILE` draws the way there (extra `plots`).
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from harness.overload.probing import ProbingTrial, settled
from harness.sim import run_virtual

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.overload.probing import Point

_STARTS = (10, 40, 80)
_PRESSED_STARTS = (80, 160)
_PRESSED_CLIENTS = 200
_SETTLED_AFTER = 2 / 3


def run(trials: Sequence[ProbingTrial]) -> list[Sequence[Point]]:
    """Run trials one after the other."""
    return [
        run_virtual(
            lambda world, trial=trial: trial.run(network=world.network, clock=world.clock, rng=world.rng)  # type: ignore[misc]
        )
        for trial in trials
    ]


def pressed_trials(seconds: float) -> list[ProbingTrial]:
    """Return the trials with more clients than any number of tickets can serve."""
    return [
        ProbingTrial(start=start, clients=_PRESSED_CLIENTS, seconds=seconds, compares_pools=compares_pools)
        for compares_pools in (False, True)
        for start in _PRESSED_STARTS
    ]


def report(trials: Sequence[ProbingTrial], runs: Sequence[Sequence[Point]]) -> dict[str, Any]:
    """Return where they settled, in numbers."""
    first = trials[0]
    rows = [_row(trial, points) for trial, points in zip(trials, runs, strict=True)]
    return {"best": first.best, "clients": first.clients, "seconds": first.seconds, "trials": rows}


def _row(trial: ProbingTrial, points: Sequence[Point]) -> dict[str, Any]:
    tickets, throughput = settled(points, trial.seconds * _SETTLED_AFTER)
    return {
        "start": trial.start,
        "rule": "pool by pool" if trial.compares_pools else "as specified",
        "tickets": tickets,
        "of_best": tickets / trial.best,
        "throughput": throughput,
        "of_best_throughput": throughput / trial.best_throughput,
    }


def table(report: dict[str, Any]) -> str:
    """Return a report as text."""
    best, clients, seconds = report["best"], report["clients"], report["seconds"]
    lines = [
        f"best concurrency {best}, {clients} clients, {seconds:g} s of virtual time",
        f"{'start':>8}{'rule':>14}{'tickets':>10}{'of best':>10}{'operations/s':>16}{'of best':>10}",
    ]
    lines += [
        f"{row['start']:8}{row['rule']:>14}{row['tickets']:10.1f}{row['of_best']:10.1%}"
        f"{row['throughput']:16,.0f}{row['of_best_throughput']:10.1%}"
        for row in report["trials"]
    ]
    return "\n".join(lines)


def draw(path: str, trials: Sequence[ProbingTrial], runs: Sequence[Sequence[Point]]) -> None:
    """Draw tickets and throughput over time."""
    from benchmarks.plots import figure  # noqa: PLC0415 - an extra that only this needs

    best, most = trials[0].best, trials[0].best_throughput
    with figure(path, panels=2) as (tickets, throughput):
        for trial, points in zip(trials, runs, strict=True):
            times, name = [each.at for each in points], f"from {trial.start}"
            tickets.plot(times, [each.tickets for each in points], label=name)
            throughput.plot(times, [each.throughput for each in points], label=name)
        for axes, value in ((tickets, best), (throughput, most)):
            axes.axhline(value, color="black", linewidth=0.8, linestyle=":", label="best")
            axes.set(xlabel="seconds", ylim=(0, None))
            axes.legend(fontsize="small", loc="lower right")
        tickets.axhspan(best * 0.75, best * 1.25, color="grey", alpha=0.15)
        tickets.set_ylabel("tickets of both pools")
        throughput.axhspan(most * 0.9, most * 1.1, color="grey", alpha=0.15)
        throughput.set_ylabel("operations per second")


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.probing", description=__doc__)
    parser.add_argument("--starts", type=int, nargs="+", default=list(_STARTS), help="tickets to begin with")
    parser.add_argument("--seconds", type=float, default=40.0, help="virtual time of each trial")
    parser.add_argument("--plot", metavar="FILE", help="draw into an SVG file as well")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    trials = [ProbingTrial(start=start, seconds=options.seconds) for start in options.starts]
    runs = run(trials)
    if options.plot:
        draw(options.plot, trials, runs)
    found = report(trials, runs)
    pressed = pressed_trials(options.seconds)
    found["pressed"] = report(pressed, [trial.run_pressed() for trial in pressed])
    text = f"{table(found)}\n\nunder a load that never lets up\n{table(found['pressed'])}"
    print(json.dumps(found, indent=2) if options.json else text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
