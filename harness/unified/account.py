"""The account of a case, kept while it runs, so that an interrupted case has one as well.

The runner writes it, one step an operation, before the operation is sent. Explanations, the journal and
`server_side` read it: they need to know what ran when, also of a case that a timeout or a signal cut short,
for which no outcome exists yet. Instants order what happens in virtual time badly, since much happens at one
of them; so each step also takes the process-wide number `seq`, which events of clients and entries of the
servers' record share.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.adapters.base import OperationFailed, next_seq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from harness.adapters.base import Event
    from harness.unified.model import Operation


@dataclass(slots=True)
class PerformedOperation:
    """One operation, from its start to its end.

    Instants are in seconds of the deployment's clock, `ended` is None while it runs; `…_seq` order it among
    the events of one instant. `error` is what the driver raised, whether or not the scenario expects it, and
    `result` what it returned.
    """

    operation: Operation
    began: float
    ended: float | None = None
    began_seq: int = field(default_factory=next_seq)
    ended_seq: int = 0
    error: OperationFailed | None = None
    result: Any = None


@dataclass(slots=True)
class Account:
    """The operations of a case, and all that its clients said, also what the scenario does not observe.

    `began` is the instant when the data were in place, `ended` the one when events are judged; None before.
    With `compares`, expected and actual events are compared also where nothing is wrong.
    """

    steps: list[PerformedOperation] = field(default_factory=list)
    clients: dict[str, Callable[[], Sequence[Event]]] = field(default_factory=dict)
    began: float | None = None
    ended: float | None = None
    compares: bool = False
    _heard: Mapping[str, Sequence[Event]] | None = None

    @contextmanager
    def step(self, operation: Operation, now: Callable[[], float]) -> Iterator[PerformedOperation]:
        """Keep an operation that runs while the block does."""
        step = PerformedOperation(operation, now())
        self.steps.append(step)
        try:
            yield step
        except OperationFailed as failed:
            step.error = failed
            raise
        # Also for a cancellation: a step of an interrupted case has an end, and whoever reads it sees when.
        finally:
            step.ended, step.ended_seq = now(), next_seq()

    def end(self, now: float) -> None:
        """Close the account; what clients say from now on, while they are closed, is no part of it."""
        # The first call counts. The runner closes the account in two places, of which one is a `finally`.
        if self.ended is None:
            self.ended, self._heard = now, self.heard()

    def heard(self) -> Mapping[str, Sequence[Event]]:
        """Return what each client has said, oldest first.

        Before `end` it asks the clients, and the answer grows; from then on it is what was kept, because
        closing clients adds events (pools that close, connections that end) of which no expectation speaks.
        """
        return self._heard or {name: tuple(read()) for name, read in self.clients.items()}
