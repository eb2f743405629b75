"""One rule at work: its counts, and what comes of a request that meets it."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from fakeserver.rules.conditions import CONNECTING, CONTROLLING
from fakeserver.rules.rule import times
from mongowire.documents.occurrence import OccurrenceCount

if TYPE_CHECKING:
    from collections.abc import Hashable

    from fakeserver.rules.asked import Asked
    from fakeserver.rules.conditions import Conditions
    from fakeserver.rules.effects import Effects
    from fakeserver.rules.holding import Held
    from fakeserver.rules.rule import Rule
    from mongowire.ports import Rng


MOST_KEYS: Final = 10_000
"""The operations, connections or applications that a sequence counts; beyond that the oldest begin anew."""

_MILLISECONDS: Final = 3
_WIDEST: Final = 80


class RuleEntry:
    """A rule of a book."""

    def __init__(
        self, name: str, rule: Rule, *, rng: Rng, now: float, began: float, held: Held | None
    ) -> None:
        """Make the entry of a rule that is added at the instant `now`; the deployment began at `began`."""
        self.id = name
        self.rule = rule
        self.held = held
        """The requests that it holds."""
        self._count = OccurrenceCount(rule.occurrence, rule.occurrence.ends(now, began))
        self._rng = rng
        self._taken: OrderedDict[Hashable, int] = OrderedDict()
        self._near = NearMisses(rule.when)

    @property
    def hits(self) -> int:
        """How many requests it answered."""
        return self._count.hits

    def is_over(self, now: float) -> bool:
        """Return whether it matches nothing any more."""
        return self._count.is_over(now)

    def is_answered(self, now: float) -> bool:
        """Return whether it was there to hold requests, and has none left."""
        return self.held is not None and self.is_over(now) and not self.held.waits

    def take(self, asked: Asked) -> Effects | None:
        """Return the effects on a request, and count the hit; None for a request that it is not about.

        Raises what its filter raises.
        """
        rule = self.rule
        if not rule.when.met_by(asked):
            if rule.expect is not None or self.held is not None:
                self._near.add(asked)
            return None
        if not self._count.chooses(self._rng.random):
            return None
        effects = rule.then if rule.sequence is None else self._step(asked)
        if effects is not None:
            self._count.hits += 1
        return effects

    def _step(self, asked: Asked) -> Effects | None:
        sequence = self.rule.sequence
        assert sequence is not None
        key = sequence.key(asked)
        number = self._taken.get(key, 0)
        if number >= len(sequence.steps):
            return None
        self._taken[key] = number + 1
        self._taken.move_to_end(key)
        if len(self._taken) > MOST_KEYS:
            self._taken.popitem(last=False)
        return sequence.steps[number]

    @property
    def unmet(self) -> str | None:
        """The text that says how its expectation was not met, None where it was, or there is none."""
        expect = self.rule.expect
        if expect is None or expect.met_by(self.hits):
            return None
        came = "none came" if not self.hits else f"{self.hits} came"
        return self.explained(f"{self.described}: expected {expect}, {came}")

    @property
    def never_met(self) -> str | None:
        """The text that says that what it was added for never happened; None where it did."""
        rule = self.rule
        if rule.expect is not None:
            return self.unmet
        drawn = rule.occurrence.probability is not None and self._count.seen > 0
        return None if self.hits or drawn or self.held is not None else f"rule {self.described}"

    def explained(self, head: str) -> str:
        """Return a text with the near misses below it."""
        near = self._near.lines()
        return "\n".join((head, *("  near miss: " + line for line in near)))

    @property
    def described(self) -> str:
        """The name, and the conditions."""
        conditions = self.rule.document.get("when") or {}
        stated = ", ".join(f"{name}: {_short(value)}" for name, value in conditions.items())
        return f"{self.id} ({stated or 'every command'})"

    def document(self, now: float) -> dict[str, Any]:
        """Return the rule as a list of rules shows it."""
        found: dict[str, Any] = {"id": self.id, "rule": dict(self.rule.document), "hits": self.hits}
        found["over"] = self.is_over(now)
        times, ends = self.rule.occurrence.times, self._count.ends
        if times is not None:
            found["timesLeft"] = max(times - self.hits, 0)
        if not math.isinf(ends):
            found["secondsLeft"] = round(max(ends - now, 0.0), _MILLISECONDS)
        if self.unmet is not None:
            found["unmet"] = self.unmet
        return found


def _short(value: Any) -> str:
    text = " or ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…"


# The requests that came closest to an expectation, for the text that says why it was not met.

_SHOWN: Final = 3
_MOST: Final = 100
"""The different texts that are kept; a later one takes the place of the farthest."""
_LONGEST: Final = 300
_AMONG_MANY: Final = CONNECTING | CONTROLLING


class NearMisses:
    """Requests that did not meet the conditions of one rule, by how they differ."""

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._counts: dict[tuple[int, str], int] = {}

    def add(self, asked: Asked) -> None:
        """Enter a request. What drivers send to connect and monitor is left out, unless it was asked for."""
        commands = self._conditions.commands
        if asked.command in _AMONG_MANY and (commands is None or asked.command not in commands):
            return
        differences = self._conditions.differences(asked)
        text = f"{asked}: {'; '.join(differences)}"
        if len(text) > _LONGEST:
            text = f"{text[:_LONGEST]}…"
        key = (len(differences), text)
        if key not in self._counts and len(self._counts) >= _MOST:
            farthest = max(self._counts)
            if farthest[0] <= key[0]:
                return
            del self._counts[farthest]
        self._counts[key] = self._counts.get(key, 0) + 1

    def lines(self) -> list[str]:
        """Return the closest, a line each."""
        closest = sorted(self._counts, key=lambda key: key[0])[:_SHOWN]
        return [
            text if (count := self._counts[key]) == 1 else f"{text} ({times(count)})"
            for key in closest
            for text in [key[1]]
        ]
