"""Which servers a user has given: on the command line, or by the environment where it was named."""

from __future__ import annotations

import pytest

from harness.given import Given

DEPLOYMENT = {"MONGODB_URI": "mongodb://a"}
BALANCERS = {"SINGLE_MONGOS_LB_URI": "mongodb://one", "MULTI_MONGOS_LB_URI": "mongodb://all"}


@pytest.mark.parametrize(("uri", "multi"), [("", None), ("", ""), ("mongodb://a", "")])
def test_an_empty_connection_string_names_no_servers_and_is_refused(uri: str, multi: str | None) -> None:
    with pytest.raises(ValueError, match="a connection string is empty"):
        Given.of(uri, multi, {})


@pytest.mark.parametrize(
    ("uri", "multi", "environment", "given"),
    [
        (None, None, {}, None),
        ("mongodb://a", None, {}, Given("mongodb://a")),
        ("mongodb://a", "mongodb://b", {}, Given("mongodb://a", "mongodb://b")),
        ("mongodb://b", None, DEPLOYMENT, Given("mongodb://b")),
        ("env", None, DEPLOYMENT, Given("mongodb://a")),
        ("env", None, BALANCERS, Given("mongodb://one", "mongodb://all")),
        ("env", None, {"MULTI_MONGOS_LB_URI": "mongodb://all"}, Given("mongodb://all", "mongodb://all")),
        ("env", None, {**DEPLOYMENT, **BALANCERS}, Given("mongodb://a")),
        (
            "env",
            None,
            {**DEPLOYMENT, **BALANCERS, "LOAD_BALANCER": "true"},
            Given("mongodb://one", "mongodb://all"),
        ),
        ("env", None, {**DEPLOYMENT, "LOAD_BALANCER": "true"}, Given("mongodb://a")),
    ],
)
def test_servers_are_those_that_were_named(
    uri: str | None, multi: str | None, environment: dict[str, str], given: Given | None
) -> None:
    assert Given.of(uri, multi, environment) == given


@pytest.mark.parametrize("environment", [DEPLOYMENT, BALANCERS, {**DEPLOYMENT, **BALANCERS}])
def test_the_environment_alone_chooses_no_servers_since_a_run_drops_their_collections(
    environment: dict[str, str],
) -> None:
    assert Given.of(None, None, environment) is None


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
        Given.of(uri, multi, environment)
