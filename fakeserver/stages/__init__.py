"""The stages of a mongod and of a mongos, each at its step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeserver.request.pipeline import Step
from fakeserver.stages.admission import (
    ExecutionTickets,
    HandshakeExemption,
    IngressExemption,
    IngressTickets,
    RateLimitQueue,
    RequestRateLimit,
    WriteThrottle,
)
from fakeserver.stages.authorization import AdminDatabase, Authentication, Authorization
from fakeserver.stages.concerns import ReadConcernCheck, WriteConcernCheck, WriteConcernWait
from fakeserver.stages.eligibility import (
    ClientMetadata,
    Deadline,
    Eligibility,
    ReplicaState,
    SessionFields,
    TimeLeft,
)
from fakeserver.stages.execution import Execute
from fakeserver.stages.failpoints import FailPoints, HelloFailPoints
from fakeserver.stages.parsing import ApiVersion, Lookup, Parse, ValidateBody
from fakeserver.stages.replying import ClusterTimeGossip, ErrorLabels, LargeReplies, SlowQueries
from fakeserver.stages.routing import RewriteStateChanges, Routing
from fakeserver.stages.write_throttler import WriteRateLimit

if TYPE_CHECKING:
    from fakeserver.request.pipeline import Stage


def mongod_stages(*, auth: bool) -> tuple[Stage, ...]:
    """Return new stages for one server, `auth` with access control; their order is the pipeline's affair."""
    return (
        RequestRateLimit(),
        ClusterTimeGossip(),
        Parse(),
        Lookup(),
        *([Authentication()] if auth else []),
        LargeReplies(),
        ValidateBody(),
        ApiVersion(),
        SlowQueries(),
        ErrorLabels(),
        ClientMetadata(),
        SessionFields(),
        FailPoints(),
        Eligibility(),
        AdminDatabase(),
        *([Authorization()] if auth else []),
        ReplicaState(),
        Deadline(),
        RateLimitQueue(),
        IngressTickets(),
        IngressExemption(),
        WriteRateLimit(),
        ReadConcernCheck(),
        WriteConcernCheck(),
        TimeLeft(),
        WriteThrottle(),
        HandshakeExemption(),
        HelloFailPoints(),
        ExecutionTickets(),
        Execute(),
        WriteConcernWait(),
    )


def mongos_stages(*, auth: bool) -> tuple[Stage, ...]:
    """Return new stages for one mongos: it has no replica state and no storage, and routes instead."""
    shared = (
        stage
        for stage in mongod_stages(auth=auth)
        if stage.step is not Step.REPLICA_STATE and not isinstance(stage, HandshakeExemption)
    )
    return (*shared, Routing(), RewriteStateChanges())
