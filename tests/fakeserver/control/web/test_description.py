"""`GET /openapi.json`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import jsonschema_rs
import pytest

from fakeserver.control.verbs.table import VERBS
from fakeserver.control.web.description import description

if TYPE_CHECKING:
    from asking import HttpDoor

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from openapi_spec_validator import OpenAPIV31SpecValidator


def test_the_description_is_openapi(door: HttpDoor) -> None:
    answered = door.get("/openapi.json").document
    assert [str(error) for error in OpenAPIV31SpecValidator(answered).iter_errors()] == []
    assert answered == description()


def test_every_verb_is_an_operation() -> None:
    paths = description()["paths"]
    for verb in VERBS:
        operation = paths[f"/control/{verb.name}"]["post"]
        assert operation["summary"] == verb.help
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        assert list(schema["properties"]) == [each.name for each in verb.arguments]


@pytest.mark.parametrize(
    ("arguments", "valid"),
    [({"seconds": "200ms"}, True), ({"seconds": 3}, True), ({"seconds": -1}, False), ({"secs": 1}, False)],
)
def test_the_schema_of_a_verb_knows_right_from_wrong(arguments: dict[str, object], *, valid: bool) -> None:
    operation = description()["paths"]["/control/stepDown"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert jsonschema_rs.is_valid(schema, arguments) is valid


def test_what_every_door_lists_is_what_every_door_serves(door: HttpDoor) -> None:
    for path, operations in description()["paths"].items():
        if "get" in operations and not path.endswith("/stream") and "{" not in path:
            assert door.get(path).status == 200, path
