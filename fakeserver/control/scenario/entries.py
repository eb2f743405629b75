"""The steps of a timeline: their mappings to `model.Entry`, with verbs and triggers checked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from fakeserver.control.scenario import settings, triggers
from fakeserver.control.scenario.checks import CHECKS, ROLES
from fakeserver.control.scenario.forms import filled, known_keys, mapping
from fakeserver.control.scenario.model import TimelineEntry
from fakeserver.control.scenario.readings import UNCOUNTED
from fakeserver.control.scenario.undoing import why_not_undone
from fakeserver.control.verbs.table import VERBS
from mongowire.documents.arguments import Kind, count, duration
from mongowire.documents.errors import ControlError, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fakeserver.control.scenario.checks import ScenarioNames
    from fakeserver.control.scenario.places import PlacedValue, ProblemReport
    from fakeserver.control.verbs.form import Verb
    from fakeserver.deployment.spec import ClusterSpec
    from mongowire.documents.arguments import Argument

_VERIFY: Final = "verify"
_RESET: Final = "reset"


def is_a_step(verb: Verb) -> bool:
    """Return whether a timeline can have a verb: what changes something, and `verify`, which may fail."""
    return not verb.reads or verb.name == _VERIFY


class Reader:
    """Reads the steps of one timeline: it knows the deployment, its servers and commands."""

    def __init__(self, spec: ClusterSpec, names: ScenarioNames, report: ProblemReport) -> None:
        self._spec = spec
        self._names = names
        self._servers = names.servers
        self._commands = frozenset(names.commands) - UNCOUNTED
        self._report = report

    def entry(self, marked: PlacedValue) -> TimelineEntry | None:
        """Return a step, or None for one that is wrong, which is reported."""
        report = self._report
        if not mapping(marked, "a step", report):
            return None
        verb = self._verb(marked)
        if verb is None:
            return None
        before = len(report.problems)
        arguments = self._arguments(marked.members[verb.name], verb)
        facts = self._triggers(marked)
        self._check(marked, verb, facts)
        if len(report.problems) > before:
            return None
        place = marked.keys[next(iter(marked.keys))]
        return TimelineEntry(place=place, verb=verb.name, arguments=arguments, **facts)

    def _verb(self, marked: PlacedValue) -> Verb | None:
        """Return the verb that a step names."""
        by_name = {verb.name: verb for verb in VERBS if is_a_step(verb)}
        named = [name for name in marked.keys if name in by_name]
        before = len(self._report.problems)
        known_keys(marked, "field or verb", [*settings.ENTRY, *by_name], self._report)
        if len(named) > 1:
            message = f"a step has one verb, this one has {' and '.join(named)}; write two steps"
            self._report.add(marked, message, place=marked.keys[named[1]])
            return None
        if not named:
            if len(self._report.problems) == before:
                self._report.add(marked, f"a step names a verb; known are {', '.join(by_name)}")
            return None
        return by_name[named[0]]

    def _arguments(self, marked: PlacedValue, verb: Verb) -> dict[str, Any]:
        if not verb.applies.covers(self._spec):
            message = f"{verb.name} is for {verb.applies.value}; this is of topology {self._spec.topology}"
            self._report.add(marked, message)
            return {}
        if marked.value is None:
            marked = type(marked)({}, marked.place, marked.path)
        if not marked.is_mapping:
            cure = _as_mapping(verb, marked.value)
            self._report.add(marked, f"the arguments are a mapping; write {verb.name}: {cure}")
            return {}
        values = filled(marked, verb.name, verb.arguments, self._report)
        for argument in verb.arguments:
            given = marked.members.get(argument.name)
            if given is not None and argument.name in values:
                self._check_servers(given, argument, values[argument.name])
                check = CHECKS.get((verb.name, argument.name))
                if check is not None and given.is_mapping:
                    check(given, self._names, self._report)
        return dict(marked.value)

    def _check_servers(self, marked: PlacedValue, argument: Argument, value: Any) -> None:
        named: Iterable[str] = ()
        known = [*self._servers, *ROLES]
        if argument.kind is Kind.SERVER:
            named = [value]
        elif argument.kind is Kind.SERVERS:
            named, known = value, [*known, "all"]
        elif argument.kind is Kind.GROUPS:
            named, known = [each for group in value for each in group], [*known, "clients"]
        for name in named:
            if name not in known and ":" not in name:
                self._report.add(marked, unknown("server", name, known).message)

    def _triggers(self, marked: PlacedValue) -> dict[str, Any]:
        commands, servers = self._commands, self._servers
        begins: dict[str, Callable[[Any], Any]] = {
            "at": triggers.instant,
            "after": lambda value: triggers.requests(value, commands),
            "when": lambda value: triggers.condition(value, servers),
        }
        others: dict[str, tuple[str, Callable[[Any], Any]]] = {
            "every": ("every", lambda value: triggers.period(value, commands)),
            "for": ("lasting", lambda value: triggers.period(value, commands)),
            "until": ("until", lambda value: triggers.end(value, commands, servers)),
            "times": ("times", count),
            "jitter": ("jitter", duration),
        }
        facts: dict[str, Any] = {}
        for name, reader in begins.items():
            if name in marked.members:
                if "start" in facts:
                    message = "a step begins with one of at, after and when; write two steps"
                    self._report.add(marked, message, place=marked.keys[name])
                facts["start"] = self._read(marked.members[name], reader)
        for name, (field, reader) in others.items():
            if name in marked.members:
                facts[field] = self._read(marked.members[name], reader)
        return facts

    def _read(self, marked: PlacedValue, reader: Callable[[Any], Any]) -> Any:
        try:
            return reader(marked.value)
        except ControlError as error:
            self._report.refused(marked, error)
            return None

    def _check(self, marked: PlacedValue, verb: Verb, facts: dict[str, Any]) -> None:
        """Report triggers that contradict each other, or the verb."""
        every, lasting, until = (facts.get(name) for name in ("every", "lasting", "until"))
        if verb.name == _RESET and _seconds(facts.get("start", triggers.Instant(0.0))) == 0:
            message = "reset begins the timeline anew, so it cannot stand at its start; write at: 60s"
            self._report.add(marked, message, place=marked.keys[_RESET])
        key = "until" if lasting is None else "for"
        if (lasting is not None or (until is not None and every is None)) and (why := why_not_undone(verb)):
            self._add(marked, key, why)
        if every is None and facts.get("times") is not None:
            self._add(marked, "times", "nothing repeats this step; add every")
        if every is None and lasting is not None and until is not None:
            self._add(marked, "until", "for and until both end the effect; leave one of them out")
        if _seconds(lasting) >= _seconds(every):
            self._add(marked, "for", f"{lasting} is not shorter than the period of every, {every}")
        if _seconds(until) <= _seconds(facts.get("start")):
            message = f"{until} is not later than at, {facts['start']}; both count from the start"
            self._add(marked, "until", message)

    def _add(self, marked: PlacedValue, key: str, message: str) -> None:
        self._report.add(marked, message, place=marked.keys[key])


def _as_mapping(verb: Verb, value: Any) -> str:
    """Return the arguments that were meant by a value alone: of the first argument that it fits."""
    for argument in verb.arguments:
        try:
            argument.parse(value)
        except ControlError:
            continue
        return f"{{{argument.name}: {value}}}"
    return "{}"


def _seconds(trigger: Any) -> float:
    """Return the seconds of a time; of anything else a number that compares as false."""
    return trigger.seconds if isinstance(trigger, triggers.Instant) else math.nan
