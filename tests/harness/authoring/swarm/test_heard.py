"""Oracles hear wrong drivers of the catalogue in schedules in which they say nothing of ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from heard import HEARD, as_mutant, broken

from harness.authoring.mutants.mutant import CATALOGUE, load_mutants
from harness.unified.server_side.oracles import ALL

if TYPE_CHECKING:
    from collections.abc import Mapping

KEPT: Final[list[dict[str, Any]]] = [json.loads(line) for line in HEARD.read_text().splitlines()]
MUTANTS: Final = {each.name: each for each in load_mutants(CATALOGUE)}


@pytest.mark.parametrize("kept", KEPT, ids=[each["oracle"] for each in KEPT])
def test_an_oracle_hears_a_wrong_driver_and_says_nothing_of_ours(kept: Mapping[str, Any]) -> None:
    heard = as_mutant(MUTANTS[kept["mutant"]], broken, kept["schedule"], [kept["oracle"]])
    assert heard is not None
    assert heard.startswith(f"expectRules.{kept['oracle']}")
    assert broken(kept["schedule"], ALL) == ""
