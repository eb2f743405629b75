"""The faults of a hunt: where each applies, what it does there, and whether a right client masks it.

A fault is *masked* by a right client where its driver retries, resumes or waits by itself (or where a retry
loop around a transaction does): the command must then end as in a clean run. Any other fault may be reported
to the user, by another exit code; it may not be swallowed, applied twice, or end in a hang.

A strike is performed by the deployment's own rules, faults of bytes and verbs, on the connection of the
request and just before the server reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.hunt.places import Request

OUTAGE_SECONDS: Final = 2.0
"""The time in which an outage refuses every request of its shape."""
UNDONE_AFTER: Final = 1.0
_SLOW: Final = "250ms"
_LATE: Final = "3s"
_AWAY: Final = "300ms"
_OPERATION_MOST: Final = 4
"""An operation's attempts that are struck at most: more than any driver makes."""


_ANSWERS: Final = frozenset({"error", "reply", "close", "silence"})
"""Effects that stand in the place of what a request asks for."""


class Reach(Enum):
    """The requests that a fault strikes."""

    ONCE = "once"
    """The request itself."""
    OPERATION = "operation"
    """Each attempt of its operation, so that the driver's own retries do not help."""
    SHAPE = "shape"
    """Every request of its name, for some seconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Fault:
    """A fault. `rule`, `bytes` and `verbs` are what the control performs; times and connection are added."""

    name: str
    words: str
    """What becomes of the request, in the past tense, behind its name."""
    applies: Callable[[Request], bool]
    masked: Callable[[Request], bool]
    promise: int
    """How often such a fault finds a bug, beside the others; the highest is tried first."""
    reach: Reach = Reach.ONCE
    rule: tuple[Mapping[str, Any], ...] = ()
    answer: Callable[[Request], Mapping[str, Any]] | None = None
    """Makes the rule of the request that it strikes, where it depends on that."""
    bytes: Mapping[str, Any] | None = None
    verbs: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    verbs_of: Callable[[Request], Sequence[tuple[str, Mapping[str, Any]]]] | None = None
    """Makes the verbs of the request that it strikes, where they depend on that."""
    undone_by: tuple[str, Mapping[str, Any]] | None = None
    """The verb that ends it, `UNDONE_AFTER` seconds later."""
    replica_set: bool = False
    """It needs members of a replica set."""
    secondaries: bool = False
    """It needs an application that reads from secondaries, if only without a primary."""
    lasts: bool = False
    """It goes on for a while: of the places of one shape, the first is the best."""
    endless: bool = False
    """It never ends."""
    may_hang: bool = False
    """A client without a time limit waits for ever, as it was told to: that is a note, and no bug."""

    @property
    def most(self) -> int | None:
        """The requests that it strikes at most, None for any number."""
        return {Reach.ONCE: 1, Reach.OPERATION: _OPERATION_MOST, Reach.SHAPE: None}[self.reach]

    def effects(self, request: Request) -> list[Mapping[str, Any]]:
        """Return the effects of the rule that strikes a request, as `addRule` takes them."""
        return [*self.rule, *([] if self.answer is None else [self.answer(request)])]

    def replaces(self, request: Request) -> bool:
        """Whether the server never carries out a request that it strikes, but does this instead."""
        return any(not _ANSWERS.isdisjoint(effect) for effect in self.effects(request))

    def steps(self, request: Request) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the verbs that strike a request, in order, as the control performs them."""
        return [*self.verbs, *([] if self.verbs_of is None else self.verbs_of(request))]


def _always(_: Request) -> bool:
    return True


def _never(_: Request) -> bool:
    return False


def _retried(request: Request) -> bool:
    """Retryable reads and writes; within a transaction the loop around it, for its transient errors."""
    return request.is_retried or request.in_transaction


def _once_retried(request: Request) -> bool:
    return request.is_retried


def _after_overload(request: Request) -> bool:
    return request.is_retried and request.knows_backpressure


def _acknowledged(request: Request) -> bool:
    return (request.command.get("writeConcern") or {}).get("w") != 0


def _writes(request: Request) -> bool:
    return request.is_write and not request.in_transaction and _acknowledged(request)


def _in_transaction(request: Request) -> bool:
    return request.in_transaction


def _goes_on(request: Request) -> bool:
    return request.name == "getMore" and not request.streams


def _watches(request: Request) -> bool:
    return request.name == "getMore" and request.streams


def _watches_a_collection(request: Request) -> bool:
    """Whether it asks a change stream that a renaming ends: one of a collection, and not of a database."""
    return _watches(request) and request.command.get("collection") != "$cmd.aggregate"


