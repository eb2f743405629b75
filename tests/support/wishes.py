"""What people want of a fake deployment, in the spellings of its doors, and what a client sees of it then.

The table in docs/CONTROL.md is made of `WISHES`, and tests/fakeserver/control/test_wishes.py runs it.
"""

from __future__ import annotations

import json
import socket
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest
from pymongo import MongoClient, ReadPreference
from pymongo.errors import (
    AutoReconnect,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
    WriteConcernError,
)

from fakeserver.control.verbs.form import kebab, snake
from fakeserver.control.verbs.table import VERBS
from mongowire.documents.arguments import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mongowire.documents.arguments import Argument

Document = dict[str, Any]
Check = "Callable[[World], Iterator[None]]"

WAIT: Final = 0.05
"""Seconds of the latencies that are asked for."""
_PATIENCE: Final = 5.0


class World:
    """A deployment of three members as its clients see it. `results` is what the verbs have answered."""

    def __init__(self, uri: str, addresses: Mapping[str, str]) -> None:
        self.uri = uri
        self.addresses = addresses
        self.results: list[Document] = []
        self._clients: list[MongoClient[Document]] = []
        self.client = self.connect()
        self.orders = self.client.shop.orders
        self.orders.insert_one({"_id": 0})

    def connect(self, uri: str | None = None, **options: Any) -> MongoClient[Document]:
        """Return a client that is closed at the end."""
        defaults = {"retryReads": False, "retryWrites": False, "serverSelectionTimeoutMS": 2000}
        client = MongoClient[Document](uri or self.uri, **{**defaults, **options})
        self._clients.append(client)
        return client

    def member(self, name: str, **options: Any) -> MongoClient[Document]:
        """Return a client of one member."""
        address = self.addresses[name]
        return self.connect(f"mongodb://{address}", directConnection=True, **options)

    def refuses(self, name: str) -> bool:
        """Say whether nothing listens at a member's address."""
        host, _, port = self.addresses[name].rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except ConnectionRefusedError:
            return True
        return False

    def close(self) -> None:
        for client in self._clients:
            client.close()


def seconds(work: Callable[[], Any]) -> float:
    """Return how long some work takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began


def code_of(work: Callable[[], Any]) -> int | None:
    """Return the error code that some work meets, None where it meets none."""
    try:
        work()
    except OperationFailure as error:
        return error.code
    return None


def eventually(holds: Callable[[], Any]) -> bool:
    """Say whether something becomes true soon."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        try:
            if holds():
                return True
        except PyMongoError:
            pass  # the client has not found its way yet
        time.sleep(0.01)
    return False


# What a client sees. What stands before `yield` happens before the verbs.


def latency(world: World) -> Iterator[None]:
    yield
    assert seconds(world.orders.find_one) >= WAIT


def dropped_connection(world: World) -> Iterator[None]:
    yield
    with pytest.raises(AutoReconnect):
        world.orders.find_one()


def overload_error(world: World) -> Iterator[None]:
    yield
    with pytest.raises(OperationFailure) as caught:
        world.orders.find_one()
    assert caught.value.code == 462
    assert caught.value.has_error_label("SystemOverloadedError")


def rate_limit(world: World) -> Iterator[None]:
    yield
    assert 462 in [code_of(world.orders.find_one) for _ in range(60)]


def step_down(world: World) -> Iterator[None]:
    old = world.client.primary
    yield
    assert eventually(lambda: world.client.admin.command("hello") and world.client.primary not in {None, old})


def kill(world: World) -> Iterator[None]:
    assert not world.refuses("node1")
    yield
    assert world.refuses("node1")


def restart(world: World) -> Iterator[None]:
    def process() -> Any:
        return world.member("node1").admin.command("hello")["topologyVersion"]["processId"]

    before = process()
    yield
    assert eventually(lambda: process() != before)


def silent_member(world: World) -> Iterator[None]:
    member = world.member("node1", socketTimeoutMS=400)
    member.admin.command("ping")
    yield
    with pytest.raises(NetworkTimeout):
        member.admin.command("ping")
    assert world.orders.find_one() == {"_id": 0}


def slow_member(world: World) -> Iterator[None]:
    member = world.member("node1")
    member.admin.command("ping")
    yield
    assert seconds(lambda: member.admin.command("ping")) >= WAIT
    assert world.orders.find_one() == {"_id": 0}


