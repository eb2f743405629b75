"""What is declared rather than run: specs, profiles, command tables, parameters."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Decimal128, Int64

from fakeserver import ClusterSpec, Topology
from fakeserver.commands.default_table import default_table
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandSpec, CommandTable
from fakeserver.idl.fields import first_argument
from fakeserver.profile import PROFILES, Profile
from fakeserver.settings.server_parameters import ServerParameters

# Specs.


def test_a_spec_is_a_value_that_prints_itself() -> None:
    spec = ClusterSpec.replica_set(3, set_name="x", parameters={"logLevel": 1})
    assert spec == ClusterSpec.replica_set(3, set_name="x", parameters={"logLevel": 1})
    assert "replicaset" in repr(spec)
    assert "set_name='x'" in repr(spec)


def test_a_specs_parameters_cannot_be_changed_afterwards() -> None:
    given = {"logLevel": 1}
    spec = ClusterSpec.standalone(parameters=given)
    given["logLevel"] = 2
    assert spec.parameters == {"logLevel": 1}
    with pytest.raises(TypeError):
        spec.parameters["logLevel"] = 3  # type: ignore[index]


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ({"members": 0}, "members must be from 1 to 50, not 0"),
        ({"journal_records": 0}, "journal_records must be 1 or more, not 0"),
        ({"members": 51}, "members must be from 1 to 50"),
        ({"members": 2, "topology": Topology.SINGLE}, "topology single has one member"),
        ({"members": 3, "ports": (1, 2)}, "one port for each of the 3 members"),
        ({"members": 1, "ports": (70000,)}, "ports must be from 0 to 65535"),
        ({"set_name": ""}, "set_name must not be empty"),
        ({"election_delay": -1.0}, "election_delay"),
        ({"profile": "1.0"}, "unknown profile '1.0'; known are 9.0, 8.2"),
    ],
)
def test_a_spec_that_cannot_run_is_refused_by_field(facts: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        ClusterSpec(**({"topology": Topology.REPLICA_SET} | facts))


# Profiles.


@pytest.mark.parametrize(
    ("name", "wire"),
    [("9.0", 29), ("8.2", 27), ("8.0", 25), ("7.0", 21), ("6.0", 17), ("5.0", 13), ("4.4", 9), ("4.2", 8)],
)
def test_a_profile_is_a_release_with_its_wire_version(name: str, wire: int) -> None:
    profile = Profile.named(name)
    assert profile.max_wire_version == wire
    assert profile.version.startswith(name)
    assert profile.version_array == [*map(int, profile.version.split(".")), 0]
    assert profile.feature_compatibility_version == name


@pytest.mark.parametrize(
    ("rule", "since"),
    [
        ("awaits_topology_changes", "4.4"),
        ("labels_retryable_writes", "4.4"),
        ("labels_no_writes_performed", "6.0"),
        ("knows_overload", "8.2"),
        ("hints_backoff", "9.0"),
    ],
)
def test_a_rule_holds_from_its_release_on(rule: str, since: str) -> None:
    holds = [profile.name for profile in PROFILES.values() if getattr(profile, rule)]
    assert holds == list(PROFILES)[: list(PROFILES).index(since) + 1]


def test_legacy_queries_were_given_up_after_5_0() -> None:
    takers = [profile.name for profile in PROFILES.values() if profile.takes_legacy_queries]
    assert takers == ["5.0", "4.4", "4.2"]


# Command tables.


def _spec(name: str, **facts: Any) -> CommandSpec:
    return CommandSpec(name, lambda _ctx, _command: {}, "admin", "help", **facts)


def test_a_command_is_found_by_name_and_alias() -> None:
    table = CommandTable()
    table.add(_spec("isMaster", aliases=("ismaster",)))
    assert table.get("ismaster") is table.get("isMaster")
    assert table.get("ISMASTER") is None
    assert [spec.name for spec in table] == ["isMaster"]


def test_two_commands_of_one_name_are_a_mistake() -> None:
    table = CommandTable()
    table.add(_spec("a", aliases=("b",)))
    with pytest.raises(ValueError, match="two commands are named 'b'"):
        CommandTable.merge(table, _table("b"))


def _table(*names: str, **facts: Any) -> CommandTable:
    table = CommandTable()
    for name in names:
        table.add(_spec(name, **facts))
    return table


def test_a_decorated_function_is_documented_by_its_first_line() -> None:
    table = CommandTable()

    @table.command("x", kind="read", requires_auth=False)
    def x(_ctx: Any, _command: Any) -> dict[str, Any]:
        """Do x.

        And more.
        """
        return {}

    spec = table.get("x")
    assert spec is not None
    assert (spec.help, spec.kind, spec.requires_auth, spec.handler) == ("Do x.", "read", False, x)


def test_a_release_knows_the_commands_of_its_time() -> None:
    table = CommandTable.merge(_table("new", since=25), _table("old", until=17), _table("always"))
    assert [spec.name for spec in table.known_to(27)] == ["always", "new"]
    assert [spec.name for spec in table.known_to(13)] == ["always", "old"]


def test_the_first_argument_stands_under_the_commands_name() -> None:
    assert first_argument({"find": "c", "$db": "db"}) == "c"


def test_every_command_of_the_default_table_says_what_it_does() -> None:
    assert all(spec.help.endswith(".") for spec in default_table())


# Parameters.


def _parameters(profile: str = "8.2", **startup: Any) -> ServerParameters:
    return ServerParameters(Profile.named(profile), startup)


def test_setting_a_parameter_tells_what_it_was() -> None:
    parameters = _parameters()
    assert parameters.set({"logLevel": 2}) == 0
    assert parameters.set({"logLevel": 3.0}) == 2
    assert parameters["logLevel"] == 3


@pytest.mark.parametrize(
    ("name", "value", "code", "message"),
    [
        (
            "bogus",
            1,
            72,
            "attempted to set unrecognized parameter [bogus], use help:true to see options ",
        ),
        ("enableTestCommands", False, 20, "not allowed to change [enableTestCommands] at runtime"),
        (
            "logLevel",
            -1,
            2,
            "Invalid value for parameter logLevel: -1 is not greater than or equal to 0",
        ),
        ("logLevel", 6, 2, "Invalid value for parameter logLevel: 6 is not less than or equal to 5"),
        ("logLevel", {}, 2, "Failed to parse value {} of type object for parameter logLevel"),
        ("logLevel", "1", 2, "Failed to parse value '1' of type string for parameter logLevel"),
        (
            "automationServiceDescriptor",
            5,
            14,
            "Failed to parse value 5 of type int for parameter automationServiceDescriptor",
        ),
        (
            "automationServiceDescriptor",
            "é" * 33,
            15,
            "Value for parameter automationServiceDescriptor must be no more than 64 bytes",
        ),
        (
            "logComponentVerbosity",
            "{}",
            14,
            "Failed to parse value '{}' of type string for parameter logComponentVerbosity",
        ),
        (
            "logComponentVerbosity",
            {"query": {"verbosity": -2}},
            2,
            "query.verbosity: -2 is not greater than or equal to -1",
        ),
        ("authSchemaVersion", 5, 20, "not allowed to change [authSchemaVersion] at runtime"),
    ],
)
def test_a_bad_setting_is_refused(name: str, value: Any, code: int, message: str) -> None:
    with pytest.raises(CommandError) as refusal:
        _parameters().set({name: value})
    assert (refusal.value.code, refusal.value.message) == (code, message)


@pytest.mark.parametrize(
    ("value", "means"),
    [
        (0.0, False),
        (None, False),
        (Decimal128("0"), False),
        ([], True),
        ({}, True),
        ("maybe", True),
        (2, True),
    ],
    ids=str,
)
def test_a_bool_is_set_by_anything_at_runtime(value: Any, *, means: bool) -> None:
    parameters = _parameters()
    parameters.set({"quiet": value})
    assert parameters["quiet"] is means
    parameters.set({"automationServiceDescriptor": "x" * 64})


def test_a_text_that_is_no_bool_keeps_a_server_from_starting() -> None:
    with pytest.raises(CommandError):
        _parameters(quiet="maybe")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("enableTestCommands", "0", False),
        ("enableTestCommands", "true", True),
        ("logLevel", "4", 4),
        ("authenticationMechanisms", "SCRAM-SHA-1, PLAIN", ["SCRAM-SHA-1", "PLAIN"]),
        ("authenticationMechanisms", ("PLAIN",), ["PLAIN"]),
    ],
)
def test_start_up_values_may_be_text(name: str, text: Any, value: Any) -> None:
    assert _parameters(**{name: text})[name] == value


@pytest.mark.parametrize(
    "startup",
    [
        {"logLevel": "high"},
        {"featureCompatibilityVersion": {}},
        {"authenticationMechanisms": 5},
        {"externalClientBaseBackoffMS": 100},
    ],
)
def test_bad_start_up_values_are_refused(startup: dict[str, Any]) -> None:
    with pytest.raises(CommandError):
        _parameters(**startup)


def test_a_parameter_begins_with_its_release() -> None:
    assert _parameters("8.2").get("externalClientBaseBackoffMS") is None
    assert _parameters("9.0", externalClientBaseBackoffMS=Int64(100))["externalClientBaseBackoffMS"] == 100
    assert "requireApiVersion" not in [parameter.name for parameter in _parameters("4.4")]
    assert _parameters("7.0")["featureCompatibilityVersion"] == {"version": "7.0"}
