"""Unified Test Format: $$placeholder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scenario_world import World

from harness.unified.errors import ScenarioError
from harness.unified.outcome import Status
from harness.unified.placeholders import replaced, variable

if TYPE_CHECKING:
    from pathlib import Path

PLACEHOLDER = {"$$placeholder": 1}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (
            "uriOptions.authMechanismProperties.ENVIRONMENT",
            "URI_OPTIONS_AUTH_MECHANISM_PROPERTIES_ENVIRONMENT",
        ),
        ("uriOptions.tlsCAFile", "URI_OPTIONS_TLS_CA_FILE"),
        ("kmsProviders.aws:name1.accessKeyId", "KMS_PROVIDERS_AWS_NAME1_ACCESS_KEY_ID"),
        ("kmsProviders.local.key", "KMS_PROVIDERS_LOCAL_KEY"),
    ],
)
def test_a_place_in_a_file_has_a_variable_in_the_environment(path: str, name: str) -> None:
    assert variable(tuple(path.split("."))) == f"PUSHBACKD_{name}"


def test_only_placeholders_are_replaced() -> None:
    given = {"aws": {"accessKeyId": PLACEHOLDER, "secretAccessKey": "mine"}, "local": {}}
    environment = {"PUSHBACKD_KMS_PROVIDERS_AWS_ACCESS_KEY_ID": "theirs"}
    assert replaced(given, "kmsProviders", environment=environment) == {
        "aws": {"accessKeyId": "theirs", "secretAccessKey": "mine"},
        "local": {},
    }


def test_where_the_environment_has_nothing_the_variable_is_named() -> None:
    with pytest.raises(ScenarioError) as raised:
        replaced({"appName": PLACEHOLDER}, "uriOptions", environment={})
    assert str(raised.value) == (
        "uriOptions.appName has a $$placeholder and there is nothing to replace it by"
        " (set the environment variable PUSHBACKD_URI_OPTIONS_APP_NAME)"
    )


CLIENT = "createEntities: [{client: {id: client0, uriOptions: {appName: {$$placeholder: 1}}}}]\n"


def test_options_of_a_client_get_their_values_from_the_environment(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUSHBACKD_URI_OPTIONS_APP_NAME", "a b")
    assert world.run("", head=CLIENT).status is Status.PASSED
    spec = world.adapter.clients[0].spec
    assert (spec.uri, spec.options) == ("mongodb://a:1/?appName=a%20b", {"appName": "a b"})


def test_a_client_whose_options_cannot_be_known_is_an_error_with_a_line(world: World) -> None:
    outcome = world.run("", head=CLIENT)
    assert outcome.status is Status.ERROR
    assert "PUSHBACKD_URI_OPTIONS_APP_NAME" in outcome.reason
    assert outcome.location is not None
    assert outcome.location.line == 3


COLLECTION = """\
createEntities:
  - client: {id: client0}
  - database: {id: database0, client: client0, databaseName: db}
  - collection: {id: collection0, database: database0, collectionName: coll}
"""
DATA = "initialData: [{databaseName: db, collectionName: coll, documents: [{x: [{$$placeholder: 1}]}]}]\n"


@pytest.mark.parametrize(
    ("operations", "head"),
    [
        ("- {name: find, object: collection0, arguments: {filter: {x: {$$placeholder: 1}}}}", COLLECTION),
        ("", COLLECTION + DATA),
    ],
    ids=["argument", "data"],
)
def test_anywhere_else_it_is_an_error_and_never_sent(operations: str, head: str, world: World) -> None:
    outcome = world.run(operations, head=head)
    assert outcome.status is Status.ERROR
    assert "$$placeholder stands where nothing replaces it" in outcome.reason
    assert not [name for name, _ in world.adapter.calls if name == "find"]
    assert not world.deployment.sent("insert")
