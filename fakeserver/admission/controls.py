"""The admission control of one server: every mechanism, configured by the server's parameters.

A request meets the mechanisms in this order, and each of them defends something else:

    connection ── establishment (rate) ─┐
                                        │
    request ── requests (rate) ── … ── ingress (tickets) ── flow (rate) ── execution (tickets) ── service

1. `establishment` limits new connections a second, before a byte is read: a TLS handshake and SCRAM cost
   more than most commands.
2. `requests` limits requests a second, before anything is parsed, so a rejection costs next to nothing. A
   request that is admitted on credit is parsed and checked first, and waits afterwards: an invalid one
   gives its token back instead of waiting to be refused.
3. `ingress` limits the commands at work at a time. It asks after authorization and the not-primary check,
   so that a command that fails anyway takes no ticket, and before any lock.
4. `flow` limits the writes a second by the lag of the majority, `execution` the operations in the storage
   engine, by reads and writes. Flow control comes first: a writer that waits for its flow-control ticket
   must not hold an execution ticket, which a reader could use.
5. `service` is the load itself, which no real server has: the time that a command takes.

Rates and tickets answer different questions. A rate bounds how fast a queue can grow whatever the commands
do; tickets bound the contention of those inside. Rejections therefore come from the rates (code 462, and a
closed connection), waits from the tickets, which reject (433) only where their queue is bounded and full.

Nothing here waits or looks at a clock: every instant is an argument, in seconds. Stages
(`fakeserver.stages.admission`), the gate (`fakeserver.deployment.establishment`) and a trial of probing
(`harness.overload.probing`) ask and wait. Parameters are read once, in `reconfigure`, and not for every
request: what a request asks is a plain attribute (`limits_requests`, `admits_freely`). A real server reads
its atomics each time; the result is the same, since a change of parameters takes place between two requests.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import bson
from bson import Int64

from fakeserver.admission import ticket_sizes
from fakeserver.admission.execution_control import ExecutionControl, ExecutionParameters, TicketHolder
from fakeserver.admission.flow_control import MAX_TICKETS, FlowControl, FlowControlParameters
from fakeserver.admission.parameters import MOST_WRITES
from fakeserver.admission.prioritization import AddressRanges, ApplicationNames, Prioritization
from fakeserver.admission.rate_limiter import NEWEST_STATS, RateLimiter
from fakeserver.admission.service_model import ServiceModel, ServiceParameters
from fakeserver.admission.throughput_probing import ProbingParameters, TicketCounts
from fakeserver.errors import CommandError
from fakeserver.settings.declaration import INT32_MAX, INT64_MAX
from fakeserver.waiting.bell import Bell
from mongowire.codes import ErrorCode, Label

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from fakeserver.access.session import ConnectionState
    from fakeserver.admission.invocations import TicketPool
    from fakeserver.profile import Profile
    from fakeserver.settings.server_parameters import ServerParameters


# Warnings in the log when parameters of admission control are set.


RATE: Final = "ingressRequestAdmissionRatePerSec"
RATE_SWITCH: Final = "ingressRequestRateLimiterEnabled"


class Warned(NamedTuple):
    """A line of the log: its component, the number that a mongod gives it or 0, and what it says."""

    component: str
    number: int
    message: str
    attr: Mapping[str, Any] | None = None


_SIZES_END_PROBING: Final = Warned(
    "STORAGE",
    11039601,
    "When using the kThroughputProbing execution control algorithm, all concurrent transactions server"
    " parameters must remain at their default values. Non-default values will be ignored.",
)
_SIZE_WHILE_PROBING: Final = Warned(
    "STORAGE",
    11280900,
    "Updating {serverParameter} while a dynamic adjustment algorithm (e.g., throughputProbing) is active. The"
    " new value will be stored but may not take effect until the algorithm is changed.",
)


def at_start(parameters: ServerParameters, profile: Profile) -> Iterator[Warned]:
    """Yield what a server warns of when it starts."""
    yield from _idle_rate(parameters)
    if parameters.sizes_end_probing and profile.resizes_probed_pools:
        yield _SIZES_END_PROBING


def on_change(names: Collection[str], parameters: ServerParameters, profile: Profile) -> Iterator[Warned]:
    """Yield what a server warns of after it was set `names`."""
    if RATE in names or RATE_SWITCH in names:
        yield from _idle_rate(parameters)
    for limit in ticket_sizes.resized_while_probing(names, parameters, profile):
        yield _SIZE_WHILE_PROBING._replace(attr={"serverParameter": limit})


def _idle_rate(own: ServerParameters) -> Iterator[Warned]:
    """Warn of a rate that limits nothing: the switch beside it is easily missed."""
    if RATE in own and own[RATE] < INT32_MAX and not own[RATE_SWITCH]:
        yield Warned("COMMAND", 0, f"{RATE} has no effect while {RATE_SWITCH} is false")


CORES: Final = 8
"""The processors that a server says it has, the same everywhere, so that runs are alike."""
_POOLS: Final[tuple[TicketPool, TicketPool]] = ("read", "write")
REQUEST_LIMITER: Final = "ingressRequestRateLimiter"
ESTABLISHMENT_LIMITER: Final = "SessionEstablishmentRateLimiter"


class AdmissionControl:
    """The limiters, tickets and flow control of one server, and its service times.

    Whoever changes the parameters calls `reconfigure`.
    """

    def __init__(self, parameters: ServerParameters, profile: Profile, *, cores: int, now: float) -> None:
        self._parameters = parameters
        self._profile = profile
        self.fractional_rate: float | None = None
        """A rate of requests that the fail point of that name puts in the place of the parameter's."""
        self.changed = Bell()
        """Rings when parameters changed: those who wait look whether they still have to."""
        self.requests = RateLimiter(REQUEST_LIMITER, **self._request_rate(), now=now)
        self.establishment = RateLimiter(ESTABLISHMENT_LIMITER, **self._establishment_rate(), now=now)
        self.ingress = TicketHolder(parameters["ingressAdmissionControllerTicketPoolSize"])
        self._sizes_hold = False
        """Sizes of ticket pools that were set at runtime keep the algorithm from changing them."""
        self.execution = ExecutionControl(self._execution_parameters(), cores=cores, now=now)
        self.low = Prioritization(parameters, cores=cores)
        self.flow = FlowControl(flow_parameters(parameters))
        self.pacing = Pacing(parameters, now)
        self.replenish_flow: Callable[[float], float] = lambda _now: math.inf
        """Begins the periods of flow control whose time has come; returns the instant of the next one."""
        self.on_queued: Callable[[], None] = _nothing
        """Called when an operation begins to wait for an execution ticket, which a probe may bring."""
        self.service = ServiceModel(service_parameters(parameters))
        self._settings = 0
        self._read_switches()

    def _request_rate(self) -> dict[str, Any]:
        own = self._parameters
        rate = self.fractional_rate or own[RATE]
        return {"rate": rate, "burst_seconds": own["ingressRequestAdmissionBurstCapacitySecs"]}

    def _execution_parameters(self) -> ExecutionParameters:
        own, probes = self._parameters, self._profile.probes_for_tickets and not self._sizes_hold
        algorithm = own[ticket_sizes.ALGORITHM] if probes else ticket_sizes.FIXED
        return execution_parameters(own, algorithm)

    def _establishment_rate(self) -> dict[str, Any]:
        own = self._parameters
        return {
            "rate": own["ingressConnectionEstablishmentRatePerSec"],
            "burst_seconds": own["ingressConnectionEstablishmentBurstCapacitySecs"],
        }

    def reconfigure(self, names: frozenset[str], now: float) -> None:
        """Take changed parameters into account. A limiter whose rate is untouched keeps tokens and debts."""
        if names & _REQUEST_RATE:
            self.requests.reconfigure(now, **self._request_rate())
        if names & _ESTABLISHMENT_RATE:
            self.establishment.reconfigure(now, **self._establishment_rate())
        own = self._parameters
        self.replenish_flow(now)
        self._sizes_hold = ticket_sizes.hold(names, own, held=self._sizes_hold)
        self.execution.reconfigure(self._execution_parameters(), now)
        self.low.reconfigure(own, now)
        self.flow.parameters = flow_parameters(own)
        self.pacing.reconfigure(own, now)
        self.service.parameters = service_parameters(own)
        self.ingress.resize(own["ingressAdmissionControllerTicketPoolSize"], now)
        self._read_switches()
        self.changed.ring()

    def catch_up(self, now: float) -> None:
        """Do what was due in the meantime, when nobody asked: probes, and periods of flow control."""
        self.execution.catch_up(now)
        self.replenish_flow(now)

    @property
    def limiters(self) -> tuple[RateLimiter, ...]:
        """The rate limiters."""
        return self.requests, self.establishment, *self.pacing.limiters

    def fill(self, now: float) -> None:
        """Fill the buckets of the rate limiters."""
        for limiter in self.limiters:
            limiter.fill(now)

    def override_flow(self, tickets: Any, now: float) -> None:
        """Give writers so many tickets a second from the next period on, or as many as the lag allows again.

        What is no positive number changes nothing, as on a server.
        """
        self.replenish_flow(now)
        usable = isinstance(tickets, int | float) and int(tickets) > 0
        self.flow.override = int(tickets) if usable else None

    def override_rate(self, rate: float | None, now: float) -> None:
        """Put a rate of requests in the place of the parameter's, or take it away again."""
        self.fractional_rate = rate
        self.requests.reconfigure(now, **self._request_rate())
        self._read_switches()

    def _read_switches(self) -> None:
        """Work out once what is asked for every request."""
        own = self._parameters
        self._settings += 1
        self.limits_requests = self._profile.knows_overload and own[RATE_SWITCH]
        self.limits_connections = own["ingressConnectionEstablishmentRateLimiterEnabled"]
        self.limits_ingress = self._profile.knows_overload and own["ingressAdmissionControlEnabled"]
        self.serves_at_once = not own["serviceTimeBaseMillis"]
        self.requests.max_queue_depth = own["ingressRequestAdmissionMaxQueueDepth"]
        self.establishment.max_queue_depth = own["ingressConnectionEstablishmentMaxQueueDepth"]
        self.ingress.max_queue_depth = own["ingressAdmissionControllerMaxQueueDepth"]
        self._exempt_addresses = _ranges(own["ingressRequestRateLimiterExemptions"])
        self._bypassing_addresses = _ranges(own["ingressConnectionEstablishmentRateLimiterBypass"])
        self._exempt_commands = frozenset(own["admissionPriorityExemptions"].get("commands", ()))
        preferred = own["admissionPriorityExemptions"].get("appNames", ())
        self._preferred_names = ApplicationNames(tuple(preferred))
        self.has_preferences = bool(self._exempt_commands or self._preferred_names.prefixes)
        """Whether `prefers` can be true of any operation."""
        names = own["ingressRequestRateLimiterApplicationExemptions"]
        self._exempt_names = ApplicationNames(tuple(names["appNames"] if names else ()))
        self.has_exemptions = bool(self._exempt_names.prefixes or self._exempt_addresses)
        """Whether `exempts` can be true of any connection."""
        self.paces_replies = self._profile.hints_backoff
        """Whether replies that refuse a request are paced, and counted."""
        self.admits_freely = self.requests.is_unbounded and not self.has_exemptions
        """Whether the limiter of requests admits everybody, and no exemption has to be counted."""
        self.refusal = refusal = _refusal(self._profile, own)
        self.rejection_code = int(refusal.code)
        # Encoded once: under overload rejections are most of what a server sends.
        self.rejection = bson.encode(
            {
                "ok": 0.0,
                "errmsg": refusal.message,
                "code": int(refusal.code),
                "codeName": refusal.code_name,
                **refusal.extra,
            }
        )

    # Who need not ask.

    def exempts(self, connection: ConnectionState) -> bool:
        """Return whether the requests of a connection need no token, by its address or by its client's name.

        The answer is kept until a parameter changes, or the client has introduced itself.
        """
        settings, greeted = self._settings, connection.metadata is not None
        known = connection.exemption
        if known is None or known[0] != settings or known[1] is not greeted:
            exempt = connection.peer in self._exempt_addresses or self._exempt_names.match(
                connection.metadata
            )
            connection.exemption = known = (settings, greeted, exempt)
        return known[2]

    def prefers(self, names: Sequence[str], connection: ConnectionState) -> bool:
        """Return whether an operation is exempt from tickets, by its command's name or by its client's."""
        if not self._exempt_commands.isdisjoint(names):
            return True
        return bool(self._preferred_names.prefixes) and self._preferred_names.match(connection.metadata)

    def bypasses_establishment(self, peer: str) -> bool:
        """Return whether a peer, `address:port`, connects without asking."""
        return peer in self._bypassing_addresses

    # What is shown.

    def request_stats(self, now: float) -> dict[str, Any]:
        """Return the limiters of `network`: that of requests, and that of the replies which refuse them."""
        stats = self.requests.stats(now)
        if self._profile.hints_backoff:
            return {REQUEST_LIMITER: dict(stats), EGRESS: dict(self.pacing.egress.stats(now))}
        return {REQUEST_LIMITER: {name: stats[name] for name in _OLDER_REQUEST_STATS}}

    def queues(self, now: float, *, mongos: bool) -> dict[str, Any]:
        """Return `queues`; tickets are those of a data node. Who asks has it catch up before."""
        shown: dict[str, Any] = {}
        if not mongos:
            shown |= {"execution": self._execution_stats(), "ingress": self.ingress.stats()}
        newer = self._profile.hints_backoff
        shown["ingressSessionEstablishment"] = {
            name: value
            for name, value in self.establishment.stats(now).items()
            if newer or name not in NEWEST_STATS
        }
        if self._profile.hints_backoff and not mongos:
            shown["writeThrottler"] = self.pacing.write_stats(now)
        return shown

    def _execution_stats(self) -> dict[str, Any]:
        shown = self.execution.stats()
        if not self._profile.resizes_probed_pools:
            return shown
        # As the parameter has it, even while sizes hold against it.
        probes = self._parameters[ticket_sizes.ALGORITHM] == ticket_sizes.PROBING
        pools: dict[str, Any] = {pool: self.low.pool_stats(shown[pool], pool) for pool in _POOLS}
        return {"usesThroughputProbing": probes, **shown, **self.low.stats(), **pools}

    def flow_stats(self, now: float) -> dict[str, Any]:
        """Return `flowControl`."""
        shown = self.flow.stats()
        return shown | ({"rateLimiter": self.pacing.flow_stats(now)} if self._profile.hints_backoff else {})


