"""What a trial is judged by, and what the judgement says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from mongowire.codes import Category, is_in

if TYPE_CHECKING:
    from harness.hunt.baseline import Baseline
    from harness.hunt.invariants import Invariants
    from harness.hunt.trial import Outcome


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


@dataclass(frozen=True, slots=True)
class Case:
    """A trial beside the clean runs, as the rules of the judgement look at it."""

    baseline: Baseline
    outcome: Outcome
    invariants: Invariants | None

    @property
    def is_masked(self) -> bool:
        """Whether a right client masks all of the faults that were met."""
        faults = {strike.fault.name: strike.fault for strike in self.outcome.strikes}
        struck = self.outcome.struck
        first = {request.operation: request for request in reversed(struck)}
        masked = all(faults[each.struck].masked(each) for each in first.values())
        return masked and not self._reached_others

    @property
    def _reached_others(self) -> bool:
        """Whether a failover that a fault made failed another request as well, and one that is not retried.

        PyMongo sends a write without its transaction number if the server became unknown to it between the
        choice of the server and the checkout: writes side by side meet a step-down in this way.
        """
        return any(
            is_in((each.reply or {}).get("code", 0), Category.NOT_PRIMARY)
            and not (each.is_retried or each.in_transaction)
            for each in self.outcome.requests
            if not each.struck
        )

    @property
    def may_hang(self) -> bool:
        """Whether a client without a time limit waits for ever, as it was told to."""
        return any(strike.fault.may_hang for strike in self.outcome.strikes)

    @property
    def succeeded(self) -> bool:
        """Whether the command ended as in a clean run."""
        return self.outcome.code == self.baseline.code

    @property
    def is_denied(self) -> bool:
        """Whether a fault of a write was reported as an error, and all is written as in a clean run."""
        if self.outcome.code is None or self.succeeded or not self.baseline.clean:
            return False
        writes = any(each.is_write or each.name == "commitTransaction" for each in self.outcome.struck)
        return writes and not self.baseline.differences(self.outcome)
