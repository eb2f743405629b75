"""The paths of requests through the stages of one server, worked out once (docs/adr/0016).

    Ways   all ways through one arrangement of stages, numbered in the order of the steps
    Leg    a part of the way: the stages up to `Step.LOOKUP`, or those of one command behind it
    Path   the leg of commands of one shape, as the server stands: without what does nothing to them

A leg leaves out methods that a stage does not override, and stages that never concern the command. A path
leaves out more, on the word of the stages: what does nothing to a command with these fields, with these
parameters, without fail points (`Stage.entry`), and what has nothing to take back of one that succeeded at
once (`Stage.exit`). It may hold stages that are idle, and lacks none that is not. What goes another way than
straight through (a wait, a refusal, an exception) goes on along the leg, which is what the path came from.

Paths hold as long as the server stands as it does. `Pipeline.recompile` begins anew, and a walk that is under
way compares: if its own run has changed how the server stands, it is left along the leg.
"""

from __future__ import annotations

from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.request.stage import Shape, Stage, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.stage import Enter, Leave, Screen

_MOST: Final = 512
"""The shapes of commands that are looked at: enough for an application, and no leak for a fuzzer."""
_REMEMBERED: Final = 4096
"""The commands on arrangements of stages: more than the kinds of servers have."""
_NOTHING: Final = Shape()


class Leg(NamedTuple):
    """A part of the way, each stage with its number: those to enter, and those to leave from there."""

    entering: tuple[tuple[int, Enter], ...]
    leaving: tuple[tuple[int, Leave], ...]
    leads_on: bool = False
    """Behind it begins the leg of the command, which was not known before."""


class Path(NamedTuple):
    """The leg of commands of one shape, without what does nothing to them."""

    entering: tuple[tuple[int, Enter], ...]
    leaving: tuple[Leave, ...]
    """What is left to do for a command that succeeded at once."""
    leg: Leg
    """The whole leg."""


class Paused(NamedTuple):
    """The position of a request that waits."""

    ways: Ways
    """The arrangement of stages along which it came, whatever is installed meanwhile."""
    reached: int
    """The number of the stage that has it wait."""
    rest: Leg
    """The rest of its leg."""
    since: float
    """The instant at which it reached that stage."""

    @property
    def step(self) -> Step:
        """The step of the stage that has it wait."""
        return self.ways.step_of(self.reached)


class Ways:
    """The ways through one arrangement of stages. Those that are not `compiled` are its legs alone."""

    def __init__(self, stages: Sequence[Stage], order: Sequence[Step], *, compiled: bool = True) -> None:
        for stage in stages:
            if stage.step not in order:
                raise ValueError(f"{stage!r} stands at {stage.step}, which is not a step of this order")
        ordered = sorted(stages, key=lambda stage: order.index(stage.step))
        looked_up = order.index(Step.LOOKUP)
        execute = order.index(Step.EXECUTE)
        self.executed_at = sum(order.index(stage.step) < execute for stage in ordered)
        self._numbered = list(enumerate(ordered))
        self._kinds = tuple(map(type, ordered))
        self._first = sum(order.index(stage.step) <= looked_up for stage in ordered)
        self.start = Leg(_entering(self._numbered[: self._first]), _leaving(self._numbered), leads_on=True)
        self._legs: dict[CommandSpec, Leg] = {}
        self._compiled = compiled
        self.paths: dict[tuple[Any, ...], Path] = {}
        """By the command and its shape: its specification, the names, the types."""
        self._met: set[tuple[Any, ...]] = set()
        """The shapes that were met once: most that are met twice are met often."""
        self.opening: tuple[tuple[int, Enter], ...] | None = None
        """The stages up to `Step.LOOKUP`, without those that are idle."""
        self.screened: tuple[tuple[int, Enter], ...] = ()
        """The same, without the one that has decided by `door`."""
        self.door: Screen | None = None
        """The decision of the first stage, where it needs no request for that."""

    def anew(self) -> Ways:
        """Return the same ways without their paths."""
        ways = copy(self)
        ways.forget()
        return ways

    def forget(self) -> None:
        """Forget the paths."""
        self.paths, self._met = {}, set()
        self.opening, self.screened, self.door = None, (), None

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages, by their numbers."""
        return tuple(stage for _, stage in self._numbered)

    def step_of(self, number: int) -> Step:
        """Return the step of a stage, by its number."""
        return self._numbered[number][1].step

    def leg_of(self, spec: CommandSpec) -> Leg:
        """Return the leg of a command: without the stages that have nothing to do with it."""
        leg = self._legs.get(spec)
        if leg is None:
            stages = self._concerned(spec)
            behind = [each for each in stages if each[0] >= self._first]
            leg = self._legs[spec] = Leg(_entering(behind), _leaving(stages))
        return leg

    def _concerned(self, spec: CommandSpec) -> list[tuple[int, Stage]]:
        return [self._numbered[number] for number in _concerned(self._kinds, self._first, spec)]

    # Paths.

    def open(self, node: Any) -> tuple[tuple[int, Enter], ...]:
        """Work out the way up to `Step.LOOKUP`, as a server stands, and return it."""
        stages = self._numbered[: self._first]
        if not self._compiled:
            self.opening = self.start.entering
            return self.opening
        self.opening = _entries(stages, None, _NOTHING, node)
        if stages:
            self.door = stages[0][1].screen(node)
            self.screened = _entries(stages[1:], None, _NOTHING, node)
        return self.opening

    def path_of(self, key: tuple[Any, ...], node: Any) -> Path | None:
        """Return the path of a shape that is not among `paths`; None where it goes along the leg."""
        if not self._compiled:
            return None
        if key not in self._met:
            if len(self._met) < _MOST:
                self._met.add(key)
            return None
        spec, fields = key[0], key[1:]
        count = len(fields) // 2
        shape = Shape(fields[:count], fields[count:])
        stages = self._concerned(spec)
        behind = [each for each in stages if each[0] >= self._first]
        exits = [stage.exit(spec, shape, node) for _, stage in reversed(stages) if stage.leaves]
        path = self.paths[key] = Path(
            _entries(behind, spec, shape, node),
            tuple(leave for leave in exits if leave is not None),
            self.leg_of(spec),
        )
        return path


@lru_cache(_REMEMBERED)
def _concerned(kinds: tuple[type[Stage], ...], first: int, spec: CommandSpec) -> tuple[int, ...]:
    """Return the numbers of the stages that have to do with a command, and of all before `first`.

    A run has a deployment for each case, and all of them would ask the same.
    """
    return tuple(number for number, kind in enumerate(kinds) if number < first or kind.concerns(spec))


def _entering(stages: Sequence[tuple[int, Stage]]) -> tuple[tuple[int, Enter], ...]:
    return tuple((number, stage.enter) for number, stage in stages if stage.enters)


def _leaving(stages: Sequence[tuple[int, Stage]]) -> tuple[tuple[int, Leave], ...]:
    return tuple((number, stage.leave) for number, stage in reversed(stages) if stage.leaves)


def _entries(
    stages: Sequence[tuple[int, Stage]], spec: CommandSpec | None, shape: Shape, node: Any
) -> tuple[tuple[int, Enter], ...]:
    asked = ((number, stage.entry(spec, shape, node)) for number, stage in stages if stage.enters)
    return tuple((number, enter) for number, enter in asked if enter is not None)
