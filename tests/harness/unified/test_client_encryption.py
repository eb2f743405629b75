"""Unified Test Format: clientEncryption, autoEncryptOpts, csfle: checked always, run where a driver can."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from scenario_world import World
from scripted import ScriptedAdapter

from harness.adapters.base import EntityKind, Feature
from harness.unified.errors import ScenarioError
from harness.unified.loader import load
from harness.unified.outcome import Status
from harness.unified.placeholders import variable

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
createEntities:
  - client: {id: client0, autoEncryptOpts: {keyVaultNamespace: k.v, kmsProviders: %(providers)s}}
  - client: {id: client1}
  - clientEncryption:
      id: encryption0
      clientEncryptionOpts: {keyVaultClient: client1, keyVaultNamespace: k.v, kmsProviders: %(providers)s}
"""
LOCAL = HEAD % {"providers": "{local: {key: {$$placeholder: 1}}, 'aws:name1': {}}"}
CREATE = "- {name: createDataKey, object: encryption0, arguments: {kmsProvider: local%s}}"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("PUSHBACKD_KMS_PROVIDERS_LOCAL_KEY", "secret")
    return World(tmp_path)


def test_a_driver_that_can_encrypt_gets_options_with_credentials_in_them(world: World) -> None:
    assert world.run(CREATE % "", head=LOCAL).status is Status.PASSED
    providers = {"local": {"key": "secret"}, "aws:name1": {}}
    options = {"keyVaultNamespace": "k.v", "kmsProviders": providers}
    assert [client.spec.auto_encryption for client in world.adapter.clients] == [options, None]
    (handle,) = (one for one in world.adapter.handles if one.kind is EntityKind.CLIENT_ENCRYPTION)
    assert handle.client is world.adapter.clients[1]
    assert handle.spec["clientEncryptionOpts"]["kmsProviders"] == providers
    assert world.adapter.calls[0] == ("createDataKey", {"kmsProvider": "local"})


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("rewrapManyDataKey", "{filter: {}, opts: {provider: local}}"),
        ("deleteKey", "{id: 1}"),
        ("getKey", "{id: 1}"),
        ("getKeys", "{}"),
        ("addKeyAltName", "{id: 1, keyAltName: a}"),
        ("removeKeyAltName", "{id: 1, keyAltName: a}"),
        ("getKeyByAltName", "{keyAltName: a}"),
        ("encrypt", "{value: 1, opts: {algorithm: Indexed}}"),
        ("decrypt", "{value: 1}"),
    ],
)
def test_its_operations_are_known_with_their_arguments(name: str, given: str, world: World) -> None:
    run = f"- {{name: {name}, object: encryption0, arguments: {given}}}"
    assert world.run(run, head=LOCAL).status is Status.PASSED
    wrong = world.run(run.replace(given, given[:-1] + ("" if given == "{}" else ", ") + "x: 1}"), head=LOCAL)
    assert (wrong.status, "has no argument 'x'" in wrong.reason) == (Status.ERROR, True)


def test_a_driver_that_cannot_skips_the_case_with_the_reason(world: World) -> None:
    world.adapter = ScriptedAdapter(lacks=[Feature.ENCRYPTION])
    outcome = world.run(CREATE % "", head=LOCAL)
    assert outcome.status is Status.SKIPPED
    assert outcome.reason == (
        "autoEncryptOpts needs a driver with ENCRYPTION: Client-side field level encryption is available."
    )
    assert not world.adapter.clients


@pytest.mark.parametrize(
    ("providers", "said"),
    [
        ("{ibm: {}}", "ibm: unknown field"),
        ("{aws: {key: a}}", "aws.key: unknown field"),
        ("{gcp: {accessToken: a, email: b}}", "is not allowed beside the other fields"),
        ("{local: {key: 1}}", "must be a string or a mapping, is an integer"),
    ],
)
def test_its_options_are_checked_all_the_same(providers: str, said: str, world: World) -> None:
    with pytest.raises(ScenarioError) as raised:
        load(world.write("", head=HEAD % {"providers": providers}))
    assert said in str(raised.value)


CANNOT = [Feature.ENCRYPTION]


@pytest.mark.parametrize(
    ("csfle", "lacks", "version", "reason"),
    [
        ("true", [], (8, 0, 0), None),
        ("true", CANNOT, (8, 0, 0), "needs client-side encryption (csfle)"),
        ("true", [], (4, 0, 0), "needs client-side encryption (csfle)"),
        ("false", CANNOT, (8, 0, 0), None),
        ("false", [], (8, 0, 0), "needs a driver without client-side encryption (csfle)"),
        ("{minLibmongocryptVersion: 1.15.1}", CANNOT, (8, 0, 0), "needs client-side encryption (csfle)"),
        (
            "{minLibmongocryptVersion: 1.15.1}",
            [],
            (8, 0, 0),
            "needs libmongocrypt 1.15.1 or newer, and adapters do not say which they have",
        ),
    ],
)
def test_cases_run_where_their_need_of_encryption_is_met(
    csfle: str, lacks: list[Feature], version: tuple[int, ...], reason: str | None, world: World
) -> None:
    world.adapter = ScriptedAdapter(lacks=lacks)
    world.deployment.server_version = version
    outcome = world.run("", head=f"runOnRequirements: [{{csfle: {csfle}}}]\n")
    expected: Any = (Status.PASSED, "") if reason is None else (Status.SKIPPED, reason)
    assert (outcome.status, outcome.reason) == expected


AUTOMATIC = {
    "keyVaultNamespace": "k.v",
    "kmsProviders": {"local": {"key": "secret"}},
    "bypassAutoEncryption": True,
    "bypassQueryAnalysis": False,
    "schemaMap": {"db.coll": {"bsonType": "object"}},
    "encryptedFieldsMap": {"db.coll": {"fields": []}},
    "extraOptions": {"mongocryptdBypassSpawn": True},
    "keyExpirationMS": 1,
}


def test_every_option_of_automatic_encryption_reaches_the_driver(world: World) -> None:
    head = f"createEntities: [{{client: {{id: c, autoEncryptOpts: {json.dumps(AUTOMATIC)}}}}}]\n"
    assert world.run("", head=head).status is Status.PASSED
    assert world.adapter.clients[0].spec.auto_encryption == AUTOMATIC


CREDENTIALS = {
    "aws": ("accessKeyId", "secretAccessKey", "sessionToken"),
    "azure": ("tenantId", "clientId", "clientSecret", "identityPlatformEndpoint"),
    "gcp": ("email", "privateKey", "endpoint"),
    "kmip": ("endpoint",),
    "local": ("key",),
}
ALTERNATIVES = [*CREDENTIALS.items(), ("azure", ("accessToken",)), ("gcp", ("accessToken",))]


@pytest.mark.parametrize("name", ["", ":name1"], ids=["unnamed", "named"])
@pytest.mark.parametrize(("provider", "fields"), ALTERNATIVES)
def test_every_credential_of_every_provider_is_known(
    provider: str, fields: tuple[str, ...], name: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {field: {"$$placeholder": 1} for field in fields}
    for field in fields:
        monkeypatch.setenv(variable(("kmsProviders", provider + name, field)), f"the {field}")
    providers = json.dumps({provider + name: given})
    assert world.run("", head=HEAD % {"providers": providers}).status is Status.PASSED
    (handle,) = world.adapter.handles
    assert handle.spec["clientEncryptionOpts"]["kmsProviders"] == {
        provider + name: {field: f"the {field}" for field in fields}
    }