def lagging_member(world: World) -> Iterator[None]:
    yield
    world.orders.insert_one({"_id": 1})
    late = world.member("node1").get_database("shop", read_preference=ReadPreference.SECONDARY)
    assert [each["_id"] for each in late.orders.find()] == [0]
    assert world.orders.count_documents({}) == 2


def write_concern_error(world: World) -> Iterator[None]:
    yield
    with pytest.raises(WriteConcernError):
        world.orders.insert_one({"_id": 1})
    assert world.orders.count_documents({}) == 2


def every_third(world: World) -> Iterator[None]:
    yield
    codes = [code_of(world.orders.find_one) for _ in range(6)]
    assert codes == [None, None, 96, None, None, 96]


def one_collection(world: World) -> Iterator[None]:
    yield
    assert code_of(world.orders.find_one) == 96
    assert code_of(world.client.shop.items.find_one) is None


def one_application(world: World) -> Iterator[None]:
    checkout = world.connect(appName="checkout")
    yield
    assert code_of(checkout.shop.orders.find_one) == 96
    assert code_of(world.orders.find_one) is None


def two_rules(world: World) -> Iterator[None]:
    yield
    assert seconds(world.orders.find_one) >= WAIT
    assert code_of(lambda: world.orders.insert_one({"_id": 1})) == 96


def cut_reply(world: World) -> Iterator[None]:
    yield
    with pytest.raises(AutoReconnect):
        world.orders.find_one()


def what_happened(world: World) -> Iterator[None]:
    world.orders.find_one()
    yield
    found = world.results[-1]["records"]
    assert found
    assert {each["command"] for each in found} == {"find"}


def reset(world: World) -> Iterator[None]:
    assert world.orders.count_documents({}) == 1
    yield
    assert world.orders.count_documents({}) == 0


@dataclass(frozen=True)
class Wish:
    """A wish: the verbs that fulfil it, and the check.

    `python` are spellings that are shorter than those of the methods. `timed` are the verbs on a timeline,
    where these are others: nobody is there to read an answer.
    """

    name: str
    verbs: tuple[tuple[str, Mapping[str, Any]], ...]
    check: Callable[[World], Iterator[None]]
    python: tuple[str, ...] = ()
    timed: tuple[tuple[str, Mapping[str, Any]], ...] = ()


def _rule(then: Document, **more: Any) -> tuple[str, Document]:
    when = {"command": more.pop("command", "find"), **more.pop("when", {})}
    return "addRule", {"rule": {"when": when, "then": [then], **more}}


FAILS: Final = {"error": "OperationFailed"}

_WISHES: Final = (
    Wish(
        "latency",
        (_rule({"delay": "50ms"}),),
        latency,
        ('control.when("find").then(delay("50ms"))',),
    ),
    Wish(
        "a dropped connection",
        (_rule({"close": True}, times=1),),
        dropped_connection,
        ('control.when("find").then(close(), times=1)',),
    ),
    Wish(
        "an overload error",
        (_rule({"error": 462, "labels": ["SystemOverloadedError"]}),),
        overload_error,
        ('control.when("find").then(error(462, labels=["SystemOverloadedError"]))',),
    ),
    Wish("a rate limit", (("limits", {"requests": "20/s"}),), rate_limit),
    Wish("a step-down", (("stepDown", {"seconds": "10s"}),), step_down),
    Wish("a killed member", (("kill", {"node": "node1"}),), kill),
    Wish("a restart", (("restart", {"node": "node1"}),), restart),
    Wish("a paused member", (("pause", {"node": "node1"}),), silent_member),
    Wish(
        "a partition",
        (("partition", {"groups": [["node0", "node2", "clients"], ["node1"]]}),),
        silent_member,
    ),
    Wish("a slow member", (("slow", {"node": "node1", "seconds": "50ms"}),), slow_member),
    Wish("a lagging member", (("lag", {"node": "node1", "seconds": "1m"}),), lagging_member),
    Wish(
        "a write concern error",
        (_rule({"writeConcernError": {"code": 100}}, command="insert"),),
        write_concern_error,
        ('control.when("insert").then(write_concern_error(100))',),
    ),
    Wish(
        "every third request",
        (_rule(FAILS, when={"every": 3}),),
        every_third,
        ('control.when("find", every=3).then(error("OperationFailed"))',),
    ),
    Wish(
        "one collection",
        (_rule(FAILS, when={"namespace": "shop.orders"}),),
        one_collection,
        ('control.when("find", namespace="shop.orders").then(error("OperationFailed"))',),
    ),
    Wish(
        "one application",
        (_rule(FAILS, when={"appName": "checkout"}),),
        one_application,
        ('control.when("find", app_name="checkout").then(error("OperationFailed"))',),
    ),
    Wish(
        "two rules at once",
        (_rule({"delay": "50ms"}), _rule(FAILS, command="insert")),
        two_rules,
        (
            'control.when("find").then(delay("50ms"))',
            'control.when("insert").then(error("OperationFailed"))',
        ),
    ),
    Wish(
        "a reply that is cut",
        (("addFault", {"fault": {"at": "reply", "command": "find", "times": 1, "do": {"cut": 20}}}),),
        cut_reply,
    ),
    Wish(
        "what happened",
        (("readJournal", {"command": "find"}),),
        what_happened,
        timed=(("verify", {"command": "find"}),),
    ),
    Wish("a reset", (("reset", {}),), reset),
)