def _nothing() -> None:
    """Do nothing: nobody listens."""


_REQUEST_RATE: Final = frozenset({RATE, "ingressRequestAdmissionBurstCapacitySecs"})
_ESTABLISHMENT_RATE: Final = frozenset(
    {"ingressConnectionEstablishmentRatePerSec", "ingressConnectionEstablishmentBurstCapacitySecs"}
)
_OLDER_REQUEST_STATS: Final = (
    *("rejectedAdmissions", "successfulAdmissions", "exemptedAdmissions", "attemptedAdmissions"),
    "totalAvailableTokens",
)


def _ranges(document: Mapping[str, Any]) -> AddressRanges:
    return AddressRanges.of(document["ranges"])


def _refusal(profile: Profile, parameters: ServerParameters) -> CommandError:
    """Return the error of a request that is refused a token, as the release words and labels it."""
    if not profile.hints_backoff:
        labels = [Label.SYSTEM_OVERLOADED, Label.RETRYABLE]
        message = f"Rate limiter '{REQUEST_LIMITER}' rate exceeded"
        return CommandError(_EXCEEDED, message, extra={"errorLabels": labels})
    retry = [Label.RETRYABLE] if parameters["ingressRequestRateLimiterAllowRetries"] else []
    extra: dict[str, Any] = {"errorLabels": [Label.SYSTEM_OVERLOADED, *retry, Label.NO_WRITES_PERFORMED]}
    backoff = parameters["externalClientBaseBackoffMS"]
    if retry and backoff:
        extra["baseBackoffMS"] = Int64(backoff)
    return CommandError(_EXCEEDED, "Request rejected: ingress request rate limit exceeded", extra=extra)


