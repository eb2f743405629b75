"""Verbs of faults of bytes: what the network does to connections (`fakeserver.network.faults`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.control.verbs.form import Verb
from mongowire.documents.arguments import Argument, Kind
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from fakeserver.control.subject import Subject

Document = dict[str, Any]


def _add(subject: Subject, *, fault: Document) -> Document:
    cluster = subject.cluster
    try:
        return {"id": cluster.faults.add(fault, cluster).id}
    except ControlError as error:
        raise error.within("fault") from None


def _list(subject: Subject) -> Document:
    cluster = subject.cluster
    return {"faults": cluster.faults.registry.documents(cluster.clock.now())}


def _remove(subject: Subject, *, id: str) -> Document:  # noqa: A002 - the name of the argument
    try:
        return {"id": subject.cluster.faults.registry.remove(id).id}
    except ControlError as error:
        raise error.within("id") from None


VERBS: Final = (
    Verb(
        "addFault",
        "network fault",
        (Argument("fault", Kind.DOCUMENT, "the fault, as docs/FAULTS.md describes it"),),
        _add,
        "Add a fault of bytes: connections are delayed, cut, reset or damaged.",
        undone_by="removeFault",
        example='network fault \'{"at": "reply", "command": "find", "do": {"delay": "200ms"}}\'',
    ),
    Verb(
        "listFaults",
        "network ls",
        (),
        _list,
        "List the faults of bytes, with their ids and how often each fired.",
        reads=True,
        example="network ls",
    ),
    Verb(
        "removeFault",
        "network rm",
        (Argument("id", Kind.TEXT, "the id or name of the fault"),),
        _remove,
        "Remove a fault of bytes; what it has begun goes on.",
        example="network rm fault1",
    ),
)
