"""The rules of a deployment: what a request meets, and what comes of it.

Rules are looked at in the order in which they were added. All that a request meets delay it, and their delays
add up; the first with an answer (error, reply, close, silence, pass, hold) ends the search. Rules without
any effect, which only expect, see every request, answered or not. Labels and write concern errors of the
rules that were met are added to whatever the reply is in the end.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from fakeserver.rules.holding import Held, HeldRequest
from fakeserver.rules.rule import CONNECTING, CONTROLLING, Attempts, Ending, times
from mongowire.documents.errors import ControlError, unknown
from mongowire.documents.occurrence import OccurrenceCount

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from fakeserver.rules.rule import Answer, Asked, Conditions, Effects, OperationAttempt, Rule
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
    def matches(self) -> int:
        """How many requests met its conditions, whether it was their turn or not."""
        return self._count.seen

    @property
    def near_misses(self) -> list[str]:
        """The requests that came closest to its conditions, where it expects requests or holds them."""
        return self._near.lines()

    @property
    def unmet(self) -> str | None:
        """The text that says how its expectation was not met, None where it was, or there is none."""
        head = self._unmet
        return None if head is None else self.explained(head)

    @property
    def _unmet(self) -> str | None:
        expect = self.rule.expect
        if expect is None or expect.met_by(self.hits):
            return None
        came = "none came" if not self.hits else f"{self.hits} came"
        return f"{self.described}: expected {expect}, {came}"

    @property
    def never_met(self) -> str | None:
        """The text that says that what it was added for never happened; None where it did."""
        rule = self.rule
        if rule.expect is not None:
            return self._unmet
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
        stated = []
        for name, value in conditions.items():
            text = " or ".join(map(str, value)) if isinstance(value, list) else str(value)
            stated.append(f"{name}: {text if len(text) <= _WIDEST else f'{text[:_WIDEST]}…'}")
        return f"{self.id} ({', '.join(stated) or 'every command'})"

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


_EXPECTED: Final = "expected"
"""The effect of a rule that only expects, in words."""
_REMOVED: Final = 1000


@dataclass(slots=True)
class Ruling:
    """What comes of one request."""

    operation: OperationAttempt
    delay: float = 0.0
    answer: Answer | None = None
    held: HeldRequest | None = None
    """The request, where a rule holds it; its answer is the answer."""
    holder: Held | None = None
    labels: tuple[str, ...] = ()
    write_concern_error: Mapping[str, Any] | None = None
    replacing_labels: tuple[str, ...] | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    hits: list[tuple[str, str]] = field(default_factory=list)
    """The rules that were met, and their effects in words."""
    failures: list[tuple[str, Exception]] = field(default_factory=list)
    """The rules that failed, and with what; they have no effect on the request."""


class RuleBook:
    """The rules of one deployment, in the order in which they were added."""

    def __init__(self, rng: Rng, began: float) -> None:
        """Make an empty book; `began` is the instant at which the deployment began."""
        self._rng = rng
        self._began = began
        self._entries: dict[str, RuleEntry] = {}
        self._numbers = count(1)
        self._attempts = Attempts()
        self._switches: list[Callable[[bool], None]] = []
        self.active: tuple[RuleEntry, ...] = ()
        """The rules that may match a request."""
        self.removed: deque[RuleEntry] = deque(maxlen=_REMOVED)
        """The newest of those that were removed one by one, which say whether they were ever met."""

    def attach(self, switch: Callable[[bool], None]) -> None:
        """Have `switch` called from now on: with true while there are rules, else with false."""
        self._switches.append(switch)
        if self._entries:
            switch(True)  # noqa: FBT003 - the one argument of a switch

    # Adding and removing.

    def add(self, rule: Rule, now: float) -> RuleEntry:
        """Add a rule. Raises `ControlError` for a name that another rule has."""
        return self._entered(rule, now, None)

    def _entered(self, rule: Rule, now: float, held: Held | None) -> RuleEntry:
        name = rule.name
        if name is None:
            name = next(each for each in map("rule{}".format, self._numbers) if each not in self._entries)
        elif name in self._entries:
            raise ControlError(f"there is a rule {name!r} already; remove it first", path=("name",))
        entry = RuleEntry(name, rule, rng=self._rng.spawn(name), now=now, began=self._began, held=held)
        self._entries[name] = entry
        self._entries_changed(now)
        return entry

    def hold(self, rule: Rule, now: float) -> RuleEntry:
        """Add a rule that holds the requests that it meets."""
        return self._entered(rule, now, Held())

    def remove(self, name: str, now: float) -> RuleEntry:
        """Remove a rule, and let go what it holds. Raises `ControlError` for an unknown one."""
        if name not in self._entries:
            if not self._entries:
                raise ControlError(f"there is no rule {name!r}; there are none")
            raise unknown("rule", name, self._entries)
        entry = self._entries.pop(name)
        self.removed.append(entry)
        if entry.held is not None:
            entry.held.end()
        self._entries_changed(now)
        return entry

    def remove_all(self, now: float) -> int:
        """Remove every rule, and let go every request that is held; return how many rules there were."""
        names = list(self._entries)
        for name in names:
            self.remove(name, now)
        return len(names)

    def clear(self) -> None:
        """Be as new: without rules, and without a memory of those that were removed; let go what is held."""
        entries, self._entries, self.active = self._entries, {}, ()
        self._attempts, self._numbers = Attempts(), count(1)
        self.removed.clear()
        for entry in entries.values():
            if entry.held is not None:
                entry.held.end()
        if entries:
            self._switch(on=False)

    def kept(self) -> tuple[Rule, ...]:
        """Return the rules under their names, as `restore` takes them, but for those that hold requests."""
        kept = (entry for entry in self._entries.values() if entry.held is None)
        return tuple(replace(entry.rule, name=entry.id) for entry in kept)

    def restore(self, rules: Sequence[Rule], now: float) -> None:
        """Have these rules and no others, as if they had just been added; let go what is held."""
        self.clear()
        for rule in rules:
            self.add(rule, now)

    def _entries_changed(self, now: float) -> None:
        self._entries = {name: each for name, each in self._entries.items() if not each.is_answered(now)}
        self._drop_what_is_over(now)
        self._switch(on=bool(self._entries))

    def _switch(self, *, on: bool) -> None:
        for switch in self._switches:
            switch(on)

    def _drop_what_is_over(self, now: float) -> None:
        self.active = tuple(entry for entry in self._entries.values() if not entry.is_over(now))

    def listed(self, now: float) -> list[dict[str, Any]]:
        """Return a document of each rule, in their order."""
        return [entry.document(now) for entry in self._entries.values() if not entry.is_answered(now)]

    def get(self, name: str) -> RuleEntry | None:
        """Return a rule by its name, None where there is none."""
        return self._entries.get(name)

    @property
    def entries(self) -> tuple[RuleEntry, ...]:
        """Every rule, those that are over too."""
        return tuple(self._entries.values())

    def unmet(self) -> str:
        """Return why expectations were not met, with the requests that came closest; "" if all were."""
        texts = [entry.unmet for entry in self._entries.values()]
        return "\n".join(text for text in texts if text is not None)

    # Requests.

    def operation(
        self, name: str, document: Mapping[str, Any], *, session: Any, txn_number: int | None
    ) -> OperationAttempt:
        """Return the operation that a request belongs to, and count the attempt."""
        return self._attempts.of(name, document, session=session, txn_number=txn_number)

    def succeeded(self, operation: OperationAttempt) -> None:
        """Take note that an attempt succeeded."""
        self._attempts.succeeded(operation)

    def decide(self, asked: Asked, now: float) -> Ruling:
        """Return what comes of a request, and count it."""
        ruling = Ruling(asked.operation)
        over = False
        for entry in self.active:
            if entry.is_over(now):
                over = True
            elif ruling.answer is None or entry.rule.only_watches:
                self._apply(entry, asked, ruling)
                over = over or entry.is_over(now)
        if over:
            self._drop_what_is_over(now)
        return ruling

    def _apply(self, entry: RuleEntry, asked: Asked, ruling: Ruling) -> None:
        try:
            effects = entry.take(asked)
        except Exception as error:  # noqa: BLE001 - whatever a filter does to a strange command, it passes
            ruling.failures.append((entry.id, error))
            return
        if effects is None:
            return
        ruling.delay += effects.delay
        ruling.labels += effects.labels
        ruling.fields |= effects.fields
        if effects.write_concern_error is not None and ruling.write_concern_error is None:
            ruling.write_concern_error = effects.write_concern_error
            ruling.replacing_labels = effects.replacing_labels
        if entry.held is not None:
            ruling.answer, ruling.held, ruling.holder = Ending.HOLD, HeldRequest(asked), entry.held
            entry.held.enter(ruling.held)
            ruling.hits.append((entry.id, Ending.HOLD.value))
            return
        if ruling.answer is None:
            ruling.answer = effects.answer
        nothing = _EXPECTED if entry.rule.only_watches else Ending.PASS.value
        ruling.hits.append((entry.id, effects.name or nothing))
