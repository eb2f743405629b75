"""Unified Test Format: runOnRequirement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted import ScriptedDeployment

from harness.adapters.base import EntityKind, Feature
from harness.adapters.deployment import Topology
from harness.unified.model import Case, EntitySpec, Requirement
from harness.unified.requirements import missing_feature, skip_reason, unmet_reason, version_of
from mongowire.documents.marks import Location

SHARDED = Topology.SHARDED
SHARDED_RS = Topology.SHARDED_REPLICA_SET

UNMET: list[tuple[dict[str, Any], dict[str, Any], str | None]] = [
    ({"min_server_version": "8.2"}, {}, None),
    ({"min_server_version": "8.10"}, {}, "needs server 8.10 or newer, this is 8.2.0"),
    (
        {"min_server_version": "4.0.10"},
        {"server_version": (4, 0, 9)},
        "needs server 4.0.10 or newer, this is 4.0.9",
    ),
    ({"min_server_version": "3.6"}, {"server_version": (3, 6, 0)}, None),
    ({"max_server_version": "8.1.99"}, {}, "needs server 8.1.99 or older, this is 8.2.0"),
    ({"max_server_version": "8.2"}, {}, None),
    ({"topologies": ("single", "replicaset")}, {}, None),
    ({"topologies": ("single",)}, {}, "needs topology single, this is replicaset"),
    ({"topologies": ("sharded",)}, {"topology": SHARDED_RS}, None),
    ({"topologies": ("sharded-replicaset",)}, {"topology": SHARDED_RS}, None),
    ({"topologies": ("sharded-replicaset",)}, {"topology": SHARDED}, None),
    (
        {"topologies": ("sharded-replicaset",)},
        {"topology": SHARDED, "server_version": (3, 4, 0)},
        "needs topology sharded-replicaset, this is sharded",
    ),
    (
        {"topologies": ("sharded",)},
        {"topology": Topology.LOAD_BALANCED},
        "needs topology sharded, this is load-balanced",
    ),
    ({"auth": True}, {}, "needs authentication on"),
    ({"auth": False}, {"auth": True}, "needs authentication off"),
    ({"auth": True}, {"auth": True}, None),
    ({"serverless": "require"}, {}, "needs a serverless instance"),
    ({"serverless": "forbid"}, {}, None),
    ({"csfle": True}, {}, "needs client-side encryption (csfle)"),
    ({"csfle": {"minLibmongocryptVersion": "1.15.1"}}, {}, "needs client-side encryption (csfle)"),
    ({"csfle": False}, {}, None),
    ({"server_parameters": {"a": 1}}, {"parameters": {"a": 1.0}}, None),
    (
        {"server_parameters": {"a": True}},
        {"parameters": {"a": 1}},
        "needs server parameter a to be True, it is 1",
    ),
    ({"server_parameters": {"a": 1}}, {}, "needs server parameter a to be 1, the server does not have it"),
    ({"auth_mechanism": "scram-sha-1"}, {"parameters": {"authenticationMechanisms": ["SCRAM-SHA-1"]}}, None),
    (
        {"auth_mechanism": "MONGODB-OIDC"},
        {"parameters": {"authenticationMechanisms": ["SCRAM-SHA-1"]}},
        "needs authentication mechanism MONGODB-OIDC, the server offers SCRAM-SHA-1",
    ),
]


@pytest.mark.parametrize(("requirement", "here", "reason"), UNMET)
def test_a_requirement_that_is_not_met_is_named(
    requirement: dict[str, Any], here: dict[str, Any], reason: str | None
) -> None:
    assert unmet_reason([Requirement(**requirement)], ScriptedDeployment(**here)) == reason


def test_one_requirement_of_several_is_enough() -> None:
    single, replica_set = Requirement(topologies=("single",)), Requirement(topologies=("replicaset",))
    assert unmet_reason([single, replica_set], ScriptedDeployment()) is None
    reason = unmet_reason([single, Requirement(auth=True)], ScriptedDeployment())
    assert reason == "needs topology single, this is replicaset; or needs authentication on"
    assert unmet_reason([], ScriptedDeployment()) is None


@pytest.mark.parametrize(
    ("text", "version"),
    [("4", (4, 0, 0)), ("4.2", (4, 2, 0)), ("4.9.0-alpha4-271-g7d5cf02", (4, 9, 0)), ("4.0.10", (4, 0, 10))],
)
def test_a_version_has_three_numbers(text: str, version: tuple[int, int, int]) -> None:
    assert version_of(text) == version


PLACE = Location(Path("x.yml"), 1)


def case(**fields: Any) -> Case:
    empty: dict[str, Any] = dict.fromkeys(
        (
            "entities",
            "initial_data",
            "operations",
            "expected_events",
            "expected_logs",
            "expected_spans",
            "outcome",
        ),
        (),
    )
    plain = {
        "id": "x::y",
        "description": "y",
        "path": PLACE.path,
        "line": 1,
        "index": 0,
        "schema_version": "1.0",
    }
    conditions: dict[str, Any] = {"file_requirements": (), "requirements": (), "skip_reason": None}
    return Case(**{**empty, **plain, **conditions, **fields})


def entity(kind: EntityKind, **body: Any) -> EntitySpec:
    return EntitySpec(kind, "it", {"id": "it", **body}, PLACE)


@pytest.mark.parametrize(
    ("fields", "feature"),
    [
        ({"entities": (entity(EntityKind.SESSION),)}, Feature.SESSIONS),
        ({"entities": (entity(EntityKind.BUCKET),)}, Feature.GRIDFS),
        ({"entities": (entity(EntityKind.CLIENT_ENCRYPTION),)}, Feature.ENCRYPTION),
        ({"entities": (entity(EntityKind.CLIENT, autoEncryptOpts={}),)}, Feature.ENCRYPTION),
        ({"entities": (entity(EntityKind.CLIENT, serverApi={}),)}, Feature.SERVER_API),
        ({"entities": (entity(EntityKind.CLIENT, observeLogMessages={}),)}, Feature.LOG_MESSAGES),
        ({"entities": (entity(EntityKind.CLIENT, observeTracingMessages={}),)}, Feature.TRACING),
        ({"entities": (entity(EntityKind.CLIENT, observeEvents=["poolReadyEvent"]),)}, Feature.POOL_EVENTS),
        (
            {"entities": (entity(EntityKind.CLIENT, observeEvents=["topologyOpeningEvent"]),)},
            Feature.SDAM_EVENTS,
        ),
        ({"entities": (entity(EntityKind.CLIENT, uriOptions={"timeoutMS": 1}),)}, Feature.TIMEOUT_MS),
        ({"expected_logs": ({},)}, Feature.LOG_MESSAGES),
        ({"expected_spans": ({},)}, Feature.TRACING),
    ],
)
def test_a_case_is_skipped_where_the_driver_lacks_a_feature_and_the_reason_names_it(
    fields: dict[str, Any], feature: Feature
) -> None:
    reason = missing_feature(case(**fields), frozenset(Feature) - {feature})
    assert reason is not None
    assert feature.name in reason
    assert feature.value in reason
    assert missing_feature(case(**fields), frozenset(Feature)) is None


def test_the_skip_reason_of_a_file_comes_before_everything_else() -> None:
    skipped = case(skip_reason="DRIVERS-1", requirements=(Requirement(auth=True),))
    assert skip_reason(skipped, ScriptedDeployment(), frozenset()) == "DRIVERS-1"
