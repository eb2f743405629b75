"""Verbs of data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from fakeserver.control import data
from fakeserver.control.verbs.form import Verb
from fakeserver.errors import CommandError
from fakeserver.storage.port.engine import Namespace
from fakeserver.storage.store.catalog import BUILT_IN
from mongowire.documents.arguments import Argument, Kind
from mongowire.documents.errors import ControlError, unknown

if TYPE_CHECKING:
    from fakeserver.control.subject import Subject
    from fakeserver.deployment.cluster import Cluster

Document = dict[str, Any]

_NAMESPACE: Final = Argument("namespace", Kind.TEXT, "the collection, `database.collection`")
_NAME: Final = Argument("name", Kind.TEXT, "the name of the snapshot")


class Snapshots:
    """The snapshots of a deployment by name. They are the caller's: `reset` leaves them as they are."""

    name: ClassVar[str] = "snapshots"

    def __init__(self, cluster: Cluster) -> None:
        self.kept: dict[str, data.DataSnapshot] = {}
        self._cluster = cluster

    def mark(self) -> None:
        """Do nothing: snapshots outlive a reset."""

    def reset(self) -> None:
        """Do nothing: snapshots outlive a reset."""

    def describe(self) -> Any:
        """Return the names."""
        return list(self.kept)


def _seed(subject: Subject, *, namespace: str, documents: list[Document]) -> Document:
    ns = _parsed(namespace)
    try:
        inserted = data.insert(subject.cluster, ns, documents)
    except CommandError as error:
        raise ControlError(error.message, path=("documents",)) from error
    return {"namespace": namespace, "inserted": inserted}


def _drop(subject: Subject, *, namespace: str) -> Document:
    catalog = subject.cluster.catalog
    db, dot, _ = namespace.partition(".")
    there = [each.ns for each in catalog]
    wanted = [ns for ns in there if (str(ns) == namespace if dot else ns.db == db and db not in BUILT_IN)]
    if not wanted:
        names = {str(ns) for ns in there} | {ns.db for ns in there if ns.db not in BUILT_IN}
        raise unknown("namespace", namespace, names, path=("namespace",))
    for ns in wanted:
        data.drop(subject.cluster, ns)
    return {"dropped": [str(ns) for ns in wanted]}


def _snapshot(subject: Subject, *, name: str) -> Document:
    taken = subject.part(Snapshots).kept[name] = data.take(subject.cluster)
    return {"name": name, "collections": taken.collections, "documents": taken.documents}


def _restore(subject: Subject, *, name: str) -> Document:
    kept = subject.part(Snapshots).kept
    if name not in kept:
        raise unknown("snapshot", name, kept, path=("name",))
    data.restore(subject.cluster, kept[name])
    return {"name": name, "collections": kept[name].collections, "documents": kept[name].documents}


def _parsed(namespace: str) -> Namespace:
    ns = Namespace.parse(namespace)
    if not ns.db or not ns.collection:
        raise ControlError(f"{namespace!r} is no namespace; write database.collection", path=("namespace",))
    return ns


VERBS: Final = (
    Verb(
        "seed",
        "data seed",
        (_NAMESPACE, Argument("documents", Kind.DOCUMENTS, "the documents to insert")),
        _seed,
        "Insert documents, all or none.",
        undone_by="drop",
        example='data seed shop.orders \'[{"_id": 1}, {"_id": 2}]\'',
    ),
    Verb(
        "drop",
        "data drop",
        (Argument("namespace", Kind.TEXT, "a collection, `database.collection`, or a whole database"),),
        _drop,
        "Drop a collection, or all of a database.",
        undone_by="reset",
        example="data drop shop.orders",
    ),
    Verb(
        "snapshot",
        "data snapshot",
        (_NAME,),
        _snapshot,
        "Keep all data as they are now, under a name.",
        example="data snapshot before",
    ),
    Verb(
        "restore",
        "data restore",
        (_NAME,),
        _restore,
        "Bring the data of a snapshot back; requests that wait and transactions are ended.",
        example="data restore before",
    ),
)
