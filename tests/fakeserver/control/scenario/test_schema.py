"""The schema for editors takes what the loader takes, and refuses what can be refused by names alone."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import jsonschema_rs
import pytest

from fakeserver.control.scenario import building
from fakeserver.control.scenario.building import build, bundled
from fakeserver.control.scenario.loader import read, read_text
from fakeserver.control.scenario.schema import schema
from fakeserver.control.verbs.form import snake
from fakeserver.control.verbs.table import VERBS
from fakeserver.deployment.spec import ClusterSpec

HEAD = 'pushbackd: "1.0"\n'
STEP = f"{HEAD}timeline:\n  - at: 5s\n    "


@pytest.fixture(scope="module")
def validator() -> Any:
    return jsonschema_rs.validator_for(schema())


@pytest.mark.parametrize("name", bundled())
def test_the_bundled_scenarios_are_valid(validator: Any, name: str) -> None:
    validator.validate(read(bundled()[name]).value)


@pytest.mark.parametrize(
    "text",
    [
        "seed: 1\n",
        f"{HEAD}timelin: []\n",
        f"{HEAD}deployment: {{topology: replicast}}\n",
        f"{HEAD}deployment: {{member: 3}}\n",
        f"{HEAD}rules: [{{wen: {{command: find}}}}]\n",
        f"{HEAD}rules: [{{when: {{comand: find}}}}]\n",
        f"{HEAD}faults: [{{at: replyy, do: {{cut: 0}}}}]\n",
        f"{HEAD}faults: [{{at: reply, do: {{cutt: 0}}}}]\n",
        f"{STEP}kil: {{node: node1}}\n",
        f"{STEP}kill: {{nod: node1}}\n",
        f"{STEP}kill: {{node: node1}}\n    pause: {{node: node1}}\n",
        f"{STEP}shed: {{}}\n",
        f"{STEP}state: {{}}\n",
        f"{HEAD}timeline: [{{after: 100, kill: {{}}}}]\n",
    ],
)
def test_a_mistake_is_refused(validator: Any, text: str) -> None:
    assert not validator.is_valid(read_text(text, "s.yml").value)


def test_a_deployment_has_every_field_of_a_spec_but_those_of_a_place_and_of_another_part() -> None:
    places = {"host", "bind_ip", "ports", "balancer_ports", "priority_ports", "proxy_ports", "journal_file"}
    parts = {"seed", "users", "parameters"}
    written = {snake(each.name) for each in building.DEPLOYMENT} | {building.MEMBERS, building.TLS}
    assert written == {each.name for each in fields(ClusterSpec)} - places - parts


def test_a_deployment_may_name_its_storage_and_bound_its_journal() -> None:
    text = f"{HEAD}deployment: {{storage: mongomock, journalRecords: 7, journalBytes: 900}}\n"
    spec = build(read_text(text, "s.yml")).spec
    assert (spec.storage, spec.journal_records, spec.journal_bytes) == ("mongomock", 7, 900)


def test_every_field_and_verb_is_described() -> None:
    whole = schema()
    assert list(whole["properties"]) == list(building.FIELDS)
    steps = whole["properties"]["timeline"]["items"]["properties"]
    verbs = {verb.name for verb in VERBS if not verb.reads} | {"verify"}
    assert set(steps) == {*building.ENTRY, *verbs}
    described = [*whole["properties"].values(), *steps.values()]
    assert all(each["description"][0].isupper() for each in described)
