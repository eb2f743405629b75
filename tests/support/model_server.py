"""The oracle of a whole server: dictionaries, and the simplest code there is.

It knows documents `{_id, n, t}`, single and multiple writes, and snapshot isolation: a transaction works on a
copy, the first writer of a document wins, and a commit is one assignment.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from bson import Int64

Document: TypeAlias = dict[str, Any]
Documents: TypeAlias = dict[int, Document]

DUPLICATE, CONFLICT = 11000, 112


@dataclass(frozen=True)
class Filter:
    """What a command looks for: a field, an operator, a value; without a field everything."""

    name: str = ""
    operator: str = "$eq"
    value: Any = None

    @property
    def query(self) -> Document:
        return {self.name: {self.operator: self.value}} if self.name else {}

    def holds(self, document: Document) -> bool:
        if not self.name:
            return True
        held = document[self.name]
        if self.operator == "$in":
            return held in self.value
        return bool(held >= self.value if self.operator == "$gte" else held == self.value)

    def keys(self, documents: Documents) -> set[int]:
        return {key for key, document in documents.items() if self.holds(document)}


@dataclass
class Outcome:
    """What a write replies (`says`), which keys it wrote, and the code that it fails with."""

    says: Document
    wrote: set[int] = field(default_factory=set)
    code: int | None = None


@dataclass(frozen=True)
class Insert:
    """An insert of new documents; a key that is taken ends it, or is passed over."""

    keys: tuple[int, ...]
    tag: str
    ordered: bool
    retryable = True

    def command(self) -> Document:
        documents = [{"_id": key, "n": 0, "t": self.tag} for key in self.keys]
        return {"insert": "c", "documents": documents, "ordered": self.ordered}

    def touches(self, _documents: Documents) -> set[int]:
        return set(self.keys)

    def run(self, documents: Documents) -> Outcome:
        wrote: set[int] = set()
        code = None
        for key in self.keys:
            if key not in documents:
                documents[key] = {"_id": key, "n": 0, "t": self.tag}
                wrote.add(key)
                continue
            code = DUPLICATE
            if self.ordered:
                break
        return Outcome({"n": len(wrote)}, wrote, code)


@dataclass(frozen=True)
class Increment:
    """An update that adds to `n`: of one document by its key, made if need be, or of all that match."""

    wanted: Filter
    by: int
    multi: bool
    upsert: bool = False

    @property
    def retryable(self) -> bool:
        return not self.multi

    def command(self) -> Document:
        change = {"$inc": {"n": self.by}, "$setOnInsert": {"t": "u"}}
        update = {"q": self.wanted.query, "u": change, "multi": self.multi, "upsert": self.upsert}
        return {"update": "c", "updates": [update]}

    def touches(self, documents: Documents) -> set[int]:
        found = self.wanted.keys(documents)
        return found or ({self.wanted.value} if self.upsert else set())

    def run(self, documents: Documents) -> Outcome:
        found = self.wanted.keys(documents)
        for key in found:
            documents[key] = {**documents[key], "n": documents[key]["n"] + self.by}
        if not found and self.upsert:
            key = self.wanted.value
            documents[key] = {"_id": key, "n": self.by, "t": "u"}
            return Outcome({"n": 1, "nModified": 0, "upserted": [{"index": 0, "_id": key}]}, {key})
        return Outcome({"n": len(found), "nModified": len(found)}, found)


@dataclass(frozen=True)
class Delete:
    """A delete: of one document by its key, or of all that match."""

    wanted: Filter
    multi: bool

    @property
    def retryable(self) -> bool:
        return not self.multi

    def command(self) -> Document:
        return {"delete": "c", "deletes": [{"q": self.wanted.query, "limit": 0 if self.multi else 1}]}

    def touches(self, documents: Documents) -> set[int]:
        return self.wanted.keys(documents)

    def run(self, documents: Documents) -> Outcome:
        found = self.wanted.keys(documents)
        for key in found:
            del documents[key]
        return Outcome({"n": len(found)}, found)


@dataclass(frozen=True)
class FindAndModify:
    """A findAndModify of one document by its key; `by` None removes it."""

    key: int
    by: int | None
    new: bool
    retryable = True

    def command(self) -> Document:
        query = {"findAndModify": "c", "query": {"_id": self.key}}
        if self.by is None:
            return {**query, "remove": True}
        return {**query, "update": {"$inc": {"n": self.by}}, "new": self.new}

    def touches(self, documents: Documents) -> set[int]:
        return {self.key} & documents.keys()

    def run(self, documents: Documents) -> Outcome:
        before = documents.get(self.key)
        if before is None:
            return Outcome({"value": None})
        if self.by is None:
            del documents[self.key]
            return Outcome({"value": before}, {self.key})
        documents[self.key] = {**before, "n": before["n"] + self.by}
        return Outcome({"value": documents[self.key] if self.new else before}, {self.key})


Write: TypeAlias = Insert | Increment | Delete | FindAndModify


@dataclass
class View:
    """What a transaction sees and has written, and the versions that it began with."""

    documents: Documents
    versions: Counter[int]
    written: set[int] = field(default_factory=set)


@dataclass
class ModelServer:
    """The committed documents, how often each key was written, and the open transactions."""

    documents: Documents = field(default_factory=dict)
    versions: Counter[int] = field(default_factory=Counter)
    views: dict[int, View] = field(default_factory=dict)

    def begin(self, who: int) -> None:
        self.views[who] = View(dict(self.documents), Counter(self.versions))

    def claimed(self, keys: set[int], but: int | None = None) -> bool:
        """Say whether an open transaction has written one of the keys."""
        return any(keys & view.written for who, view in self.views.items() if who != but)

    def write(self, write: Write) -> Outcome:
        """Run a write outside of transactions."""
        outcome = write.run(self.documents)
        self.versions.update(outcome.wrote)
        return outcome

    def write_in(self, who: int, write: Write) -> Outcome:
        """Run a write in a transaction, which ends with an error."""
        view = self.views[who]
        trial = dict(view.documents)
        # The first error ends the statements, in whatever order they are.
        write = replace(write, ordered=True) if isinstance(write, Insert) else write
        outcome = write.run(trial)
        conflicts = self._conflicts(who, outcome.wrote)
        if conflicts or outcome.code is not None:
            del self.views[who]
            return Outcome({}, code=CONFLICT if conflicts else outcome.code)
        view.documents = trial
        view.written |= outcome.wrote
        return outcome

    def _conflicts(self, who: int, keys: set[int]) -> bool:
        view = self.views[who]
        # A key that is absent again counts as unchanged: nobody keeps what was deleted.
        there = view.documents.keys() | self.documents.keys()
        changed = {key for key in (keys & there) - view.written if view.versions[key] != self.versions[key]}
        return bool(changed) or self.claimed(keys, but=who)

    def commit(self, who: int) -> None:
        view = self.views.pop(who)
        for key in view.written:
            self.versions[key] += 1
            self.documents.pop(key, None)
            if key in view.documents:
                self.documents[key] = view.documents[key]


def numbered(command: Document, lsid: Document, number: int) -> Document:
    """Return a command as a driver that may retry it sends it."""
    return {**command, "lsid": lsid, "txnNumber": Int64(number)}