def _plain(request: Request) -> bool:
    """Whether it is no wait for events: a stream is opened like any other cursor."""
    return not _watches(request) and _acknowledged(request)


def _no_stream(request: Request) -> bool:
    """Whether it opens no stream either: whoever follows one may open it again for as long as it takes."""
    return _plain(request) and not request.streams


def _of_one_member(request: Request) -> bool:
    """Whether a write says itself that one member's acknowledgement is enough."""
    return _writes(request) and (request.command.get("writeConcern") or {}).get("w") == 1


def _statements(request: Request) -> bool:
    """Whether it writes by statements that may fail one by one."""
    return request.name in _BY_STATEMENT and _acknowledged(request)


def _outside(request: Request) -> bool:
    return _statements(request) and not request.in_transaction


def _size(request: Request) -> int:
    return len(request.command.get(_BY_STATEMENT[request.name], ()))


def _each_failed(request: Request) -> Mapping[str, Any]:
    """Return the reply to a write of which every statement failed; if it is ordered, all after the first."""
    failed = range(_size(request) if request.command.get("ordered") is False else 1)
    why = {"code": 1, "errmsg": "the hunt made this statement fail"}
    return {"reply": {"n": 0, "writeErrors": [{"index": each, **why} for each in failed]}}


def _failed_for_now(request: Request) -> Mapping[str, Any]:
    """Return an error that a driver retries, with the labels of a server that has them from its shards."""
    writes = request.is_write or request.name in {"commitTransaction", "abortTransaction"}
    label = Label.TRANSIENT_TRANSACTION if request.in_transaction else Label.RETRYABLE_WRITE
    return {"error": 89, "labels": [str(label)] if writes or request.in_transaction else []}


def _lost_in_failover(request: Request) -> Mapping[str, Any]:
    """Return the reply to a write that one member has applied, and lost before others had it."""
    counts = {"n": _size(request)} | ({"nModified": _size(request)} if request.name == "update" else {})
    return {"reply": {**counts, "writeConcernError": _UNREPLICATED}}


def _away_and_back(request: Request) -> Sequence[tuple[str, Mapping[str, Any]]]:
    """Return the renamings of the collection that a stream watches: each of them ends the stream."""
    here, away = request.namespace, f"{request.namespace}_away"
    return [("rename", {"namespace": here, "to": away}), ("rename", {"namespace": away, "to": here})]


_BY_STATEMENT: Final = {"insert": "documents", "update": "updates", "delete": "deletes"}
_UNREPLICATED: Final = {"code": 64, "errmsg": "waiting for replication timed out"}
_LAG: Final = ("lag", {"node": "secondary", "seconds": 10.0})
_NO_LAG: Final = ("lag", {"node": "secondary", "seconds": 0})
_LOST_REPLY: Final = {"at": "beforeReply", "do": {"cut": 0}}
_OVERLOAD: Final = [Label.SYSTEM_OVERLOADED, Label.RETRYABLE]
_REFUSED: Final = {"error": 462, "labels": [str(each) for each in _OVERLOAD]}
# The codes below say nothing about the state of a server: of one that says it shuts down, and does not,
# drivers learn the truth only with their next heartbeat.
_FAILED: Final = {"error": 1, "labels": [], "message": "the hunt made this request fail"}

