"""The player of a timeline: waits on the deployment's clock, and performs what is due.

A step that fails ends alone: its line is in the log of the first server, and everything else goes on. One
that repeats is left out this time, and goes on: where a primary is wanted, there may be none just then.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from fakeserver.control.scenario.loader import FileProblem, ScenarioFileError
from fakeserver.control.scenario.timeline import Timeline
from fakeserver.control.scenario.triggers import Readings, reading_of
from fakeserver.control.verbs.table import VERBS, undo_of
from fakeserver.waiting.bell import Bell
from fakeserver.waiting.pause import Await, Pause
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.control.control import Control
    from fakeserver.control.scenario.loader import Place
    from fakeserver.control.scenario.model import Scenario
    from fakeserver.control.scenario.timeline import Act, EntryProgress
    from fakeserver.deployment.cluster import Cluster
    from fakeserver.waiting.outcome import VerbOutcome

_INSTANT: Final = 1e-9
"""Two instants that are not further apart are the same: sums of floats are not exact."""


async def begin(scenario: Scenario, cluster: Cluster) -> None:
    """Load data, rules and faults, take that as the beginning, and begin the timeline."""
    control = cast("Control", cluster.control)
    for seed in scenario.data:
        field = f"data.{seed.namespace}"
        _do(control, "seed", {"namespace": seed.namespace, "documents": seed.documents}, field, seed.place)
    for verb, argument, items in (
        ("addRule", "rule", scenario.rules),
        ("addFault", "fault", scenario.faults),
    ):
        for item in items:
            _do(control, verb, {argument: dict(item.document)}, f"{argument}s", item.place)
    player = control.subject.part(Player)
    player.scenario, player.was_reset = scenario, control.subject.was_reset
    control.begin()
    player.start()


def _do(control: Control, verb: str, arguments: Mapping[str, Any], field: str, place: Place) -> None:
    """Perform a verb. Raises `ScenarioFileError` with the place that it comes from."""
    try:
        control.perform(verb, arguments)
    except ControlError as error:
        raise ScenarioFileError([FileProblem(place, field, error.message)]) from error


class Player:
    """Plays the timeline of a scenario on a deployment; `reset` lets it begin anew."""

    name: ClassVar[str] = "timeline"

    def __init__(self, cluster: Cluster) -> None:
        self.scenario: Scenario | None = None
        self.was_reset = Bell()
        """Rings when a reset is over."""
        self._cluster = cluster
        self._timeline = Timeline((), ())
        self._readings = Readings()
        self._outcomes: dict[int, VerbOutcome] = {}
        """The outcome of the last performance of each step."""
        self._failures: dict[int, str] = {}
        self._began = 0.0
        self._seen = 0
        self._pause: Pause | None = None

    # A part of the deployment.

    def mark(self) -> None:
        """Do nothing: the beginning is the beginning of the timeline."""

    def reset(self) -> None:
        """End the timeline; it begins anew when everything else is as it was at the beginning."""
        if self.scenario is not None:
            self._stop()
            self.was_reset.listen(self.start)

    def describe(self) -> Any:
        """Return the steps, each with how often it was performed and whether it is in effect."""
        return self.rows()

    def rows(self) -> list[dict[str, Any]]:
        """Return the steps as documents, and how far each has come.

        `error` says why a step failed, `reading` what is measured of the trigger that one waits for, and
        `next` in how many seconds it is performed, where that is known; each is None where there is nothing.
        """
        now = self._now()
        if self._timeline.needs_readings:
            self._read()
        return [
            {
                "step": each.entry.place.of_line,
                "trigger": each.entry.trigger,
                "verb": each.entry.verb,
                "arguments": dict(each.entry.arguments),
                "performed": each.performed,
                "skipped": each.skipped,
                "state": self._state_of(number),
                "error": self._failures.get(number),
                "reading": self._reading_of(each, now),
                "next": None if math.isinf(each.next_at()) else max(each.next_at() - now, 0.0),
            }
            for number, each in enumerate(self._timeline.progress)
        ]

    def _reading_of(self, progress: EntryProgress, now: float) -> str | None:
        start = progress.entry.start or progress.entry.every
        if progress.performed or progress.is_over or start is None:
            return None
        return reading_of(start, self._readings, now)

    def _state_of(self, number: int) -> str:
        progress = self._timeline.progress[number]
        if number in self._failures:
            return "failed"
        if progress.is_in_effect:
            return "inEffect"
        return "over" if progress.is_over else "waiting"

    # Playing.

    def start(self) -> None:
        """Begin the timeline at this instant."""
        self._stop()
        cluster, scenario = self._cluster, self.scenario
        assert scenario is not None
        dice = cluster.rng.spawn("scenario")
        entries = scenario.timeline
        draws = [dice.spawn(f"step{number}").random for number in range(len(entries))]
        self._timeline = Timeline(entries, draws)
        self._readings = Readings(connections=_connections(cluster))
        self._outcomes, self._failures = {}, {}
        self._began, self._seen = cluster.clock.now(), cluster.journal.last_seq
        self._step()

    def _stop(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._pause = None
        self._timeline = Timeline((), ())

    @property
    def is_over(self) -> bool:
        """Whether nothing will be performed any more."""
        return self._timeline.is_over

    @property
    def elapsed(self) -> float:
        """The seconds since the timeline began."""
        return self._cluster.clock.now() - self._began

    def _now(self) -> float:
        return self._cluster.clock.now() - self._began + _INSTANT

    def _step(self) -> None:
        """Perform all that is due, and wait for what is next."""
        now = self._now()
        timeline = self._timeline
        while acts := self._due(now):
            for act in acts:
                self._act(act)
                if self._timeline is not timeline:  # that was `reset`
                    return
        self._pause = None
        if timeline.is_over:
            return
        bell = self._cluster.journal.changed if self._timeline.heeds_events else None
        until = self._began + self._timeline.next_at(now)
        self._pause = Pause(self._cluster, self._step, Await(bell, until))

    def _due(self, now: float) -> list[Act]:
        if self._timeline.needs_readings:
            self._read()
        return self._timeline.due(now, self._readings)

    def _read(self) -> None:
        """Bring the readings up to date."""
        cluster, readings = self._cluster, self._readings
        journal = cluster.journal
        readings.note(journal.since(min(self._seen, journal.last_seq)))
        self._seen = journal.last_seq
        readings.now = cluster.clock.now()
        primary = next((node for node in cluster.servers if node.is_primary), None)
        readings.primary = None if primary is None else primary.name
        readings.queued = 0
        for node in cluster.servers:  # what waits in admission control
            own = node.admission
            holders = (own.ingress, own.execution.read, own.execution.write)
            readings.queued += own.requests.queued + sum(holder.queued for holder in holders)
        readings.held = _connections(cluster)

    def _act(self, act: Act) -> None:
        entry = self._timeline.progress[act.number].entry
        if not act.undo:
            self._perform(act.number, entry.verb, entry.arguments, "Scenario step")
            return
        outcome = self._outcomes.get(act.number)
        if outcome is None:
            return
        if outcome.done:
            self._undo(act.number, outcome)
        else:  # what the verb found out is known at its end
            outcome.when_done(self._unless_reset(partial(self._undo, act.number, outcome)))

    def _undo(self, number: int, outcome: VerbOutcome) -> None:
        entry = self._timeline.progress[number].entry
        if outcome.failure is None:
            name, arguments = undo_of(VERBS[entry.verb], entry.arguments, outcome.result())
            self._perform(number, name, arguments, "Scenario step is undone", undo=True)

    def _perform(
        self, number: int, verb: str, arguments: Mapping[str, Any], message: str, *, undo: bool = False
    ) -> None:
        place = self._timeline.progress[number].entry.place.of_line
        self._log(message, {"step": place, "verb": verb, "arguments": dict(arguments)})
        try:
            outcome = self._cluster.control.perform(verb, arguments)
        except ControlError as error:
            self._failed(number, verb, error, undo=undo)
            return
        self._outcomes[number] = outcome
        if not outcome.done:
            ended = partial(self._ended, number, verb, outcome, undo=undo)
            outcome.when_done(self._unless_reset(ended))

    def _unless_reset(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Return a callback that does nothing once the timeline has begun anew."""
        timeline = self._timeline
        return lambda: callback() if self._timeline is timeline else None

    def _ended(self, number: int, verb: str, outcome: VerbOutcome, *, undo: bool) -> None:
        if isinstance(outcome.failure, ControlError):
            self._failed(number, verb, outcome.failure, undo=undo)

    def _failed(self, number: int, verb: str, error: ControlError, *, undo: bool) -> None:
        """End a step that failed, or leave it out this time where it repeats; log its line."""
        place = self._timeline.progress[number].entry.place.of_line
        attr = {"step": place, "verb": verb, "error": str(error)}
        if self._timeline.fail(number, undo=undo):
            self._log("Scenario step skipped", attr, severity="W")
            return
        self._failures[number] = str(error)
        self._log("Scenario step failed", attr, severity="E")

    def _log(self, message: str, attr: Mapping[str, Any], *, severity: str = "I") -> None:
        log = self._cluster.servers[0].log
        log.write("CONTROL", 0, message, severity=severity, context="scenario", attr=attr)


def _connections(cluster: Cluster) -> int:
    return sum(len(node.connections) for node in cluster.servers)
