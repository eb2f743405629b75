"""What trials have found, and the bugs that they come to: findings, grouped by their cause.

Two trials found the same bug if their findings are of one kind, about the same collections, and were caused
at places of the same shape, or at further ones besides. The shortest stands for the group: that with one
fault, and the fewest requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.hunt.trial import Outcome
    from harness.hunt.wire import Strike


class Kind(Enum):
    """The kinds of findings; the value is its heading."""

    HANG = "the command hangs"
    STANDSTILL = "the command stands still, and fails in the end"
    CRASHES = "the command crashes"
    FAILS = "an error that a right client masks reaches the user"
    WORKER = "a worker ends for good"
    DOCUMENTS = "the command succeeds, and the documents are other ones"
    OUTPUT = "the command succeeds, and says something else"
    TWICE = "something is applied twice"
    TRANSACTION = "a transaction is left open"
    CURSOR = "a cursor is left open"
    RETRY_STORM = "a retry storm"
    CONNECTION_STORM = "a connection storm"
    DENIED = "an error is reported, and all of it had been done"
    WAITS = "the user waits too long"
    INVARIANT = "an invariant is broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a trial did wrong. `about` are the collections or the invariant, for the grouping."""

    kind: Kind
    words: str
    about: tuple[str, ...] = ()


class Step(NamedTuple):
    """A request as a row of a trace. `at` is in seconds from the first one of the run."""

    at: float
    place: str
    attempt: int
    fault: str
    answer: str
    is_ok: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was found of a trial; `notes` are no bugs."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    reached: bool = True
    reported: bool = False
    """The command told its user of the fault, by its exit code."""
    denied: bool = False
    """It told so, and yet all had been written as in a clean run: whoever does it again may do it twice."""
    story: tuple[str, ...] = ()
    """What happened from the fault on, a sentence each."""
    trace: tuple[Step, ...] = ()
    """The requests around the faults, in order."""

    @property
    def status(self) -> str:
        """The word for the matrix."""
        if not self.reached:
            return "not reached"
        if self.findings:
            return "failed"
        return "reported" if self.reported else "held"


class Cause(NamedTuple):
    """What the trials of one bug share."""

    kind: Kind
    about: tuple[str, ...]
    shapes: tuple[tuple[str, str], ...]

    def explains(self, other: Cause) -> bool:
        """Whether another one is the same, or needs further faults for it."""
        return (self.kind, self.about) == (other.kind, other.about) and set(self.shapes) <= set(other.shapes)


@dataclass(slots=True)
class Trial:
    """A trial and its judgement."""

    number: int
    outcome: Outcome
    judgement: Judgement

    @property
    def strikes(self) -> tuple[Strike, ...]:
        """The faults of the trial."""
        return self.outcome.strikes


@dataclass(slots=True)
class Bug:
    """A cause, the trial that stands for it, and how often it came again."""

    cause: Cause
    finding: Finding
    trial: Trial
    others: list[Trial] = field(default_factory=list)
    again: int = 0
    """How many of the repetitions failed in the same way."""
    repeated: int = 0
    is_known: bool = False
    """An earlier hunt has found it."""

    @property
    def is_confirmed(self) -> bool:
        """Whether it came again, or was never asked to; what is a matter of time must come in most runs."""
        least = self.repeated // 2 if self.cause.kind is Kind.WAITS else 0
        return self.again > least or not self.repeated

    @property
    def rate(self) -> str:
        """How often it came, of all runs of this trial; and whether it is an old one."""
        known = ", known from an earlier hunt" if self.is_known else ""
        return f"{self.again + 1} of {self.repeated + 1} runs{known}"

    @property
    def only(self) -> str:
        """The trial as `--only` takes it."""
        return " + ".join(map(str, self.trial.strikes))


def causes(trial: Trial) -> list[tuple[Cause, Finding]]:
    """Return the causes that a trial stands for, with their findings: the first finding alone names the bug.

    One wrong step breaks several rules at once; the order of the rules is from the symptom that says most.
    """
    shapes = tuple(sorted({strike.place.kind for strike in trial.strikes}))
    return [(Cause(finding.kind, finding.about, shapes), finding) for finding in trial.judgement.findings[:1]]


def grouped(trials: Sequence[Trial]) -> list[Bug]:
    """Return the bugs that trials have found, in the order in which they were found."""
    found: dict[Cause, Bug] = {}
    for trial in sorted(trials, key=lambda each: (len(each.strikes), each.outcome.size, each.number)):
        for cause, finding in causes(trial):
            known = next((bug for other, bug in found.items() if other.explains(cause)), None)
            if known is None:
                found[cause] = Bug(cause, finding, trial)
            else:
                known.others.append(trial)
    return sorted(found.values(), key=lambda bug: bug.trial.number)
