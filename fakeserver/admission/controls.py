"""The admission control of one server: every mechanism, set as its parameters say."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import bson
from bson import Int64

from fakeserver.admission.execution_control import ExecutionControl, ExecutionParameters
from fakeserver.admission.exemptions import AddressRanges, ApplicationNames
from fakeserver.admission.flow_control import FlowControl, FlowControlParameters
from fakeserver.admission.rate_limiter import RateLimiter
from fakeserver.admission.service_model import ServiceModel, ServiceParameters
from fakeserver.admission.throughput_probing import Pools, ProbingParameters
from fakeserver.admission.tickets import TicketHolder
from fakeserver.errors import CommandError
from fakeserver.waiting import Bell
from mongowire.codes import ErrorCode, Label

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fakeserver.connection_state import ConnectionState
    from fakeserver.parameters import ServerParameters
    from fakeserver.profile import Profile

CORES: Final = 8
"""The processors that a server says it has, the same everywhere, so that runs are alike."""
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
        self.execution = ExecutionControl(execution_parameters(parameters), cores=cores, now=now)
        self.flow = FlowControl(flow_parameters(parameters))
        self.replenish_flow: Callable[[float], float] = lambda _now: math.inf
        """Begins the periods of flow control whose time has come, and tells when the next one begins."""
        self.on_queued: Callable[[], None] = _nothing
        """Hears that somebody waits for an execution ticket, which a probe may bring."""
        self.service = ServiceModel(service_parameters(parameters))
        self._settings = 0
        self._read_switches()

    def _request_rate(self) -> dict[str, Any]:
        own = self._parameters
        rate = self.fractional_rate or own["ingressRequestAdmissionRatePerSec"]
        return {"rate": rate, "burst_seconds": own["ingressRequestAdmissionBurstCapacitySecs"]}

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
        self.execution.reconfigure(execution_parameters(own), now)
        self.flow.parameters = flow_parameters(own)
        self.service.parameters = service_parameters(own)
        self.ingress.resize(own["ingressAdmissionControllerTicketPoolSize"], now)
        self._read_switches()
        self.changed.ring()

    def catch_up(self, now: float) -> None:
        """Do what was due in the meantime, when nobody asked: probes, and periods of flow control."""
        self.execution.catch_up(now)
        self.replenish_flow(now)

    def override_rate(self, rate: float | None, now: float) -> None:
        """Put a rate of requests in the place of the parameter's, or take it away again."""
        self.fractional_rate = rate
        self.requests.reconfigure(now, **self._request_rate())
        self._read_switches()

    def _read_switches(self) -> None:
        """Work out once what is asked for every request."""
        own = self._parameters
        self._settings += 1
        self.limits_requests = self._profile.knows_overload and own["ingressRequestRateLimiterEnabled"]
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
        """Whether `prefers` may be true of anything."""
        names = own["ingressRequestRateLimiterApplicationExemptions"]
        self._exempt_names = ApplicationNames(tuple(names["appNames"] if names else ()))
        self.admits_freely = self.requests.is_unbounded and not self._has_exemptions
        """Whether the limiter of requests has nothing to decide, and nobody to tell apart."""
        self.refusal = _refusal(self._profile, own)
        self.rejection = bson.encode(_rejection(self.refusal))

    # Who need not ask.

    @property
    def _has_exemptions(self) -> bool:
        return bool(self._exempt_names.prefixes or self._exempt_addresses)

    def exempts(self, connection: ConnectionState) -> bool:
        """Whether the requests of a connection need no token, by its address or by its client's name.

        The answer is kept until a parameter changes, or the client has introduced itself.
        """
        settings, greeted = self._settings, connection.metadata is not None
        known = connection.exemption
        if known is None or known[:2] != (settings, greeted):
            exempt = connection.peer in self._exempt_addresses or self._exempt_names.match(
                connection.metadata
            )
            connection.exemption = known = (settings, greeted, exempt)
        return known[2]

    def prefers(self, names: Sequence[str], connection: ConnectionState) -> bool:
        """Whether an operation is exempt from tickets, by its command's name or by its client's."""
        if not self._exempt_commands.isdisjoint(names):
            return True
        return bool(self._preferred_names.prefixes) and self._preferred_names.match(connection.metadata)

    def bypasses_establishment(self, peer: str) -> bool:
        """Whether a peer, `address:port`, connects without asking."""
        return peer in self._bypassing_addresses

    # What is shown.

    def request_stats(self, now: float) -> dict[str, Any]:
        """Return `network.ingressRequestRateLimiter`."""
        stats = self.requests.stats(now)
        if self._profile.hints_backoff:
            return dict(stats)
        return {name: stats[name] for name in _OLDER_REQUEST_STATS}

    def queues(self, now: float, *, mongos: bool) -> dict[str, Any]:
        """Return `queues`; a mongos has no storage engine to keep. Who asks has it catch up before."""
        shown = {} if mongos else {"execution": self.execution.stats()}
        return {
            **shown,
            "ingress": self.ingress.stats(),
            "ingressSessionEstablishment": dict(self.establishment.stats(now)),
        }


def _nothing() -> None:
    """Do nothing: nobody listens."""


_REQUEST_RATE: Final = frozenset(
    {"ingressRequestAdmissionRatePerSec", "ingressRequestAdmissionBurstCapacitySecs"}
)
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


def _rejection(refusal: CommandError) -> dict[str, Any]:
    return {
        "ok": 0.0,
        "errmsg": refusal.message,
        "code": int(refusal.code),
        "codeName": refusal.code_name,
        **refusal.extra,
    }


def execution_parameters(own: ServerParameters) -> ExecutionParameters:
    """Read what execution control is set to."""
    prefix = "executionControl"
    return ExecutionParameters(
        algorithm=own[f"{prefix}ConcurrencyAdjustmentAlgorithm"],
        fixed=Pools(own[f"{prefix}ConcurrentReadTransactions"], own[f"{prefix}ConcurrentWriteTransactions"]),
        max_queue_depth=Pools(own[f"{prefix}ReadMaxQueueDepth"], own[f"{prefix}WriteMaxQueueDepth"]),
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
        weights=own["serviceTimeWeights"],
    )
