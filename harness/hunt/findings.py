"""Findings of trials, told in words, and the bugs that they come to: findings, grouped by their cause.

Two trials found the same bug if their findings are of one kind, about the same collections, and were caused
at places of the same shape, or at further ones besides. The shortest stands for the group: that with one
fault, and the fewest requests. So the trials are grouped from the shortest on, and a pair of faults joins
the bug that one of them shows alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.explaining.text import times
from harness.hunt.wire import attempts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.hunt.baseline import Baseline
    from harness.hunt.places import Request
    from harness.hunt.trial import Outcome
    from harness.hunt.wire import Strike

MORE_IS_NOTICED: Final = 2.0
"""Seconds that a fault which a right client masks may cost, twice what it takes itself."""
_ERROR_MOST: Final = 160
_SAID_MOST: Final = 3
_STEPS_BEFORE: Final = 6
_STEPS_AFTER: Final = 60


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
    """The findings of a trial; `notes` are no bugs."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    reached: bool = True
    reported: bool = False
    """The command told its user of the fault, by its exit code."""
    denied: bool = False
    """It told so, and yet all had been written as in a clean run: whoever does it again may do it twice."""
    story: tuple[str, ...] = ()
    """The story from the fault on, a sentence for each step."""
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


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that so large a share of the values does not exceed."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


class Cause(NamedTuple):
    """The facts that all trials of one bug share."""

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


class Shorter(NamedTuple):
    """A shorter command that finds a bug, with the trial that does it there."""

    words: tuple[str, ...]
    only: str


@dataclass(slots=True)
class Bug:
    """A cause, the trial that stands for it, and how often it came again."""

    cause: Cause
    finding: Finding
    trial: Trial
    others: list[Trial] = field(default_factory=list)
    again: int = 0
    """The repetitions that failed in the same way."""
    repeated: int = 0
    seconds: list[float] = field(default_factory=list)
    """Seconds that each repetition took."""
    beside: list[float] = field(default_factory=list)
    """Seconds of clean runs, one after each repetition, where the bug is a matter of time."""
    is_known: bool = False
    """An earlier hunt has found it."""
    shorter: Shorter | None = None

    @property
    def is_confirmed(self) -> bool:
        """Whether it came again, or was never asked to; what is a matter of time must come in most runs."""
        if self.cause.kind is Kind.WAITS and self.repeated:
            return self.again > self.repeated // 2 and self.is_longer
        return self.again > 0 or not self.repeated

    @property
    def is_longer(self) -> bool:
        """Whether most repetitions took longer than 99 % of the clean runs beside them; a wish is enough."""
        if self.cause.about:
            return True
        return (
            not self.beside or percentile(self.seconds, 0.5) > percentile(self.beside, 0.99) + MORE_IS_NOTICED
        )

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


def story(baseline: Baseline, outcome: Outcome) -> list[str]:
    """Return what happened from the fault on, a sentence each: the fault, the driver, the application."""
    said = []
    for strike in outcome.strikes:
        struck = next((each for each in outcome.struck if each.place == strike.place), None)
        if struck is None:
            said.append(f"{strike.place} was not reached")
            continue
        said.append(f"{struck.place} {strike.fault.words}")
        said.append(_what_the_driver_did(attempts_of(outcome.requests, struck.operation)))
    # The application: which operations came more often than in a clean run, the first few of them.
    operations = {request.operation: request.place for request in outcome.requests}
    came = Counter(place.kind for place in operations.values())
    more = [(shape, count - baseline.counts.get((app, shape), 0)) for (app, shape), count in came.items()]
    for shape, count in [each for each in more if each[1] > 0][:_SAID_MOST]:
        said.append(f"{shape} came {times(count)} more than in a clean run")
    return said


def trace(outcome: Outcome) -> Iterator[Step]:
    """Yield the requests from a few before the first fault on, the first of them if there are many."""
    requests = outcome.requests
    first = next((number for number, each in enumerate(requests) if each.struck), 0)
    for each in requests[max(0, first - _STEPS_BEFORE) : first + _STEPS_AFTER]:
        answer = "ok" if each.is_ok else _answer(each)
        at = each.at - requests[0].at
        yield Step(at, str(each.place), each.attempt, each.struck, answer, each.is_ok)


def _what_the_driver_did(attempts: Sequence[Request]) -> str:
    last = attempts[-1]
    end = "and succeeded" if last.is_ok else f"and got {_answer(last)}"
    if len(attempts) == 1:
        return f"it was not sent again, {end}" if not last.is_ok else "it was sent once, and succeeded"
    return f"it was sent {len(attempts)} times, {end}"


def _answer(request: Request) -> str:
    reply = request.reply
    if reply is None:
        return "no answer"
    if not reply.get("ok"):
        return f"error {reply.get('code')} {reply.get('codeName', '')}".rstrip()
    return "a write concern error" if reply.get("writeConcernError") else "a write error"


def last_error(outcome: Outcome) -> str:
    """Return the last line that a command wrote to its error output."""
    lines = [line.strip() for line in outcome.ended.errors.splitlines() if line.strip()]
    last = lines[-1] if lines else "it wrote no error"
    return last if len(last) <= _ERROR_MOST else last[:_ERROR_MOST] + "…"
