"""Documents of two runs, compared: as multisets, up to ids and times, references kept.

What differs from run to run by itself is no difference: ids, instants, counters of attempts, and every field
whose values differed among the clean runs; an array of which only the order did is compared without it. An id
stands for the document that has it, so an order still belongs to its customer.

Where threads draw numbers, each run may combine the same values in another way. Such a collection is compared
by its size, and by the fields that have another value in each document.

What was applied twice is seen in the oplog, as net changes of numbers: retries that the server recognised and
transactions that were aborted are not in it. Changes are summed by document and field, so that a compensation
takes back what it compensates.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import Binary, ObjectId, Timestamp

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from fakeserver.storage.port.engine import Changed
    from fakeserver.storage.port.oplog import OplogEntry

SPARED: Final = frozenset({"admin", "config", "local"})
"""The databases that servers write themselves."""

Contents = dict[str, list[dict[str, Any]]]
"""Documents by namespace."""

_ID: Final = re.compile(
    r"[0-9a-fA-F]{24}|[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}|[0-9a-f]{32,64}"
)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d.*)?")
_TRIES: Final = re.compile(r"(attempts?|tries|failures|errors?)", re.IGNORECASE)
_COUNTER: Final = re.compile(
    r"_*(attempts?|tries|retries|retry_?count|num_?(attempts|retries)|failures|errors?|last_?error"
    r"|version|rev|revision|seq|sequence)|_+v",
    re.IGNORECASE,
)
"""Fields that count attempts and changes: a change that is made again, and may be, counts again."""
_LOG: Final = re.compile(r"\..*(logs?|audits?|attempts|errors|failures|dead_?letters?)$", re.IGNORECASE)
_CACHE: Final = re.compile(r"\..*caches?$", re.IGNORECASE)
_FAILED: Final = re.compile(
    r": '(?:[A-Za-z]+[ _-])?(?:failed|failure|error|cancel+ed|aborted|rejected|declined|dead|expired"
    r"|compensated|refunded|rolled[ _-]?back|timed?[ _-]?out|gave[ _-]up)'"
    r"|[{ ](?:last_?)?(?:failed|failures?|errors?)(?:_?[A-Za-z]+)?: (?!None|0|\[\]|''|False)",
    re.IGNORECASE,
)
"""A field whose value is the state of what failed, and nothing besides; or one named after failures."""
_MOMENT: Final = re.compile(r".*(_at|At|_time|Time|timestamp|Timestamp|_ms|Millis|duration|elapsed)")
_EPOCHS: Final = ((1.5e9, 2.5e9), (1.5e12, 2.5e12))
"""Numbers that are instants: seconds and milliseconds since 1970."""
_UUIDS: Final = frozenset({3, 4})
_PART: Final = "… "
"""Begins what is said of one field alone."""
_VARIES: Final = "<varies>"
_OF_SESSIONS: Final = frozenset({"lsid", "txnNumber", "startTransaction", "autocommit"})
_ELEMENTS_MOST: Final = 8
_REFERENCES: Final = 2
"""So many times ids are replaced by what they stand for: an order, its customer, the customer's country."""


class Path(NamedTuple):
    """A field of a collection; elements of arrays share a path. `field[]` is an array without its order."""

    namespace: str
    field: str


class Difference(NamedTuple):
    """The documents that a collection lacks, and those that it has too many, beside a clean run."""

    namespace: str
    missing: Counter[str]
    extra: Counter[str]

    tells: bool = False
    """A document says, as none of a clean run does, that something failed or was called off."""

    @property
    def is_allowed(self) -> bool:
        """Whether nothing need be wrong: more tries are more entries of a log, a cache may have fewer."""
        may_have_more, may_have_less = _LOG.search(self.namespace), _CACHE.search(self.namespace)
        return not (self.missing and not may_have_less) and not (self.extra and not may_have_more)

    def __str__(self) -> str:
        said = []
        if self.missing:
            said.append(f"{_counted(self.missing)} missing: {_shown(self.missing)}")
        if self.extra:
            said.append(f"{_counted(self.extra)} too many: {_shown(self.extra)}")
        return f"{self.namespace} has " + ", and ".join(said)


def is_id(value: Any) -> bool:
    """Return whether a value looks like an id that a program or a driver draws."""
    if isinstance(value, ObjectId):
        return True
    if isinstance(value, Binary):
        return value.subtype in _UUIDS
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def is_log(namespace: str) -> bool:
    """Return whether a collection says what was done and how it went: more tries are more entries."""
    return _LOG.search(namespace) is not None


def is_counter(name: str) -> bool:
    """Return whether a field counts attempts, versions or time, which a fault may change."""
    return _COUNTER.fullmatch(name) is not None or _MOMENT.fullmatch(name) is not None


