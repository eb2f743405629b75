"""The loader and the schema against the public specification tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from harness.unified.errors import ScenarioError
from harness.unified.loader import load, read
from harness.unified.schema.grammar import MINOR_MAX, file_schema

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.corpus, pytest.mark.slow]

UNSUPPORTED = "schemaVersion-unsupported"


def files(corpus: Path, suffix: str) -> list[Path]:
    found = [path for path in sorted(corpus.rglob(f"*{suffix}")) if "tests" in path.parts]
    assert found
    return found


def unified(value: Any) -> bool:
    return isinstance(value, dict) and "schemaVersion" in value


def as_json_writes_it(value: Any) -> Any:
    """The public JSON files were written by JavaScript, which knows no difference of 1 and 1.0."""
    if isinstance(value, dict):
        return {name: as_json_writes_it(member) for name, member in value.items()}
    if isinstance(value, list):
        return [as_json_writes_it(element) for element in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def test_every_yaml_file_equals_its_json_twin(corpus: Path) -> None:
    different = []
    for path in files(corpus, ".yml"):
        twin = json.loads(path.with_suffix(".json").read_text())
        if as_json_writes_it(read(path).value) != as_json_writes_it(twin):
            different.append(path)
    assert not different


def test_every_json_file_reads_as_json_does(corpus: Path) -> None:
    for path in files(corpus, ".json"):
        document = read(path)
        assert document.value == json.loads(path.read_text())
        assert document.mark.line == 1


def test_our_schema_gives_the_public_verdict_on_every_document_in_every_version(corpus: Path) -> None:
    documents = [json.loads(path.read_text()) for path in files(corpus, ".json")]
    kept = [document for document in documents if unified(document)]
    assert kept
    for minor in range(MINOR_MAX + 1):
        text = (corpus / "unified-test-format" / f"schema-1.{minor}.json").read_text()
        public = jsonschema_rs.validator_for(json.loads(text))
        own = jsonschema_rs.Draft202012Validator(file_schema(minor))
        verdicts = [(public.is_valid(document), own.is_valid(document)) for document in kept]
        assert [theirs for theirs, _ in verdicts] == [ours for _, ours in verdicts]


def test_every_valid_file_becomes_cases_with_ids_of_their_own(corpus: Path) -> None:
    ids: list[str] = []
    for path in files(corpus, ".yml"):
        if "invalid" not in path.parts and UNSUPPORTED not in path.name and unified(read(path).value):
            ids += [case.id for case in load(path).cases]
    assert ids
    assert len(set(ids)) == len(ids)


def test_an_unsupported_version_is_refused(corpus: Path) -> None:
    (path,) = (path for path in files(corpus, ".yml") if path.stem == UNSUPPORTED)
    with pytest.raises(ScenarioError, match=r"schemaVersion 0\.1 is not supported"):
        load(path)
