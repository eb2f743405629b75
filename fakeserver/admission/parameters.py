"""The parameters of admission control: names, defaults and bounds, as data."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from fakeserver.admission import prioritization, ticket_sizes
from fakeserver.errors import CommandError
from fakeserver.idl.fields import Field, Fields
from fakeserver.profile import WIRE_70, WIRE_82, WIRE_90
from fakeserver.settings.declaration import INT32_MAX, Kind, Parameter
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.profile import Profile


# The work of clients that have gone, and the time at which a server notices (`abandonedRequests`).
#
# A server does not watch its connections while it works. An operation may be marked as one that ends with
# its client; then each check for interrupts looks at the connection, at most twice a second, and a wait
# inside the operation ends as soon as the socket does. Commands that read carry the mark, from the moment
# they begin: what waits ahead of that, for a token or an ingress ticket, is served however long its client
# has been gone. Commands that write carry none, and are done to their end.


AT_ONCE: Final = "atOnce"
AT_INTERRUPT_CHECK: Final = "atInterruptCheck"
NEVER: Final = "never"

CHECK_PERIOD: Final = 0.5
"""The seconds between two looks at the connection, of an operation that works."""

_MARKED: Final = frozenset(
    {
        *("aggregate", "count", "distinct", "find"),
        *("listCollections", "listDatabases", "listIndexes"),
        *("authenticate", "getnonce", "hello", "isMaster", "saslContinue", "saslStart"),
    }
)
"""The commands that end with their clients. A getMore is none of them, unless it is an exhaust stream's."""


class RequestPlace(Enum):
    """Where a request is when its client leaves."""

    AHEAD = "ahead of its run"
    """It waits to be admitted, or a fail point holds it: the command has not begun."""
    HELD = "held by a rule of ours"
    QUEUED = "in its run, and waiting"
    """For a ticket, for data, for a change, for a lock."""
    WORKING = "in its run, and working"
    BEHIND = "behind its run"
    """It waits for its write concern."""


def ends_with_client(command: str, *, writes: bool, exhaust: bool) -> bool:
    """Return whether a command is marked; `writes` tells of an aggregation that stores what it finds."""
    return exhaust or (command in _MARKED and not writes)


def noticed_at(when: str, place: RequestPlace, *, marked: bool, since: float, now: float) -> float:
    """Return the instant at which a server notices that a client has gone: `now` for at once, inf for never.

    `when` is the value of the parameter, `since` the instant at which the work began. The answer holds for
    as long as the request stays at its place.
    """
    if when == NEVER:
        return math.inf
    if when == AT_ONCE or place is RequestPlace.HELD:
        return now
    if not marked or place in {RequestPlace.AHEAD, RequestPlace.BEHIND}:
        return math.inf
    if place is RequestPlace.QUEUED:
        return now
    return since + (math.floor((now - since) / CHECK_PERIOD) + 1) * CHECK_PERIOD


_MOST_CONNECTIONS: Final = 1_000_000
MOST_WRITES: Final = 1_000_000_000
"""The documents a second from which on the write throttler holds nobody back."""
_MANY_SAMPLES: Final = 1_000_000
_POOLS: Final = 2

_RANGES: Final = ("CIDRRangeListParameter", Fields.of(Field("ranges", "array", required=True, of="string")))
_APP_NAMES: Final = ("AppNameExemptions", Fields.of(Field("appNames", "array", required=True, of="string")))

_REQUEST_RATE: Final = (
    Parameter("ingressRequestRateLimiterEnabled", "bool", default=False, since=WIRE_82),
    Parameter("ingressRequestAdmissionRatePerSec", "int", INT32_MAX, minimum=1, since=WIRE_82),
    Parameter(
        "ingressRequestAdmissionBurstCapacitySecs", "double", sys.float_info.max, above=0, since=WIRE_82
    ),
    Parameter(
        "ingressRequestRateLimiterExemptions", "document", {"ranges": []}, struct=_RANGES, since=WIRE_82
    ),
    Parameter(
        "ingressRequestRateLimiterApplicationExemptions", "document", None, struct=_APP_NAMES, since=WIRE_82
    ),
    Parameter("ingressRequestRateLimiterAllowRetries", "bool", default=True, since=WIRE_90),
    Parameter("ingressRequestAdmissionMaxQueueDepth", "long", 0, minimum=0, since=WIRE_90),
    Parameter("externalClientBaseBackoffMS", "long", 0, minimum=0, since=WIRE_90),
)

