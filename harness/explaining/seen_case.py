"""A case as servers saw it, for those who look for causes: operations with their attempts, connections.

`breaches` and `blame` read it. It is made once for a case that failed, from the servers' `WireRecord` and the
operations that the runner performed; `harness.unified.server_side.grouping` says which operation sent a
request. Commands that no operation sends for its result, as those of monitors, are left out before.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from harness.adapters.base import EntityKind
from harness.unified.server_side.attempt import attempts_of
from harness.unified.server_side.connection_judge import lives_of
from harness.unified.server_side.grouping import by_operation
from harness.unified.server_side.rules import EDITIONS, Timing
from harness.unified.server_side.seen import connections_of, requests_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fakeserver.network.wire_record import WireRecord
    from harness.unified.account import PerformedOperation
    from harness.unified.model import Case, EntitySpec
    from harness.unified.server_side.attempt import JudgedAttempt
    from harness.unified.server_side.connection_judge import ConnectionLife
    from harness.unified.server_side.rules import JudgedEdition
    from harness.unified.server_side.seen import SeenRequest


OF_CONNECTIONS: Final = frozenset(
    {"hello", "isMaster", "ismaster", "saslStart", "saslContinue", "authenticate", "getnonce"}
    | {"configureFailPoint", "endSessions", "killCursors"}
)
"""Commands that no operation sends for its result."""


@dataclass(frozen=True, slots=True)
class SeenStep:
    """An operation of the scenario, the attempts in which servers saw it, and the client that made them."""

    step: PerformedOperation
    attempts: Sequence[JudgedAttempt]
    client: EntitySpec

    @property
    def options(self) -> Mapping[str, Any]:
        """The client's connection string options."""
        options: Mapping[str, Any] = self.client.body.get("uriOptions", {})
        return options

    @property
    def has_limit(self) -> bool:
        """Whether the operation has a limit of time of its own or of its client."""
        return "timeoutMS" in self.options or "timeoutMS" in self.step.operation.arguments


@dataclass(frozen=True, slots=True)
class SeenCase:
    """The operations of a case in their order, and the connections, as servers saw them.

    Operations that run at the same time are left out: which of them sent a request may be a guess.
    """

    edition: JudgedEdition
    steps: Sequence[SeenStep] = ()
    connections: Sequence[ConnectionLife] = ()

    @classmethod
    def of(
        cls, case: Case, performed: Sequence[PerformedOperation], record: WireRecord, edition: str
    ) -> SeenCase:
        """Return what the record holds of a case; connections, where an application name tells whose."""
        connections = connections_of(record.entries)
        sent = (each for each in requests_of(connections) if each.name not in OF_CONNECTIONS)
        timing = Timing(record.round_trip, record.is_disturbed)
        # All entities, each with its place among the events of the process. A case may give an id to another
        # entity later, so an operation's client is looked up as of its beginning.
        created: list[tuple[int, EntitySpec]] = [(-1, spec) for spec in case.entities]
        for step in performed:
            if step.operation.name == "createEntities":
                created += ((step.began_seq, spec) for spec in step.operation.arguments.get("entities", ()))
        steps = tuple(
            SeenStep(step, attempts_of(requests, timing), client)
            for step, requests in alone(by_operation(sent, performed, case.operations))
            if (client := _client_of(step, created)) is not None
        )
        clients = (spec.body for _, spec in created if spec.kind is EntityKind.CLIENT)
        names = Counter(body.get("uriOptions", {}).get("appName") for body in clients)
        # Two clients of one name, or without any, could not be told apart: a pool of one would seem to break
        # rules.
        lives = (each for each in lives_of(connections) if names[each.seen.app_name] == 1)
        return cls(EDITIONS[edition], steps, tuple(lives))


def alone(
    found: Sequence[tuple[PerformedOperation, list[SeenRequest]]],
) -> Iterator[tuple[PerformedOperation, list[SeenRequest]]]:
    """Yield the operations, with their requests, that no other one overlaps in time; None is no end yet."""
    in_order = sorted(found, key=lambda each: each[0].began_seq)
    ended: float = 0
    for index, (step, requests) in enumerate(in_order):
        end = inf if step.ended is None else step.ended_seq
        following = in_order[index + 1 :][:1]
        if step.began_seq > ended and all(end < other.began_seq for other, _ in following):
            yield step, requests
        ended = max(ended, end)


def _client_of(step: PerformedOperation, created: Sequence[tuple[int, EntitySpec]]) -> EntitySpec | None:
    """Return the client that performs an operation; None for a cursor's, whose parent is in no file."""
    before = {spec.id: spec for seq, spec in created if seq < step.began_seq}
    spec = before.get(step.operation.object)
    while spec is not None and spec.kind is not EntityKind.CLIENT:
        spec = before.get(spec.body.get("client") or spec.body.get("database") or "")
    return spec


# A likely cause of a failure: what the driver did, the rules that forbid it, and a sentence of evidence.


class Cause(NamedTuple):
    """A mistake of a driver.

    `name` is the same for every case with this cause ("no backoff"), `text` the sentence that the events of
    this case prove. `rules` are the ids of rules.yml that forbid it; none where no numbered rule does.
    """

    name: str
    text: str
    rules: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.text} [{', '.join(self.rules)}]" if self.rules else self.text
