"""The requests that came closest to an expectation, for the text that says why it was not met."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeserver.rules.conditions import CONNECTING, CONTROLLING
from fakeserver.rules.rule import times

if TYPE_CHECKING:
    from fakeserver.rules.asked import Asked
    from fakeserver.rules.conditions import Conditions

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