_ESTABLISHMENT: Final = (
    Parameter("ingressConnectionEstablishmentRateLimiterEnabled", "bool", default=False, since=WIRE_70),
    Parameter("ingressConnectionEstablishmentRatePerSec", "int", INT32_MAX, minimum=1, since=WIRE_70),
    Parameter(
        "ingressConnectionEstablishmentBurstCapacitySecs",
        "double",
        sys.float_info.max,
        above=0,
        since=WIRE_70,
    ),
    Parameter("ingressConnectionEstablishmentMaxQueueDepth", "int", 0, minimum=0, since=WIRE_70),
    Parameter(
        "ingressConnectionEstablishmentRateLimiterBypass",
        "document",
        {"ranges": []},
        struct=_RANGES,
        since=WIRE_70,
    ),
    Parameter("maxIncomingConnections", "int", _MOST_CONNECTIONS, at_runtime=False, minimum=5),
    Parameter(
        "maxIncomingConnectionsOverride",
        "document",
        {"ranges": []},
        at_startup=False,
        struct=_RANGES,
        since=WIRE_70,
    ),
)

_EGRESS: Final = (
    Parameter("egressResponseRateLimiterRatePerSec", "int", INT32_MAX, minimum=1, since=WIRE_90),
    Parameter(
        "egressResponseRateLimiterBurstCapacitySecs", "double", sys.float_info.max, above=0, since=WIRE_90
    ),
)
"""The pace of replies that refuse a request."""

_MOST_BACKOFF: Final = 10_000
_RETRIES: Final = (
    Parameter("defaultClientMaxRetryAttempts", "int", 3, minimum=0, since=WIRE_82),
    Parameter("defaultClientBaseBackoffMillis", "int", 100, minimum=0, since=WIRE_82),
    Parameter("defaultClientMaxBackoffMillis", "int", _MOST_BACKOFF, minimum=0, since=WIRE_82),
    Parameter("shardRetryTokenBucketCapacity", "int", 1000, minimum=1, since=WIRE_82),
    Parameter("shardRetryTokenReturnRate", "double", 0.1, minimum=0, maximum=1, since=WIRE_82),
    Parameter("overloadAwareServerSelectionEnabled", "bool", default=False, since=WIRE_82),
)
"""Retries of a mongos against overloaded shards."""

_INGRESS: Final = (
    Parameter("ingressAdmissionControlEnabled", "bool", default=True, since=WIRE_82),
    Parameter("ingressAdmissionControllerTicketPoolSize", "int", _MOST_CONNECTIONS, minimum=0, since=WIRE_82),
    Parameter("ingressAdmissionControllerMaxQueueDepth", "int", INT32_MAX, minimum=0, since=WIRE_90),
)

_EXEMPT: Final = (
    "AdmissionPriorityExemptions",
    Fields.of(Field("commands", "array", of="string"), Field("appNames", "array", of="string")),
)
_PRIORITY: Final = (Parameter("admissionPriorityExemptions", "document", {}, struct=_EXEMPT),)
"""Ours: on a server, an operation's priority is set by the code that it runs through."""

_ALGORITHMS: Final = (ticket_sizes.PROBING, ticket_sizes.FIXED)


def _renamed(name: str, older: tuple[str, ...], kind: Kind, default: Any, **facts: Any) -> list[Parameter]:
    """Return a parameter and those that are older names of it."""
    newest = Parameter(name, kind, default, **facts)
    return [newest, *(Parameter(each, kind, default, alias_of=name, **facts) for each in older)]


