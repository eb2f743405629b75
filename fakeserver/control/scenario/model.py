"""A scenario file as values: frozen, checked, printable."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fakeserver.control.scenario.triggers import AnsweredRequests, Condition, Instant, Trigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.control.scenario.loader import Place
    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.spec import ClusterSpec


@dataclass(frozen=True, slots=True)
class RuleOrFault:
    """A rule or a fault, with its place."""

    document: Mapping[str, Any]
    place: Place


@dataclass(frozen=True, slots=True)
class Seed:
    """The documents of a collection, with their place."""

    namespace: str
    documents: Sequence[Mapping[str, Any]]
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """A step of a timeline: a verb, and when it is performed.

    It is performed at `start`; without one at the end of the first period of `every`, or at once. `every`
    repeats it, `times` or `until` ends that. `lasting` is the field `for`: its end undoes the verb, and so
    does `until` where nothing repeats. `jitter` is the longest random delay of each performance, in seconds.
    """

    place: Place
    verb: str
    arguments: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    start: Trigger | None = None
    every: Instant | AnsweredRequests | None = None
    lasting: Instant | AnsweredRequests | None = None
    until: Trigger | None = None
    times: int | None = None
    jitter: float = 0.0

    @property
    def trigger(self) -> str:
        """The triggers as the file has them: `at 5s every 2s for 1s`."""
        words = {Instant: "at", AnsweredRequests: "after", Condition: "when"}
        parts = [f"{words[type(self.start)]} {self.start}"] if self.start is not None else []
        named = (("every", self.every), ("for", self.lasting), ("until", self.until))
        parts += [f"{name} {value}" for name, value in named if value is not None]
        return " ".join(parts) or "at 0s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario for servers: a deployment, its data, rules, faults, and verbs on a timeline.

    `fakeserver.load_scenario` reads one from a file; `fakeserver.start` and `BackgroundCluster` run it.
    """

    file: str
    description: str
    spec: ClusterSpec
    data: Sequence[Seed] = ()
    rules: Sequence[RuleOrFault] = ()
    faults: Sequence[RuleOrFault] = ()
    timeline: Sequence[TimelineEntry] = ()

    @property
    def seed(self) -> int:
        """The seed of every random choice of its servers."""
        return self.spec.seed

    def on(self, spec: ClusterSpec) -> Scenario:
        """Return the same scenario on another deployment."""
        return replace(self, spec=spec)

    async def begin(self, cluster: Cluster) -> None:
        """Load data, rules and faults into a running deployment, and begin the timeline.

        Raises `ScenarioFileError` for what the deployment refuses.
        """
        from fakeserver.control.scenario.player import begin  # noqa: PLC0415 - who loads a file may not run it

        await begin(self, cluster)
