"""The rules of a deployment: what a request meets, and what comes of it.

Rules are looked at in the order in which they were added. All that a request meets delay it, and their delays
add up; the first with an answer (error, reply, close, silence, pass, hold) ends the search. Rules without
any effect, which only expect, see every request, answered or not. Labels and write concern errors of the
rules that were met are added to whatever the reply is in the end.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from fakeserver.rules.attempts import Attempts
from fakeserver.rules.effects import Ending
from fakeserver.rules.entry import RuleEntry
from fakeserver.rules.holding import Held, HeldRequest
from mongowire.documents.errors import ControlError, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fakeserver.rules.asked import Asked
    from fakeserver.rules.attempts import OperationAttempt
    from fakeserver.rules.effects import Answer
    from fakeserver.rules.rule import Rule
    from mongowire.ports import Rng


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