def canonical(
    contents: Contents, varying: Collection[Path] = (), apart: Mapping[str, Collection[str]] | None = None
) -> dict[str, Counter[str]]:
    """Return the documents of each collection as texts, the same for runs that did the same.

    Of collections in `apart` these fields alone are compared, each by itself.
    """
    names: Mapping[Any, str] = {}
    for _ in range(_REFERENCES):
        names = {
            document["_id"]: f"<{_Writer(namespace, varying, names).text(document)}>"
            for namespace, documents in contents.items()
            for document in documents
            if is_id(document.get("_id"))
        }
    found: dict[str, Counter[str]] = {}
    for namespace, documents in contents.items():
        writer, fields = _Writer(namespace, varying, names), (apart or {}).get(namespace)
        texts = map(writer.text, documents) if fields is None else writer.values(documents, fields)
        if documents:
            found[namespace] = Counter(texts)
    return found


def single_fields(runs: Sequence[Contents], namespace: str) -> frozenset[str] | None:
    """Return the fields with another value in each document, the same values in every run.

    `""` stands for the documents themselves. None if runs differ in their number already.
    """
    sizes = {len(run.get(namespace, [])) for run in runs}
    if len(sizes) > 1:
        return None
    first, *others = (_values(namespace, run.get(namespace, [])) for run in runs)
    return frozenset(
        path.field
        for path, values in first.items()
        if values.total() in sizes
        and max(values.values()) == 1
        and all(each.get(path) == values for each in others)
    ) | {""}


def said_by(command: Mapping[str, Any]) -> str:
    """Return what a request says, up to ids and times: the same in every run, and with another thread.

    Of long lists it is the beginning; the batches of a cursor say nothing but its number.
    """
    if next(iter(command), "") == "getMore":
        return ""
    own = {
        name: value[:_ELEMENTS_MOST] if isinstance(value, list) else value
        for name, value in command.items()
        if name not in _OF_SESSIONS and not name.startswith("$")
    }
    return _Writer("", (), {}).text(own)


def varying(runs: Sequence[Contents]) -> tuple[frozenset[Path], frozenset[str]]:
    """Return the fields whose values differ among runs, and the collections that differ even without them."""
    found: set[Path] = set()
    for namespace in _differing([canonical(run) for run in runs]):
        values = [_values(namespace, run.get(namespace, [])) for run in runs]
        paths = set().union(*values)
        found |= {
            _without_order(path, [run.get(namespace, []) for run in runs])
            for path in paths
            if any(each.get(path) != values[0].get(path) for each in values)
        }
    return frozenset(found), frozenset(_differing([canonical(run, found) for run in runs]))


def differences(clean: Mapping[str, Counter[str]], other: Mapping[str, Counter[str]]) -> list[Difference]:
    """Return how the collections of a run differ from those of a clean one."""
    empty: Counter[str] = Counter()
    found = []
    for namespace in sorted({*clean, *other}):
        expected, actual = clean.get(namespace, empty), other.get(namespace, empty)
        if expected != actual:
            missing, extra = expected - actual, actual - expected
            tells = not any(map(_FAILED.search, expected)) and any(map(_FAILED.search, extra))
            found.append(Difference(namespace, missing, extra, tells))
    return found


def arrays(documents: Iterable[Mapping[str, Any]], namespace: str) -> Iterator[Path]:
    """Yield the arrays of a collection, each as a path that leaves its order out."""
    for document in documents:
        for name, value in _leaves(document):
            if isinstance(value, list):
                yield Path(namespace, f"{name}[]")


def _without_order(path: Path, runs: Sequence[Sequence[Mapping[str, Any]]]) -> Path:
    """Return the path of a field whose values vary, as one of arrays if it is their order that does."""
    anyhow = Path(path.namespace, f"{path.field}[]")
    writer = _Writer(path.namespace, {anyhow}, {})
    found = [[value for each in run for name, value in _leaves(each) if name == path.field] for run in runs]
    if not all(isinstance(value, list) for values in found for value in values):
        return path
    texts = [Counter(writer.at(value, path.field) for value in values) for values in found]
    return anyhow if all(each == texts[0] for each in texts) else path