_EXECUTION: Final = (
    *_renamed(
        ticket_sizes.READ,
        ("storageEngineConcurrentReadTransactions", "wiredTigerConcurrentReadTransactions"),
        *("int", ticket_sizes.DEFAULT),
        minimum=1,
    ),
    *_renamed(
        ticket_sizes.WRITE,
        ("storageEngineConcurrentWriteTransactions", "wiredTigerConcurrentWriteTransactions"),
        *("int", ticket_sizes.DEFAULT),
        minimum=1,
    ),
    *_renamed(
        "executionControlReadMaxQueueDepth",
        ("storageEngineReadMaxQueueDepth",),
        *("int", INT32_MAX),
        minimum=0,
    ),
    *_renamed(
        "executionControlWriteMaxQueueDepth",
        ("storageEngineWriteMaxQueueDepth",),
        *("int", INT32_MAX),
        minimum=0,
    ),
    *_renamed(
        ticket_sizes.ALGORITHM,
        ("storageEngineConcurrencyAdjustmentAlgorithm",),
        *("string", ticket_sizes.PROBING),
        choices=_ALGORITHMS,
        since=WIRE_70,
    ),
)

_LOW_PRIORITY: Final = (
    *(
        Parameter(name, "int", -1, minimum=-1, since=WIRE_90)
        for name in (prioritization.LOW_READ, prioritization.LOW_WRITE)
    ),
    *(
        Parameter(name, "int", INT32_MAX, minimum=0, since=WIRE_90)
        for name in (prioritization.LOW_READ_DEPTH, prioritization.LOW_WRITE_DEPTH)
    ),
    Parameter(prioritization.GATE, "bool", default=False, since=WIRE_90),
    Parameter(prioritization.HEURISTIC, "bool", default=True, since=WIRE_90),
    Parameter(prioritization.BACKGROUND, "bool", default=True, since=WIRE_90),
    Parameter(prioritization.THRESHOLD, "int", 3, minimum=0, since=WIRE_90),
    Parameter(prioritization.EXEMPT_NAMES, "document", None, struct=_APP_NAMES, since=WIRE_90),
)
"""The tickets of operations that take long. A size of -1 is the number of processors."""

_PROBING: Final = (
    Parameter("throughputProbingInitialConcurrency", "int", 0, at_runtime=False, minimum=0, since=WIRE_70),
    Parameter("throughputProbingMinConcurrency", "int", 4, minimum=1, since=WIRE_70),
    Parameter("throughputProbingMaxConcurrency", "int", 128, minimum=1, since=WIRE_70),
    Parameter("throughputProbingReadWriteRatio", "double", 0.5, minimum=0, maximum=1, since=WIRE_70),
    Parameter(
        "throughputProbingConcurrencyMovingAverageWeight", "double", 0.2, above=0, maximum=1, since=WIRE_70
    ),
    Parameter("throughputProbingStepMultiple", "double", 0.1, minimum=0.01, maximum=0.5, since=WIRE_70),
    *_renamed(
        "throughputProbingConcurrencyAdjustmentIntervalMillis",
        ("storageEngineConcurrencyAdjustmentIntervalMillis",),
        *("int", 100),
        minimum=10,
        since=WIRE_70,
    ),
    # No real server has it: it chooses between the rules of two releases.
    Parameter("throughputProbingComparesPools", "bool", default=False, since=WIRE_70),
)

_FLOW: Final = (
    Parameter("enableFlowControl", "bool", default=True),
    Parameter("flowControlTargetLagSeconds", "int", 10, minimum=1),
    Parameter("flowControlThresholdLagPercentage", "double", 0.5, minimum=0, maximum=1),
    Parameter("flowControlMaxSamples", "int", _MANY_SAMPLES, minimum=1),
    Parameter("flowControlSamplePeriod", "int", 1000, minimum=1),
    Parameter("flowControlMinTicketsPerSecond", "int", 100, minimum=1),
    Parameter("flowControlDecayConstant", "double", 0.5, minimum=0),
    Parameter("flowControlFudgeFactor", "double", 0.95, minimum=0),
    Parameter("flowControlTicketAdderConstant", "int", 1000, minimum=0),
    Parameter("flowControlTicketMultiplierConstant", "double", 1.05, minimum=0),
    Parameter("flowControlWarnThresholdSeconds", "int", 10, minimum=0),
    Parameter("flowControlUseRateLimiter", "bool", default=False, since=WIRE_90),
    Parameter("flowControlRateLimiterBurstCapacitySecs", "double", 0.5, above=0, since=WIRE_90),
    Parameter("flowControlRateLimiterMaxQueueDepth", "long", 1_000_000, minimum=1, since=WIRE_90),
)

