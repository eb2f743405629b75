"""The account of a case, kept while it runs, so that an interrupted case has one as well."""

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
        finally:
            step.ended, step.ended_seq = now(), next_seq()

    def end(self, now: float) -> None:
        """Close the account; what clients say from now on, while they are closed, is no part of it."""
        if self.ended is None:
            self.ended, self._heard = now, self.heard()

    def heard(self) -> Mapping[str, Sequence[Event]]:
        """Return what each client has said, oldest first."""
        return self._heard or {name: tuple(read()) for name, read in self.clients.items()}
