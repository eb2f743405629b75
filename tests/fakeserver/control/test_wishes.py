"""Every wish of the table in docs/CONTROL.md, in each of its spellings as they stand there, under PyMongo."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from wish_doors import DOORS, Running, running_in
from wishes import SPELLINGS, WISHES, Wish, World, checked, eventually, spelled

from fakeserver import BackgroundCluster, load_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

HEAD = """\
pushbackd: "1.0"
deployment: {topology: replicaset, members: 3}
timeline:"""
FILE = "scenario file"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_in(tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.fixture
def world(running: Running) -> Iterator[World]:
    server = running.server
    server.control.reset()
    found = World(server.uri, {node.name: node.address for node in server.nodes})
    yield found
    found.close()
    server.control.reset()


@pytest.mark.parametrize("wish", WISHES, ids=lambda wish: wish.name)
@pytest.mark.parametrize("door", DOORS)
def test_a_wish_comes_true_through_every_door(running: Running, world: World, door: str, wish: Wish) -> None:
    with DOORS[door](running) as say, checked(world, wish):
        for text in spelled(wish, door):
            world.results.append(say(text))


@pytest.mark.parametrize("wish", WISHES, ids=lambda wish: wish.name)
def test_a_wish_comes_true_by_a_scenario_file(tmp_path: Path, wish: Wish) -> None:
    path = tmp_path / "wish.yml"
    # Not after five seconds, but when the client is ready: the words are those of the table otherwise.
    steps = [text.replace("at: 5s", "after: 1 buildInfo requests") for text in spelled(wish, FILE)]
    path.write_text("\n".join((HEAD, *(f"  {step}" for step in steps))))
    with BackgroundCluster(load_scenario(path)) as server:
        world = World(server.uri, {node.name: node.address for node in server.nodes})
        with closing(world), checked(world, wish):
            world.client.admin.command("buildInfo")
            assert eventually(lambda: _is_performed(server))
            world.results.append(server.control.read_journal(command="find"))


def _is_performed(server: BackgroundCluster) -> bool:
    """Return whether all steps are performed, none of which may fail; after `reset` all are before them."""
    steps = _timeline(server)
    assert [step for step in steps if step["state"] == "failed"] == []
    if any(step["verb"] == "reset" for step in steps):
        return not server.control.count_journal(command="buildInfo")["count"]
    return all(step["performed"] for step in steps)


def _timeline(server: BackgroundCluster) -> list[Any]:
    steps: list[Any] = server.control.state()["timeline"]
    return steps


def test_every_door_is_gone_through() -> None:
    assert {*SPELLINGS} == {*DOORS, FILE}
