"""What an oracle is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.adapters.base import Feature
    from harness.unified.server_side.oracles.trace import Trace


@dataclass(frozen=True, slots=True)
class Oracle:
    """A rule as a function: it yields a sentence for each breach that a case shows.

    `rules` are the ids of docs/CONFORMANCE.md, `features` what the driver's adapter must have for it to be
    asked. `sentence` is the rule in words.
    """

    name: str
    sentence: str
    check: Callable[[Trace], Iterator[str]]
    rules: tuple[str, ...] = ()
    features: frozenset[Feature] = frozenset()

    def breaches(self, trace: Trace) -> Iterator[str]:
        """Yield a sentence for each breach; none where the adapter lacks what it takes to judge."""
        if self.features <= trace.features:
            yield from self.check(trace)

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(self.rules)})" if self.rules else self.name
