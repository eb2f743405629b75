"""A claim as a value: a few scenarios that differ in one thing, and what is to be seen in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from harness.sim.fleet.scenario import Scenario

PolicyName: TypeAlias = Literal["aimd", "follow-throughput"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One scenario of a claim; with a `policy`, that of `pushbackd govern` sets its limiters.

    With `connections` it sets the limit of new connections as well.
    """

    name: str
    scenario: Scenario
    policy: PolicyName | None = None
    connections: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPhase:
    """A part of the scenarios that has a column in the table, from `start` to `end` in seconds."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What is claimed, the sides that show it, and the words on them.

    `shows` says what comes out, at the size at which the texts of docs/ were written; `misleads` where the
    model is not the world. `capacity` is what all servers together can do a second.
    """

    name: str
    title: str
    setting: str
    shows: str
    misleads: str
    sides: tuple[Side, ...]
    phases: tuple[ClaimPhase, ...]
    capacity: float
