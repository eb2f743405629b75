"""What the user asks of a hunt, and how names and lines that a hunt has printed are read back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from harness.hunt.faults import BY_NAME, FAULTS
from harness.hunt.places import Place
from harness.hunt.wire import Strike
from harness.running.processes import processors
from mongowire.documents.errors import unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.hunt.faults import Fault
    from harness.hunt.invariants import Invariants

_JOBS_PER_PROCESSOR: Final = 2
"""A trial waits for much of its time: for timers of drivers, and for faults to end."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user asked of a hunt. `budget` is in seconds."""

    budget: float
    seed: int = 0
    jobs: int = 1
    confirmations: int = 10
    faults: tuple[Fault, ...] = FAULTS
    only: tuple[tuple[Strike, ...], ...] = ()
    invariants: Invariants | None = None
    pairs: bool = True
    """Pairs of faults are tried when every single one was."""
    first: bool = False
    """The hunt ends with the first bug that came again."""
    remembered: Mapping[str, str] = field(default_factory=dict)
    """The status of trials of earlier hunts, by their text."""
    goes_on: bool = True
    """Those hunts were of this command: what it has borne once is repeated after everything else."""
    besides: tuple[str, ...] = ()
    """The options without which a trial is another one, as the line that repeats it has them."""

    @property
    def of_this_command(self) -> Mapping[str, str]:
        """What is remembered of this command, and not of others that ask the same."""
        return self.remembered if self.goes_on else {}


def wishes_of(
    given: Mapping[str, Any], invariants: Invariants | None, remembered: Mapping[str, str]
) -> Wishes:
    """Return what the options ask for. Raises `ControlError` or `ValueError` for what they name."""
    names = given["faults"]
    return Wishes(
        given["budget"],
        given["seed"],
        given["jobs"] or processors() * _JOBS_PER_PROCESSOR,
        given["confirm"],
        FAULTS if names is None else tuple(fault_named(name.strip()) for name in names.split(",")),
        tuple(trial_written(each) for each in given["only"]),
        invariants,
        not given["singles"],
        given["first"],
        remembered,
    )


def fault_named(name: str) -> Fault:
    """Return the fault of that name. Raises `ControlError`."""
    if name not in BY_NAME:
        raise unknown("fault", name, BY_NAME)
    return BY_NAME[name]


def trial_written(text: str) -> tuple[Strike, ...]:
    """Return the strikes of a trial, from the form in which a hunt prints them. Raises `ValueError`."""
    strikes = []
    for part in text.split(" + "):
        name, at, place = part.partition(" @ ")
        if not at:
            raise ValueError(f"{part!r} is no trial; write it as a hunt prints it: FAULT @ PLACE")
        strikes.append(Strike(fault_named(name.strip()), Place.parse(place)))
    return tuple(strikes)