_EXCEEDED: Final = ErrorCode.INGRESS_REQUEST_RATE_LIMIT_EXCEEDED


def execution_parameters(own: ServerParameters, algorithm: str) -> ExecutionParameters:
    """Read what execution control is set to, beside the algorithm that is in force."""
    prefix = "executionControl"
    return ExecutionParameters(
        algorithm=algorithm,
        fixed=TicketCounts(own[ticket_sizes.READ], own[ticket_sizes.WRITE]),
        max_queue_depth=TicketCounts(own[f"{prefix}ReadMaxQueueDepth"], own[f"{prefix}WriteMaxQueueDepth"]),
        probing=ProbingParameters(
            initial_concurrency=own["throughputProbingInitialConcurrency"],
            min_concurrency=own["throughputProbingMinConcurrency"],
            max_concurrency=own["throughputProbingMaxConcurrency"],
            read_write_ratio=own["throughputProbingReadWriteRatio"],
            moving_average_weight=own["throughputProbingConcurrencyMovingAverageWeight"],
            step_multiple=own["throughputProbingStepMultiple"],
            compares_pools=own["throughputProbingComparesPools"],
        ),
        interval=own["throughputProbingConcurrencyAdjustmentIntervalMillis"] / 1000,
    )


def flow_parameters(own: ServerParameters) -> FlowControlParameters:
    """Read what flow control is set to."""
    return FlowControlParameters(
        enabled=own["enableFlowControl"],
        target_lag=own["flowControlTargetLagSeconds"],
        threshold_percentage=own["flowControlThresholdLagPercentage"],
        min_tickets_per_second=own["flowControlMinTicketsPerSecond"],
        decay_constant=own["flowControlDecayConstant"],
        fudge_factor=own["flowControlFudgeFactor"],
        ticket_adder=own["flowControlTicketAdderConstant"],
        ticket_multiplier=own["flowControlTicketMultiplierConstant"],
        warn_threshold=own["flowControlWarnThresholdSeconds"],
        sample_period=own["flowControlSamplePeriod"],
        max_samples=own["flowControlMaxSamples"],
    )


