"""The contract of the doors: a verb does, answers and refuses the same, whichever way it comes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from control_cases import CASES, FOR_OTHERS, NS, RIGHT_OF_KIND, WRONG_OF_KIND, WRONGS, Case, Wrong
from doors import DOORS, Refused
from pymongo import MongoClient
from pymongo.errors import OperationFailure, ServerSelectionTimeoutError

from fakeserver import ClusterSpec
from fakeserver.assembly.background import BackgroundCluster
from fakeserver.control.verbs.data_verbs import DeploymentState, ServerState
from fakeserver.control.verbs.table import VERBS
from fakeserver.storage.port.engine import Namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeserver.control.verbs.form import Verb
    from mongowire.documents.arguments import Argument

ARGUMENTS = [(verb, argument) for verb in VERBS for argument in verb.arguments]
GUIDE = Path(__file__).parents[3] / "docs" / "CONTROL.md"
_CONNECTIONS = "connections"


@pytest.fixture(scope="module")
def replica_set() -> Iterator[BackgroundCluster]:
    with BackgroundCluster(ClusterSpec.replica_set(3)) as server:
        yield server


@pytest.fixture(scope="module")
def standalone() -> Iterator[BackgroundCluster]:
    with BackgroundCluster(ClusterSpec.standalone()) as server:
        yield server


@pytest.fixture(scope="module", params=DOORS)
def door(request: pytest.FixtureRequest, replica_set: BackgroundCluster) -> Iterator[Any]:
    with DOORS[request.param](replica_set) as perform:
        yield perform


def _servers(server: BackgroundCluster) -> dict[str, Any]:
    return {each["name"]: each for each in server.control.state()["servers"]}


def _settled(server: BackgroundCluster) -> dict[str, Any]:
    """Return the state, but for what clients do."""
    state = dict(server.control.state())
    state["servers"] = [{**each, _CONNECTIONS: 0} for each in state["servers"]]
    return {name: value for name, value in state.items() if name != "snapshots"}


def _documents(server: BackgroundCluster) -> int:
    return server.call(lambda: server.cluster.catalog.engine.stats(Namespace.parse(NS)).count)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.verb} {case.arguments}")
def test_a_verb_does_what_it_says_through_every_door(
    door: Any, replica_set: BackgroundCluster, case: Case
) -> None:
    replica_set.control.reset()
    before = _settled(replica_set)
    for name, arguments in case.after:
        replica_set.control.perform(name, arguments)
    result = door(case.verb, case.arguments)
    if not case.ends_connections:
        assert result is not None
        assert {**result, **case.result} == result
    assert case.seen(_servers(replica_set))
    assert case.documents in {None, _documents(replica_set)}
    replica_set.control.reset()
    assert _settled(replica_set) == before


def _refusal(door: Any, verb: str, arguments: Any) -> str:
    with pytest.raises(Refused) as caught:
        door(verb, arguments)
    return str(caught.value)


@pytest.mark.parametrize("wrong", WRONGS, ids=lambda wrong: f"{wrong.verb} {wrong.arguments}")
def test_what_is_wrong_is_refused_in_the_same_words_and_changes_nothing(
    door: Any, replica_set: BackgroundCluster, wrong: Wrong
) -> None:
    replica_set.control.reset()
    for name, arguments in wrong.after:
        replica_set.control.perform(name, arguments)
    before = _settled(replica_set)
    assert re.search(re.escape(wrong.complaint), _refusal(door, wrong.verb, wrong.arguments))
    assert _settled(replica_set) == before


@pytest.mark.parametrize("name", DOORS)
def test_a_verb_for_other_deployments_is_refused_with_those_that_it_is_for(
    standalone: BackgroundCluster, name: str
) -> None:
    with DOORS[name](standalone) as door:
        for verb, complaint in FOR_OTHERS.items():
            assert re.search(re.escape(complaint), _refusal(door, verb, {}))


@pytest.mark.parametrize(("verb", "argument"), ARGUMENTS, ids=lambda each: each.name)
def test_a_value_that_cannot_be_read_is_refused_with_the_name_of_its_argument(
    door: Any, verb: Verb, argument: Argument
) -> None:
    required = [each for each in verb.arguments if each.is_required]
    arguments = {each.name: each.known[0] if each.known else RIGHT_OF_KIND[each.kind] for each in required}
    arguments[argument.name] = WRONG_OF_KIND[argument.kind]
    assert _refusal(door, verb.name, arguments).startswith(f"{argument.name}: ")


@pytest.mark.parametrize("name", [name for name in DOORS if name != "the wire"])
def test_whoever_is_locked_out_gets_in_again_at_the_side(replica_set: BackgroundCluster, name: str) -> None:
    replica_set.control.reset()
    # A heartbeat that is rejected, too, leaves the driver without a server.
    no_way_in = (OperationFailure, ServerSelectionTimeoutError)
    with (
        MongoClient[Any](replica_set.uri, serverSelectionTimeoutMS=5000) as client,
        DOORS[name](replica_set) as door,
    ):
        client.admin.command("ping")
        door("limits", {"requests": "1/s"})
        door("setFailPoint", {"name": "failIngressRequestRateLimiting"})  # every request is one too many
        with pytest.raises(no_way_in, match="rate exceeded"):
            client.admin.command({"pushbackd": "limits", "off": True})
        door("limits", {"off": True})
        client.admin.command("ping")
    assert _servers(replica_set)["node0"]["limits"] == {}


def test_every_verb_has_a_case() -> None:
    of_tls = {"certificate"}  # test_certificate.py
    assert {verb.name for verb in VERBS} - of_tls == {case.verb for case in CASES}


def test_the_state_has_all_of_its_keys_whatever_is_held(standalone: BackgroundCluster) -> None:
    state = standalone.control.state()
    assert set(state) == DeploymentState.__required_keys__
    (server,) = state["servers"]
    assert set(server) == ServerState.__required_keys__
    assert [state[name] for name in ("rules", "faults", "timeline", "shedding")] == [[], [], [], {}]
    guide = GUIDE.read_text()
    assert [name for name in (*state, *server) if f"`{name}`" not in guide] == []


def test_every_undoing_verb_exists() -> None:
    names = {verb.name for verb in VERBS}
    assert {verb.undone_by for verb in VERBS} - {""} <= names
    assert {verb.name for verb in VERBS if verb.reads and verb.undone_by} == set()