FAULTS: Final = (
    Fault(
        "error",
        "failed with an error that is not retryable",
        _plain,
        _never,
        95,
        rule=(_FAILED,),
    ),
    Fault(
        "unacknowledged",
        "was carried out, and its acknowledgement failed (write concern timeout)",
        _writes,
        _never,
        90,
        rule=({"writeConcernError": _UNREPLICATED},),
    ),
    Fault(
        "lost-replies",
        "was carried out, and its reply was lost, at each attempt",
        _plain,
        _never,
        88,
        Reach.OPERATION,
        bytes=_LOST_REPLY,
    ),
    Fault(
        "write-errors",
        "failed statement by statement, with write errors",
        _statements,
        _never,
        78,
        answer=_each_failed,
    ),
    Fault(
        "unacknowledged-lost",
        "was not acknowledged by a majority (write concern timeout), and lost in a failover",
        _outside,
        _never,
        77,
        answer=_lost_in_failover,
    ),
    Fault(
        "conflict",
        "met a write conflict",
        _in_transaction,
        _always,
        92,
        rule=({"error": 112, "labels": [str(Label.TRANSIENT_TRANSACTION)]},),
    ),
    Fault(
        "commit-unknown",
        "was carried out, and its result remained unknown",
        lambda request: request.name == "commitTransaction",
        _never,
        91,
        rule=({"writeConcernError": _UNREPLICATED},),
    ),
    Fault(
        "cursor-lost",
        "found its cursor gone",
        _goes_on,
        _never,
        93,
        rule=({"error": 43, "labels": []},),
    ),
    Fault(
        "stream-lost",
        "found that the history of its change stream is lost",
        _watches,
        _never,
        94,
        rule=({"error": 286, "labels": ["NonResumableChangeStreamError"]},),
    ),
    Fault(
        "stream-invalidated",
        "found its change stream invalidated: its collection was renamed, and got its name back",
        _watches_a_collection,
        _never,
        84,
        verbs_of=_away_and_back,
        replica_set=True,
        may_hang=True,
    ),
    Fault(
        "stream-broken",
        "failed with an error that a change stream resumes after",
        _watches,
        _always,
        80,
        rule=({"error": 6, "labels": ["ResumableChangeStreamError"]},),
    ),
    Fault(
        "lost-reply",
        "was carried out, and its reply was lost",
        _plain,
        _retried,
        85,
        bytes=_LOST_REPLY,
    ),
    Fault(
        "slow", "took a quarter of a second longer", _plain, _always, 82, rule=({"delay": _SLOW},), lasts=True
    ),
    Fault(
        "outage",
        "failed, as all of its kind did for two seconds",
        _plain,
        _never,
        60,
        Reach.SHAPE,
        rule=(_FAILED,),
    ),
    Fault(
        "outage-for-good",
        "failed, as all of its kind did from then on",
        _no_stream,
        _never,
        45,
        Reach.SHAPE,
        rule=(_FAILED,),
        lasts=True,
        endless=True,
        may_hang=True,
    ),
    Fault(
        "lost-requests",
        "was lost before the server acted, at each attempt",
        _plain,
        _never,
        58,
        Reach.OPERATION,
        rule=({"close": True},),
    ),
    Fault(
        "late-reply",
        "was carried out, and answered three seconds later",
        _plain,
        _never,
        57,
        bytes={"at": "beforeReply", "do": {"delay": _LATE}},
        lasts=True,
    ),
    Fault("silent", "was never answered", _plain, _never, 56, rule=({"silence": True},), may_hang=True),
    Fault(
        "lost-request",
        "was lost before the server acted",
        _plain,
        _retried,
        54,
        rule=({"close": True},),
    ),
    Fault(
        "retryable-error",
        "failed with an error that is retryable",
        _plain,
        _once_retried,
        52,
        answer=_failed_for_now,
    ),
    Fault("overloaded", "was refused as overload", _plain, _after_overload, 50, rule=(_REFUSED,)),
    Fault(
        "overloaded-for-long",
        "was refused as overload, at each attempt",
        _plain,
        _never,
        48,
        Reach.OPERATION,
        rule=(_REFUSED,),
    ),
    Fault(
        "overloaded-without-labels",
        "was refused as overload, without the labels by which a driver tries again",
        _plain,
        _never,
        42,
        rule=({"error": 463, "labels": []},),
    ),
    Fault(
        "step-down",
        "met a primary that had just stepped down",
        _plain,
        _once_retried,
        46,
        verbs=(("stepDown", {"seconds": 1}),),
        replica_set=True,
    ),
    Fault(
        "stale",
        "was followed by a second in which a secondary lagged",
        _writes,
        _always,
        87,
        verbs=(_LAG,),
        undone_by=_NO_LAG,
        replica_set=True,
        secondaries=True,
        lasts=True,
    ),
    Fault(
        "stale-failover",
        "was followed by a failover, in which a secondary lagged",
        _writes,
        _once_retried,
        47,
        verbs=(_LAG, ("stepDown", {"seconds": 1})),
        undone_by=_NO_LAG,
        replica_set=True,
        secondaries=True,
        lasts=True,
    ),
    Fault(
        "rolled-back",
        "was acknowledged by one member, which lost it in a failover",
        _of_one_member,
        _never,
        86,
        verbs=(("rollBack", {"seconds": 0.3}),),
        replica_set=True,
    ),
    Fault(
        "refused",
        "was lost, and new connections were refused for 300 ms",
        _plain,
        _once_retried,
        40,
        rule=({"close": True},),
        verbs=(("addFault", {"fault": {"at": "accept", "do": {"reset": True}, "for": _AWAY}}),),
    ),
    Fault(
        "truncated",
        "was carried out, and its reply broke off",
        _plain,
        _retried,
        30,
        bytes={"at": "reply", "byte": 20, "do": {"cut": 0}},
    ),
)
"""All faults, by name below."""

BY_NAME: Final[Mapping[str, Fault]] = {fault.name: fault for fault in FAULTS}
