"""How a file of a format is recognised, and what its format allows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from format_files import (
    CONCERN,
    IN_WINDOW,
    OUTCOME,
    POOL_CASE,
    RTT,
    SELECTION,
    VALID,
    discovery,
    listed,
    load,
)

from driver.sdam.description import ServerType, TopologyType
from harness.formats import FORMATS, Format, declared_in, format_of, is_for_servers
from harness.formats.case import failure
from harness.formats.grammar import SCHEMAS, SERVER_TYPES, TOPOLOGY_TYPES
from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from pathlib import Path

SOUND: dict[str, Any] = {
    "cmap": POOL_CASE,
    "sdam": discovery(OUTCOME),
    "in-window": IN_WINDOW,
    "server-selection": SELECTION,
    "rtt": RTT,
    "connection-string": listed(VALID),
    "concern": listed(CONCERN),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_file_is_recognised_by_its_fields(name: str) -> None:
    document = SOUND[name]
    assert format_of(document).name == name
    text = json.dumps(document, indent=2)
    assert declared_in(text, is_json=True)
    assert declared_in(text.replace("{", "", 1).replace("\n  ", "\n"), is_json=False)


@pytest.mark.parametrize("name", SOUND)
def test_a_field_that_a_format_does_not_have_is_refused_by_name(tmp_path: Path, name: str) -> None:
    document = {**SOUND[name], "flavour": 1}
    with pytest.raises(ScenarioError, match="flavour: unknown field"):
        load(tmp_path, document)


@pytest.mark.parametrize(
    "document", [[], None, 1, {}, {"tests": 1}, {"tests": [{"uri": "a"}]}, {"version": 1}]
)
def test_what_is_of_no_format_is_left_to_the_unified_one(document: Any) -> None:
    assert format_of(document).name == "unified"


@pytest.mark.parametrize(
    "text",
    [
        "services:\n  db: {uri: mongodb://a}\n",
        "operations:\n  - deploy\n",
        "tests:\n  - name: unit\n    run: make\n",
        "version: 1\n",
        "nested:\n  topology_description: 1\n",
        "# phases: and uri:\n",
    ],
)
def test_other_yaml_is_not_taken_for_a_format(text: str) -> None:
    assert not declared_in(text, is_json=False)


def test_a_broken_file_that_seems_to_be_of_a_format_is_one(tmp_path: Path) -> None:
    assert declared_in("phases: [\nuri: x\n", is_json=False)
    assert declared_in('{"phases": [, "uri": 1}', is_json=True)
    assert not declared_in('{"rules": {"phases": 1, "uri": 2}}', is_json=True)


def test_a_scenario_for_servers_is_recognised_where_it_is_asked_for() -> None:
    text = 'pushbackd: "1.0"\ntimeline: []\n'
    assert declared_in(text, is_json=False, servers=True)
    assert not declared_in(text, is_json=False)
    assert is_for_servers({"pushbackd": "1.0"})
    assert is_for_servers({"description": "no version", "timeline": []})
    # Of a test, the field says what servers are to have seen.
    assert not is_for_servers({"pushbackd": {}, "schemaVersion": "1.0"})


@pytest.mark.parametrize("of", FORMATS, ids=lambda of: of.name)
def test_every_format_but_the_unified_one_has_a_table(of: Format) -> None:
    assert (of.name in SCHEMAS) is bool(of.runs)


def test_the_tables_have_the_driver_s_types() -> None:
    assert {kind.value for kind in TopologyType} == set(TOPOLOGY_TYPES)
    assert {kind.value for kind in ServerType} | {"PossiblePrimary"} == set(SERVER_TYPES)


def test_ids_are_those_of_the_unified_format(tmp_path: Path) -> None:
    folder = tmp_path / "source" / "rules" / "tests" / "rs"
    folder.mkdir(parents=True)
    (case,) = load(folder, discovery(OUTCOME)).cases
    assert (case.id, case.description, case.line) == ("rules/rs/file::seen", "seen", 1)
    (case,) = load(folder, RTT).cases
    assert case.id == "rules/rs/file::average round trip time"
    twins = load(folder, listed(VALID, {**VALID, "description": "named"}, VALID)).cases
    assert [each.id.partition("::")[2] for each in twins] == ["[0]", "named", "[2]"]


def test_a_failure_has_the_place_of_what_was_expected(tmp_path: Path) -> None:
    (case,) = load(tmp_path, RTT).cases
    error = failure(case.document["new_avg_rtt"], "no", wanted=1, actual=2)
    assert (str(error), error.location) == ("new_avg_rtt: no", case.document["new_avg_rtt"].location)
