"""Which clock `pushbackd conform` runs on when nobody says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result
    from scenario_files import WriteScenario


@pytest.mark.parametrize(
    ("arguments", "time"),
    [
        ((), "virtual"),
        (("--time", "real"), "real"),
        (("--adapter", "pymongo-async"), "real"),
        (("--adapter", "reference", "--adapter", "pymongo-async"), "real"),
    ],
)
def test_it_is_virtual_where_every_driver_can(
    pushbackd: Callable[..., Result], write_scenario: WriteScenario, arguments: tuple[str, ...], time: str
) -> None:
    done = pushbackd("conform", write_scenario("a"), "--jobs", 1, *arguments)
    assert done.exit_code == 0, done.output
    assert f"({time} time, seed 0)" in done.stdout
