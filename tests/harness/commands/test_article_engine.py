"""`simulate article` says which engine it takes, about how long that will be, and what would be faster."""

from __future__ import annotations

from typing import Any

import pytest

from harness.commands.simulations import article
from harness.sim.article.parameters import ArticleParameters, Strategy
from harness.sim.article.scenario import scenario_of
from harness.sim.fleet import running
from harness.sim.fleet.running import engine_for, rough_time, seconds_of

MANY, FEW = ArticleParameters(clients=1_000_000), ArticleParameters(clients=100)


@pytest.fixture(params=[True, False], ids=["with Numba", "without"])
def numba(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    there: bool = request.param

    def find_spec(name: str) -> Any:
        return object() if there and name == "numba" else None

    monkeypatch.setattr(article, "find_spec", find_spec)
    monkeypatch.setattr(running, "find_spec", find_spec)
    return there


def test_a_million_clients_are_announced(*, numba: bool, capsys: pytest.CaptureFixture[str]) -> None:
    article._announce(MANY, 2, "auto")
    assert capsys.readouterr().err == (
        "engine: compiled, about 14 seconds for each of 2 runs,"
        " and half a minute more when it is compiled for the first time\n"
        if numba
        else "engine: plain, about 10 minutes for each of 2 runs; compiled it is 14 seconds:"
        " pip install 'pushbackd[simulation]'\n"
    )


@pytest.mark.usefixtures("numba")
def test_a_short_run_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    article._announce(FEW, 2, "auto")
    assert capsys.readouterr().err == ""


def test_who_asks_for_the_plain_engine_is_told_of_the_other(
    *, numba: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    article._announce(MANY, 1, "plain")
    said = capsys.readouterr().err
    assert said.startswith("engine: plain, about 10 minutes for each of 1 run;")
    assert ("--engine compiled is faster" in said) is numba


def test_auto_compiles_what_is_large_where_it_can(*, numba: bool) -> None:
    assert engine_for(scenario_of(MANY, Strategy.FIXED)) == ("compiled" if numba else "plain")
    assert engine_for(scenario_of(FEW, Strategy.FIXED)) == "plain"


def test_the_compiled_engine_is_estimated_to_be_faster() -> None:
    scenario = scenario_of(MANY, Strategy.FIXED)
    assert 30 * seconds_of(scenario, "compiled") < seconds_of(scenario, "plain")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 second"), (40, "40 seconds"), (89, "89 seconds"), (90, "2 minutes"), (9 * 3600, "9 hours")],
)
def test_a_length_of_time_is_told_roughly(seconds: float, text: str) -> None:
    assert rough_time(seconds) == text
