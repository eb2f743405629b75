"""Schedules drawn from a seed: the same seed gives the same one, in every process.

The text of a schedule is what is kept, of the ones that failed once as of those that show a planted fault; a
seed only means something until the draws change. Draws are in the order of the arguments of `Schedule(…)`,
so a new one goes into a function of its own with dice of its own, as `_with_scans` does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from harness.sim.swarm.schedule import (
    APART,
    EDITIONS,
    FAULTS,
    LEVELS,
    MONITORING,
    MOST_CLIENTS,
    ON_A_SET,
    READS,
    WORK,
    Dice,
    Schedule,
    ScheduledFault,
    targets_of,
)
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from harness.sim.swarm.schedule import FaultKind

LEAST_OPERATIONS: Final = 50
"""Operations of a drawn schedule at least, all clients together."""
LEAST_KINDS: Final = 3
"""Kinds of fault in a drawn schedule at least."""
_DENSE: Final = ("push", "read_list", "write", "read", "scan")
"""Work of which much is about the same documents."""
_DRAWN: Final = (
    *("single",) * 2,
    *("replicaset3",) * 5,
    "replicaset5",
    *("sharded",) * 2,
    "load-balanced",
)
"""The topologies as often as they are drawn: mostly the one that has elections and is quick to start."""


def draw(seed: int) -> Schedule:
    """Return the schedule of a seed: at least 50 operations, and at least three kinds of fault."""
    dice = Dice(SeededRng(seed, "schedule"))
    topology = dice.one(_DRAWN)
    clients = _clients(dice)
    operations = -(-dice.number(LEAST_OPERATIONS, LEAST_OPERATIONS + 6) // clients)
    seconds = dice.number(3, 6)
    known = tuple(kind for kind in WORK if kind != "scan")
    fitting = known if topology != "single" else tuple(kind for kind in known if kind not in ON_A_SET)
    work = dice.some(fitting, 3)
    schedule = Schedule(
        seed=seed,
        topology=topology,
        clients=clients,
        operations=operations,
        gap=1000 * seconds // operations,
        workers=dice.number(1, 2),
        work=work,
        edition=dice.one(EDITIONS),
        # A change stream has a connection for itself most of the time.
        pool=("stream" in work) + (dice.number(1, 3) if dice.chance(0.3) else dice.number(4, 20)),
        retry=dice.chance(0.8),
        adaptive=dice.chance(0.5),
        timeout=dice.number(3, 30) * 100 if dice.chance(0.5) else 0,
        monitoring=dice.one(MONITORING),
        read=dice.one(READS) if dice.chance(0.8) else "primary",
        level=dice.one(LEVELS),
        concern="majority" if dice.chance(0.7) else "1",
        causal=dice.chance(0.7),
        bulk=dice.chance(0.3),
        unacknowledged=dice.chance(0.2),
    )
    drawn = replace(schedule, faults=_draw_faults(dice, schedule, 1000 * seconds))
    return _with_rollback(_with_scans(drawn), 1000 * seconds)


# Draws of their own, made later: what was drawn before of a seed stays as it was.


def _with_scans(schedule: Schedule) -> Schedule:
    dice = Dice(SeededRng(schedule.seed, "schedule/scans"))
    return replace(schedule, work=(*schedule.work, "scan")) if dice.chance(0.3) else schedule


def _with_rollback(schedule: Schedule, within: int) -> Schedule:
    """Return the schedule with what makes rollbacks, on some replica sets."""
    dice = Dice(SeededRng(schedule.seed, "schedule/rollback"))
    if schedule.topology not in APART.on or not dice.chance(0.5):
        return schedule
    drawn = replace(
        schedule,
        election=int(dice.one(("300", "1000", "3000"))) if dice.chance(0.6) else 0,
        concern="1" if dice.chance(0.6) else "majority",
        level=dice.one(LEVELS),
        # Who reads what somebody has just written sees whether a majority had it.
        work=_DENSE if dice.chance(0.4) else schedule.work,
        read="primary" if dice.chance(0.5) else schedule.read,
    )
    faults = [*schedule.faults, *(_drawn(dice, APART, drawn, within) for _ in range(dice.number(1, 2)))]
    return replace(drawn, faults=tuple(sorted(faults, key=lambda fault: fault.at)))


def _clients(dice: Dice) -> int:
    """Return a number of clients: mostly few, since many make a run long and rarely another one."""
    if dice.chance(0.02):
        return dice.number(11, MOST_CLIENTS)
    return dice.number(4, 10) if dice.chance(0.12) else dice.number(1, 3)


def _draw_faults(dice: Dice, schedule: Schedule, within: int) -> tuple[ScheduledFault, ...]:
    """Return some faults of at least `LEAST_KINDS` kinds, by the instants at which they begin."""
    fitting = sorted(
        (kind for kind in FAULTS.values() if schedule.topology in kind.on and kind is not APART),
        key=lambda _: dice.number(0, 2**31),
    )
    count = dice.number(LEAST_KINDS, LEAST_KINDS + 2)
    kinds = fitting[:count] + [fitting[dice.number(0, count - 1)] for _ in range(dice.number(0, 2))]
    return tuple(sorted((_drawn(dice, kind, schedule, within) for kind in kinds), key=lambda fault: fault.at))


def _drawn(dice: Dice, kind: FaultKind, schedule: Schedule, within: int) -> ScheduledFault:
    lasts = dice.number(kind.shortest, kind.longest)
    at = dice.number(50, within - 500 - lasts)
    return ScheduledFault(kind.name, dice.one(targets_of(kind, schedule)), kind.draw(dice), at, lasts)