class _Writer:
    """Writes the documents of a collection, with names for the ids that it knows."""

    def __init__(self, namespace: str, varying: Collection[Path], names: Mapping[Any, str]) -> None:
        self._namespace = namespace
        self._varying = varying
        self._names = names

    def text(self, document: Mapping[str, Any]) -> str:
        return self._document(document, "", own=document.get("_id"))

    def values(self, documents: Iterable[Mapping[str, Any]], fields: Collection[str]) -> Iterator[str]:
        """Yield a text for each document, and for each of these fields."""
        for document in documents:
            for name, value in [("", None), *_leaves(document)]:
                if name in fields:
                    yield f"{_PART}{name}: {self._value(value, name)}" if name else _PART

    def at(self, value: Any, path: str) -> str:
        """Return a value as text, where the order of an array may be left out."""
        if isinstance(value, list) and Path(self._namespace, f"{path}[]") in self._varying:
            return "[" + ", ".join(sorted(self._value(each, path) for each in value)) + "]"
        return self._value(value, path)

    def _document(self, document: Mapping[str, Any], prefix: str, own: Any = None) -> str:
        written = []
        is_all = not prefix and _counts_tries(self._namespace, document)
        for name in sorted(document):
            path = f"{prefix}{name}"
            value = document[name]
            if name == "_id" and not prefix and is_id(own):
                written.append("_id: <id>")
            elif Path(self._namespace, path) in self._varying or (is_counter(name) and not is_all):
                written.append(f"{name}: {_VARIES}")
            else:
                written.append(f"{name}: {self.at(value, path)}")
        return "{" + ", ".join(written) + "}"

    def _value(self, value: Any, path: str) -> str:
        if isinstance(value, dict):
            return self._document(value, f"{path}.")
        if isinstance(value, list):
            return "[" + ", ".join(self._value(each, path) for each in value) + "]"
        if is_id(value):
            return self._names.get(value, "<id>")
        if _is_time(value):
            return "<time>"
        # A whole number is one number, whatever its type.
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        is_whole = is_whole or (isinstance(value, float) and value.is_integer())
        return str(int(value)) if is_whole else repr(value)


def _counts_tries(namespace: str, document: Mapping[str, Any]) -> bool:
    """Return whether a document is about its counter: it has nothing else, and no version or number drawn."""
    names = [name for name in document if name != "_id" and not _is_time(document[name])]
    return bool(names) and all(map(_TRIES.fullmatch, names)) and not is_log(namespace)


def _is_time(value: Any) -> bool:
    if isinstance(value, dt.datetime | Timestamp):
        return True
    if isinstance(value, str):
        return _TIME.fullmatch(value) is not None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and any(least < value < most for least, most in _EPOCHS)


def _values(namespace: str, documents: Sequence[Mapping[str, Any]]) -> dict[Path, Counter[str]]:
    """Return the values of each field over all documents."""
    found: dict[Path, Counter[str]] = {}
    writer = _Writer(namespace, (), {})
    for document in documents:
        for path, value in _leaves(document):
            found.setdefault(Path(namespace, path), Counter())[writer._value(value, path)] += 1  # noqa: SLF001
    return found


def _leaves(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _differing(runs: Sequence[Mapping[str, Counter[str]]]) -> list[str]:
    namespaces = {name for run in runs for name in run}
    return sorted(name for name in namespaces if any(run.get(name) != runs[0].get(name) for run in runs))


_SHOWN: Final = 3
_TEXT_MOST: Final = 160


def _counted(texts: Counter[str]) -> str:
    count = texts[_PART] or texts.total()
    return "1 document" if count == 1 else f"{count} documents"


def _shown(texts: Counter[str]) -> str:
    told = [text for text in texts if text != _PART] or list(texts)
    shown = [text if len(text) <= _TEXT_MOST else text[:_TEXT_MOST] + "…" for text in told[:_SHOWN]]
    return ", ".join([*shown, *(["…"] if len(told) > _SHOWN else [])])


class Field(NamedTuple):
    """A number of a document, by names that are the same in every run."""

    namespace: str
    document: str
    path: str


def net_changes(entries: Iterable[OplogEntry]) -> Counter[Field]:
    """Return by how much updates have changed the numbers of documents with a stable `_id`."""
    found: Counter[Field] = Counter()
    for entry in entries:
        for written in entry.changes:
            namespace = str(written.ns)
            if written.ns.db in SPARED or written.ns.collection.startswith("$cmd"):
                continue
            for path, change in _deltas(written.change):
                assert written.change.after is not None
                found[Field(namespace, repr(written.change.after.get("_id")), path)] += change
    return found


def _deltas(change: Changed) -> Iterator[tuple[str, Any]]:
    before, after = change.before, change.after
    if before is None or after is None or is_id(after.get("_id")):
        return
    numbers = dict(_numbers(before))
    for path, value in _numbers(after):
        if path in numbers and value != numbers[path]:
            yield path, value - numbers[path]


def _numbers(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _numbers(value, f"{path}.")
        elif isinstance(value, int | float) and not isinstance(value, bool) and not is_counter(name):
            yield path, value
