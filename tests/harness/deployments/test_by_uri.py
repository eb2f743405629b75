"""The external deployments of a run: from the command line, or from the environment where that is named."""

from __future__ import annotations

import pytest

from harness.deployments.external import ExternalUris

DEPLOYMENT = {"MONGODB_URI": "mongodb://a"}
BALANCERS = {"SINGLE_MONGOS_LB_URI": "mongodb://one", "MULTI_MONGOS_LB_URI": "mongodb://all"}


@pytest.mark.parametrize(("uri", "multi"), [("", None), ("", ""), ("mongodb://a", "")])
def test_an_empty_connection_string_names_no_servers_and_is_refused(uri: str, multi: str | None) -> None:
    with pytest.raises(ValueError, match="a connection string is empty"):
        ExternalUris.of(uri, multi, {})


@pytest.mark.parametrize(
    ("uri", "multi", "environment", "uris"),
    [
        (None, None, {}, None),
        ("mongodb://a", None, {}, ExternalUris("mongodb://a")),
        ("mongodb://a", "mongodb://b", {}, ExternalUris("mongodb://a", "mongodb://b")),
        ("mongodb://b", None, DEPLOYMENT, ExternalUris("mongodb://b")),
        ("env", None, DEPLOYMENT, ExternalUris("mongodb://a")),
        ("env", None, BALANCERS, ExternalUris("mongodb://one", "mongodb://all")),
        (
            "env",
            None,
            {"MULTI_MONGOS_LB_URI": "mongodb://all"},
            ExternalUris("mongodb://all", "mongodb://all"),
        ),
        ("env", None, {**DEPLOYMENT, **BALANCERS}, ExternalUris("mongodb://a")),
        (
            "env",
            None,
            {**DEPLOYMENT, **BALANCERS, "LOAD_BALANCER": "true"},
            ExternalUris("mongodb://one", "mongodb://all"),
        ),
        ("env", None, {**DEPLOYMENT, "LOAD_BALANCER": "true"}, ExternalUris("mongodb://a")),
    ],
)
def test_servers_are_those_that_were_named(
    uri: str | None, multi: str | None, environment: dict[str, str], uris: ExternalUris | None
) -> None:
    assert ExternalUris.of(uri, multi, environment) == uris


@pytest.mark.parametrize("environment", [DEPLOYMENT, BALANCERS, {**DEPLOYMENT, **BALANCERS}])
def test_the_environment_alone_chooses_no_servers_since_a_run_drops_their_collections(
    environment: dict[str, str],
) -> None:
    assert ExternalUris.of(None, None, environment) is None


@pytest.mark.parametrize(
    ("uri", "multi", "environment", "message"),
    [
        (None, "mongodb://b", {}, "needs that of one"),
        ("env", "mongodb://b", DEPLOYMENT, "give no other one"),
        ("env", None, {}, "none of MONGODB_URI, SINGLE_MONGOS_LB_URI and MULTI_MONGOS_LB_URI is set"),
        ("env", None, {"MONGODB_URI": ""}, "is set in the environment"),
        ("", None, {}, "a connection string is empty"),
        ("mongodb://a", "", {}, "a connection string is empty"),
    ],
)
def test_what_makes_no_sense_is_refused(
    uri: str | None, multi: str | None, environment: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ExternalUris.of(uri, multi, environment)