_WRITES: Final = (
    Parameter("writeThrottlerEnabled", "bool", default=False, since=WIRE_90),
    Parameter("writeThrottlerTargetRatePerSec", "int", MOST_WRITES, minimum=1, since=WIRE_90),
    Parameter("writeThrottlerBurstCapacitySecs", "double", 0.5, above=0, since=WIRE_90),
    Parameter("writeThrottlerMaxQueueDepth", "long", 1_000_000, minimum=1, since=WIRE_90),
    Parameter("writeThrottlerMaxCostPerOp", "int", 0, minimum=0, since=WIRE_90),
)
"""The rate of documents that writers write."""


def _no_weights(weights: dict[str, Any]) -> str | None:
    """Return what is wrong with the weights of commands, if anything is."""
    for command, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight > 0:
            return f"the weight of {command} is {weight!r}, which is not a number above 0"
    return None


_SERVICE: Final = (
    Parameter("serviceTimeBaseMillis", "double", 0.0, minimum=0),
    Parameter("serviceTimeConcurrencyLimit", "int", 30, minimum=1),
    Parameter("serviceTimeFactor", "double", 2.0, minimum=1),
    Parameter("serviceTimeK", "double", 10.0, above=0),
    Parameter("serviceTimeLongestMillis", "double", 60_000.0, above=0),
    Parameter("serviceTimeWorkers", "int", 0, minimum=0),
    Parameter("serviceTimeRecomputeMillis", "double", 0.0, minimum=0),
    Parameter("serviceTimeWeights", "document", {}, refuses=_no_weights),
)
"""Those that no real server has: they set the service-time model, which is all there is to overload here."""

_ABANDONED: Final = (
    Parameter(
        "abandonedRequests", "string", AT_INTERRUPT_CHECK, choices=(AT_ONCE, AT_INTERRUPT_CHECK, NEVER)
    ),
)
"""Ours: on a server, a request notices that its client has left where its code looks."""


def what_sizes_end(given: Mapping[str, Any], values: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    """Return what else the parameters of a start set: sizes of ticket pools end throughput probing."""
    ends = ticket_sizes.end_probing(given, {**values, **given}, profile)
    return {ticket_sizes.ALGORITHM: ticket_sizes.FIXED} if ends else {}


def check_change(
    given: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any], profile: Profile
) -> None:
    """Refuse what cannot be changed as a server stands. Raises `CommandError` 2 or 20."""
    ticket_sizes.check(given, before, after, profile)
    prioritization.check(before, after)


_CONCURRENCY: Final = "Throughput probing {} concurrency cannot be {} than {} concurrency"


def check_together(values: Mapping[str, Any]) -> None:
    """Refuse values that are each in bounds and do not go together. Raises `CommandError` 2."""
    ticket_sizes.check_least(values)
    initial = values["throughputProbingInitialConcurrency"]
    least = values["throughputProbingMinConcurrency"]
    most = values["throughputProbingMaxConcurrency"]
    if least > most:
        raise CommandError(ErrorCode.BAD_VALUE, _CONCURRENCY.format("minimum", "greater", "maximum"))
    if initial and initial < least:
        raise CommandError(ErrorCode.BAD_VALUE, _CONCURRENCY.format("initial", "less", "minimum"))
    if initial > most * _POOLS:
        raise CommandError(ErrorCode.BAD_VALUE, _CONCURRENCY.format("initial", "greater", "maximum"))


TABLE: Final = (
    *_REQUEST_RATE,
    *_ESTABLISHMENT,
    *_EGRESS,
    *_RETRIES,
    *_ABANDONED,
    *(
        replace(each, on_mongos=False)
        for each in (
            *_INGRESS,
            *_PRIORITY,
            *_EXECUTION,
            *_LOW_PRIORITY,
            *_PROBING,
            *_FLOW,
            *_WRITES,
            *_SERVICE,
        )
    ),
)
