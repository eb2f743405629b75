"""A quarter of the wishes of docs/CONTROL.md under the Node driver, each through another door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from node_programs import NEEDS_NODE, run
from wish_doors import DOORS, Running, running_in
from wishes import WAIT, WISHES, spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Told = list[dict[str, Any]]

pytestmark = NEEDS_NODE


def codes(told: Told) -> list[int | None]:
    return [each["code"] for each in told]


CHECKS: dict[str, tuple[str, list[str], Callable[[Told], bool]]] = {
    "latency": ("shell", ["find:orders"], lambda told: told[0]["ms"] >= WAIT * 1000),
    "a dropped connection": (
        "HTTP",
        ["find:orders", "find:orders"],
        lambda told: [each["error"] for each in told] == ["MongoNetworkError", None],
    ),
    "an overload error": ("Python", ["find:orders"], lambda told: codes(told) == [462]),
    "every third request": (
        "shell",
        ["find:orders"] * 6,
        lambda told: codes(told) == [None, None, 96, None, None, 96],
    ),
    "one collection": ("HTTP", ["find:orders", "find:items"], lambda told: codes(told) == [96, None]),
}
"""The door, the operations, and the check of what they came to, by the name of a wish."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_in(tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.mark.parametrize("name", CHECKS)
def test_a_wish_comes_true_for_the_node_driver(running: Running, name: str) -> None:
    door, operations, holds = CHECKS[name]
    running.server.control.reset()
    (wish,) = [each for each in WISHES if each.name == name]
    with DOORS[door](running) as say:
        for text in spelled(wish, door):
            say(text)
    told = run("operations", running.server.uri, "retryReads=false", arguments=tuple(operations))
    assert holds(told), told


def test_they_are_a_quarter_of_all() -> None:
    assert len(CHECKS) * 4 >= len(WISHES)
