"""Trials of throughput probing: the best concurrency from below and from above, in virtual time.

A workload runs against a server whose best concurrency is known, and tickets and throughput are measured
where they settle, in the last third. The same happens under a load that never lets up, with far more clients
than tickets, from above the best: by the specified rule, and by that of newer servers, which compare pool by
pool (`throughputProbingComparesPools`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.overload.probing import ProbingTrial, settled
from harness.report import plots
from harness.running import interruption
from harness.sim import run_virtual

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.overload.probing import ProbePoint
    from harness.sim import World

STARTS: Final = (10, 40, 80)
_PRESSED_STARTS: Final = (80, 160)
_PRESSED_CLIENTS: Final = 200
_SETTLED_AFTER: Final = 2 / 3


def trials(starts: Sequence[int], seconds: float) -> list[ProbingTrial]:
    """Return the trials with about as many clients as the best concurrency; `starts` are tickets."""
    return [ProbingTrial(start=start, seconds=seconds) for start in starts]


def run(trials: Sequence[ProbingTrial]) -> list[Sequence[ProbePoint]]:
    """Run trials one after the other. Raises `Interrupted`."""
    return [_run(trial) for trial in trials]


def _run(trial: ProbingTrial, *, pressed: bool = False) -> Sequence[ProbePoint]:
    async def main(world: World) -> Sequence[ProbePoint]:
        if pressed:
            return await interruption.heard(trial.run_pressed(world.clock))
        return await interruption.heard(trial.run(network=world.network, clock=world.clock, rng=world.rng))

    with interruption.cancelling():
        return run_virtual(main)


def report(
    trials: Sequence[ProbingTrial], runs: Sequence[Sequence[ProbePoint]], *, seconds: float
) -> dict[str, Any]:
    """Return where trials settled, and those under a load that never lets up, as a document of numbers."""
    pressed = [
        ProbingTrial(start=start, clients=_PRESSED_CLIENTS, seconds=seconds, compares_pools=compares_pools)
        for compares_pools in (False, True)
        for start in _PRESSED_STARTS
    ]
    return _settled(trials, runs) | {
        "pressed": _settled(pressed, [_run(trial, pressed=True) for trial in pressed])
    }


def _settled(trials: Sequence[ProbingTrial], runs: Sequence[Sequence[ProbePoint]]) -> dict[str, Any]:
    first = trials[0]
    rows = [_row(trial, points) for trial, points in zip(trials, runs, strict=True)]
    return {"best": first.best, "clients": first.clients, "seconds": first.seconds, "trials": rows}


def _row(trial: ProbingTrial, points: Sequence[ProbePoint]) -> dict[str, Any]:
    tickets, throughput = settled(points, trial.seconds * _SETTLED_AFTER)
    return {
        "start": trial.start,
        "rule": "pool by pool" if trial.compares_pools else "as specified",
        "tickets": tickets,
        "of_best": tickets / trial.best,
        "throughput": throughput,
        "of_best_throughput": throughput / trial.best_throughput,
    }


def table(report: Mapping[str, Any]) -> str:
    """Return a report as text, with that of the load that never lets up if it has one."""
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
    if "pressed" in report:
        lines += ["", "under a load that never lets up", table(report["pressed"])]
    return "\n".join(lines)


def picture(trials: Sequence[ProbingTrial], runs: Sequence[Sequence[ProbePoint]]) -> str:
    """Return an SVG of tickets and throughput over time. Raises `MissingPlotsError`."""
    best, most = trials[0].best, trials[0].best_throughput

    def draw(panels: Any) -> None:
        tickets, throughput = panels
        for colour, trial, points in zip(plots.COLOURS, trials, runs, strict=False):
            times, name = [each.at for each in points], f"from {trial.start}"
            tickets.plot(times, [each.tickets for each in points], label=name, color=colour)
            throughput.plot(times, [each.throughput for each in points], label=name, color=colour)
        for axes, value in ((tickets, best), (throughput, most)):
            axes.axhline(value, color="black", linewidth=0.8, linestyle=":", label="best")
            axes.set(xlabel="seconds", ylim=(0, None))
            axes.legend(fontsize="small", loc="lower right")
        tickets.axhspan(best * 0.75, best * 1.25, color="grey", alpha=0.15)
        tickets.set_ylabel("tickets of both pools")
        throughput.axhspan(most * 0.9, most * 1.1, color="grey", alpha=0.15)
        throughput.set_ylabel("operations per second")

    return plots.svg(draw, columns=2)