def service_parameters(own: ServerParameters) -> ServiceParameters:
    """Read what the service-time model is set to."""
    return ServiceParameters(
        base=own["serviceTimeBaseMillis"] / 1000,
        concurrency_limit=own["serviceTimeConcurrencyLimit"],
        factor=own["serviceTimeFactor"],
        k=own["serviceTimeK"],
        longest=own["serviceTimeLongestMillis"] / 1000,
        workers=own["serviceTimeWorkers"],
        recompute=own["serviceTimeRecomputeMillis"] / 1000,
        weights=own["serviceTimeWeights"],
    )


# The rate limiters that 9.0 has beside those of requests and of connections.
#
#     egress   paces the replies that refuse a request, so that clients which do not back off are slowed down
#     writes   the write throttler: tokens are documents that a writer writes
#     flow     flow control by a rate, in the place of tickets for a second
#
# Each is a `RateLimiter`; none but the first is without bounds where nobody has set it.


EGRESS: Final = "egressResponseRateLimiter"
_WRITES: Final = "writeThrottle"
_FLOW: Final = "flowControl"


class Pacing:
    """The three limiters, as the parameters `own` set them."""

    def __init__(self, own: Mapping[str, Any] | Any, now: float) -> None:
        self.egress = RateLimiter(EGRESS, **_egress(own), max_queue_depth=INT64_MAX, now=now)
        self.writes = RateLimiter(_WRITES, **_writes(own), now=now)
        self.flow = RateLimiter(
            _FLOW, rate=MAX_TICKETS, burst_seconds=own["flowControlRateLimiterBurstCapacitySecs"], now=now
        )
        self._set = (_egress(own), _writes(own))
        self._flow_rate = MAX_TICKETS
        self._read(own)

    def __repr__(self) -> str:
        return f"<Pacing {self.egress!r}, {self.writes!r}, {self.flow!r}>"

    @property
    def limiters(self) -> tuple[RateLimiter, ...]:
        """All of them."""
        return self.egress, self.writes, self.flow

    def reconfigure(self, own: Mapping[str, Any] | Any, now: float) -> None:
        """Take changed parameters into account. A limiter whose rate is untouched keeps tokens and debts."""
        before, self._set = self._set, (_egress(own), _writes(own))
        for limiter, old, new in zip((self.egress, self.writes), before, self._set, strict=True):
            if new != old:
                limiter.reconfigure(now, **new)
        if own["flowControlRateLimiterBurstCapacitySecs"] != self._flow_burst:
            self._read(own)
            self.flow.reconfigure(now, rate=self._flow_rate, burst_seconds=self._flow_burst)
        self._read(own)

    def _read(self, own: Mapping[str, Any] | Any) -> None:
        self.limits_writes: bool = own["writeThrottlerEnabled"]
        self.most_cost: int = own["writeThrottlerMaxCostPerOp"]
        self.writes.max_queue_depth = own["writeThrottlerMaxQueueDepth"]
        self.limits_flow: bool = own["flowControlUseRateLimiter"]
        """Whether writers ask `flow`, and not for a ticket of the second."""
        self.flow.max_queue_depth = own["flowControlRateLimiterMaxQueueDepth"]
        self._flow_burst: float = own["flowControlRateLimiterBurstCapacitySecs"]

    def allow(self, tickets: int, now: float) -> None:
        """Give writers so many tickets of flow control a second."""
        rate = max(tickets, 1)
        if rate != self._flow_rate:
            self._flow_rate = rate
            self.flow.reconfigure(now, rate=rate, burst_seconds=self._flow_burst)

    def cost(self, documents: int) -> int:
        """Return the tokens that a write of so many documents costs."""
        cost = max(documents, 1)
        return min(cost, self.most_cost) if self.most_cost else cost

    def write_stats(self, now: float) -> dict[str, Any]:
        """Return `queues.writeThrottler`."""
        rate = self._set[1]["rate"]
        return {"enabled": self.limits_writes, "targetRateLimit": rate, **self.writes.stats(now)}

    def flow_stats(self, now: float) -> dict[str, Any]:
        """Return `flowControl.rateLimiter`."""
        return {**self.flow.stats(now), "queued": Int64(self.flow.queued)}


def _egress(own: Mapping[str, Any] | Any) -> dict[str, Any]:
    return {"rate": own[f"{EGRESS}RatePerSec"], "burst_seconds": own[f"{EGRESS}BurstCapacitySecs"]}


def _writes(own: Mapping[str, Any] | Any) -> dict[str, Any]:
    rate = own["writeThrottlerTargetRatePerSec"] if own["writeThrottlerEnabled"] else MOST_WRITES
    return {"rate": min(rate, MOST_WRITES), "burst_seconds": own["writeThrottlerBurstCapacitySecs"]}
