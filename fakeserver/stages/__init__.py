"""The stages of a mongod and of a mongos, each at its step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeserver.pipeline import Step
from fakeserver.stages.admission import (
    ExecutionTickets,
    HandshakeExemption,
    IngressExemption,
    IngressTickets,
    RateLimitQueue,
    RequestRateLimit,
    WriteThrottle,
)
from fakeserver.stages.api_version import ApiVersion
from fakeserver.stages.authorization import Authentication, Authorization
from fakeserver.stages.deadline import Deadline, TimeLeft
from fakeserver.stages.eligibility import Eligibility
from fakeserver.stages.execution import Execute
from fakeserver.stages.failpoints import FailPoints
from fakeserver.stages.hello import HelloFailPoints
from fakeserver.stages.labelling import ClusterTimeGossip, ErrorLabels
from fakeserver.stages.large_replies import LargeReplies
from fakeserver.stages.metadata import ClientMetadata
from fakeserver.stages.parsing import Lookup, Parse, ValidateBody
from fakeserver.stages.read_concern import ReadConcernCheck
from fakeserver.stages.replica_state import ReplicaState
from fakeserver.stages.routing import RewriteStateChanges, Routing
from fakeserver.stages.session import SessionFields
from fakeserver.stages.slow_queries import SlowQueries
from fakeserver.stages.write_concern import WriteConcernCheck, WriteConcernWait

if TYPE_CHECKING:
    from fakeserver.pipeline import Stage


def mongod_stages() -> tuple[Stage, ...]:
    """Return new stages for one server; their order is the pipeline's affair."""
    return (
        RequestRateLimit(),
        ClusterTimeGossip(),
        Parse(),
        Lookup(),
        Authentication(),
        LargeReplies(),
        ValidateBody(),
        ApiVersion(),
        SlowQueries(),
        ErrorLabels(),
        ClientMetadata(),
        SessionFields(),
        FailPoints(),
        Eligibility(),
        Authorization(),
        ReplicaState(),
        Deadline(),
        RateLimitQueue(),
        IngressTickets(),
        IngressExemption(),
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


def mongos_stages() -> tuple[Stage, ...]:
    """Return new stages for one mongos: it has no replica state and no storage, and routes instead."""
    shared = (
        stage
        for stage in mongod_stages()
        if stage.step is not Step.REPLICA_STATE and not isinstance(stage, HandshakeExemption)
    )
    return (*shared, Routing(), RewriteStateChanges())
