"""The doors to the control of a deployment, each as a function of a verb's name and its arguments.

A door is tested by being here: tests/fakeserver/control/test_doors.py runs the same cases through all. It
leads to a `BackgroundCluster` of this process.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from asking import HttpDoor
from command_line_doors import command_line_of, listener_of
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, OperationFailure

from fakeserver.control.verbs.form import snake
from fakeserver.control.verbs.table import VERBS
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from fakeserver.assembly.background import BackgroundCluster
    from fakeserver.control.methods import Methods
    from fakeserver.waiting.outcome import VerbOutcome

Document = dict[str, Any]

GOSSIP: Final = ("ok", "$clusterTime", "operationTime")


class Refused(Exception):  # noqa: N818 - it is what the door says
    """The verb was refused, in these words."""


class Door(Protocol):
    """Opens a way to a deployment.

    What it yields performs a verb and returns its document, or None where the verb ended the connection that
    it came by. It raises `Refused`.
    """

    def __call__(self, server: BackgroundCluster) -> AbstractContextManager[Any]: ...


def called(control: Methods, name: str, arguments: Mapping[str, Any]) -> VerbOutcome:
    """Call the method of a verb, with its arguments by name; what no method can be asked, by `perform`."""
    verb = next((each for each in VERBS if each.name == name), None)
    declared = () if verb is None else verb.arguments
    required = {each.name for each in declared if each.is_required}
    if verb is None or not required <= {*arguments} <= {each.name for each in declared}:
        return control.perform(name, arguments)
    outcome: VerbOutcome = getattr(control, verb.python)(**{snake(key): arguments[key] for key in arguments})
    return outcome


@contextmanager
def in_loop(server: BackgroundCluster) -> Iterator[Any]:
    """Call `cluster.control` on the deployment's own loop, and await the outcome."""

    async def awaited(name: str, arguments: Mapping[str, Any]) -> Document:
        return dict(await called(server.cluster.control, name, arguments))

    yield refusing(lambda name, arguments: server.run(lambda: awaited(name, arguments)))


@contextmanager
def in_background(server: BackgroundCluster) -> Iterator[Any]:
    """Call `server.control` in another thread."""
    yield refusing(lambda name, arguments: dict(called(server.control, name, arguments)))


@contextmanager
def on_the_wire(server: BackgroundCluster) -> Iterator[Any]:
    """Run `{pushbackd: …}` with PyMongo."""
    with MongoClient[Document](server.uri, serverSelectionTimeoutMS=10_000) as client:

        def perform(name: str, arguments: Mapping[str, Any]) -> Document | None:
            try:
                reply = client.admin.command({"pushbackd": name, **arguments})
            except AutoReconnect:
                return None
            except OperationFailure as error:
                raise Refused((error.details or {})["errmsg"]) from None
            return {field: value for field, value in reply.items() if field not in GOSSIP}

        yield perform


@contextmanager
def over_http(server: BackgroundCluster) -> Iterator[Any]:
    """Post to the HTTP door."""
    served = server.serve_ui()
    yield refusing(HttpDoor(served).perform)
    server.run(served.aclose)


@contextmanager
def by_the_listener(server: BackgroundCluster) -> Iterator[Any]:
    """Ask the control listener."""
    with listener_of(server) as perform:
        yield refusing(perform)


@contextmanager
def by_the_command_line(server: BackgroundCluster) -> Iterator[Any]:
    """Run `pushbackd`."""
    with command_line_of(server) as perform:
        yield refusing(perform)


def refusing(perform: Any) -> Any:
    """Return a way in Python whose `ControlError` is a `Refused`."""

    def refuse(name: str, arguments: Mapping[str, Any]) -> Any:
        try:
            return perform(name, arguments)
        except ControlError as error:
            raise Refused(str(error)) from None

    return refuse


DOORS: Final[dict[str, Door]] = {
    "python in its loop": in_loop,
    "python in the background": in_background,
    "the wire": on_the_wire,
    "http": over_http,
    "the control listener": by_the_listener,
    "the command line": by_the_command_line,
}
"""Every door by name; a new one is a row here."""