WISHES: Final = [
    wish for wish in _WISHES if {verb for verb, _ in wish.verbs} <= {verb.name for verb in VERBS}
]


# The spellings.


def shell(verb: str, arguments: Mapping[str, Any]) -> str:
    """Return a verb as the command line has it."""
    row = next(each for each in VERBS if each.name == verb)
    words = ["pushbackd", row.command]
    if verb == "addRule":
        return " ".join((*words, *_options_of(arguments["rule"])))
    for number, argument in enumerate(row.arguments):
        if argument.name not in arguments:
            continue
        value = arguments[argument.name]
        if argument.is_required or (number == 0 and argument.name == "node"):
            words.append(_word(argument, value))
        elif argument.kind is Kind.FLAG:
            words.append(f"--{'' if value else 'no-'}{kebab(argument.name)}")
        else:
            words.append(f"--{kebab(argument.name)} {_word(argument, value)}")
    return " ".join(words)


def _options_of(rule: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options of `pushbackd rule add` for a rule."""
    fields = dict(rule.get("when", {}))
    for effect in rule.get("then", ()):
        fields |= effect
    fields |= {name: value for name, value in rule.items() if name not in {"when", "then"}}
    for name, value in fields.items():
        said = value["code"] if name == "writeConcernError" else value
        text = ",".join(said) if isinstance(said, list) else str(said)
        yield f"--{kebab(name)}" + ("" if value is True else f" {text}")


def _word(argument: Argument, value: Any) -> str:
    if argument.kind is Kind.GROUPS:
        return " ".join(",".join(group) for group in value)
    if isinstance(value, list):
        return ",".join(map(str, value))
    return f"'{json.dumps(value)}'" if isinstance(value, dict) else str(value)


def python(verb: str, arguments: Mapping[str, Any]) -> str:
    """Return a verb as a method of `cluster.control`."""
    row = next(each for each in VERBS if each.name == verb)
    first = row.arguments[0].name if row.arguments else ""
    given = [
        _literal(value) if name == first else f"{snake(name)}={_literal(value)}"
        for name, value in arguments.items()
    ]
    return f"control.{row.python}({', '.join(given)})"


def _literal(value: Any) -> str:
    return repr(value).replace("'", '"')


def http(verb: str, arguments: Mapping[str, Any]) -> str:
    """Return a verb as a request of HTTP: method, path and body."""
    return f"POST /control/{verb} {json.dumps(dict(arguments))}"


def yaml(verb: str, arguments: Mapping[str, Any]) -> str:
    """Return a verb as an entry of a scenario's timeline."""
    return f"- {{at: 5s, {verb}: {_flow(dict(arguments))}}}"


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_flow(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


SPELLINGS: Final[Mapping[str, Callable[[str, Mapping[str, Any]], str]]] = {
    "shell": shell,
    "Python": python,
    "HTTP": http,
    "scenario file": yaml,
}


def spelled(wish: Wish, door: str) -> list[str]:
    """Return the verbs of a wish in the spelling of a door."""
    if door == "Python" and wish.python:
        return list(wish.python)
    verbs = wish.timed if door == "scenario file" and wish.timed else wish.verbs
    return [SPELLINGS[door](verb, arguments) for verb, arguments in verbs]


@contextmanager
def checked(world: World, wish: Wish) -> Iterator[None]:
    """Check a wish around the verbs that fulfil it."""
    check = wish.check(world)
    next(check)
    yield
    with pytest.raises(StopIteration):
        next(check)
