"""Verbs of the journal: read it, count in it, verify what came, show the attempts of operations, clear it."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from fakeserver.control.verbs.form import Verb
from fakeserver.control.verdict import verdict_of
from fakeserver.deployment.records.events import KINDS
from fakeserver.deployment.records.journal_search import REQUEST, Criteria, is_counted, near_misses
from fakeserver.deployment.records.operations import operations_of, retried
from fakeserver.errors import CommandError
from fakeserver.storage.filters.matching import compile_filter
from mongowire.documents.arguments import Argument, Kind
from mongowire.documents.errors import ControlError, UnmetError, unknown

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from fakeserver.control.subject import Subject
    from fakeserver.deployment.records.journal import Journal
    from fakeserver.deployment.records.record import Record


Document = dict[str, Any]

_MOST: Final = 1000
_MOST_REQUESTS: Final = 5_000
"""The requests that are looked at for attempts: the newest. Each must be decoded."""
_VERDICTS: Final = ("admitted", "queued", "rejected")

_COMMANDS: Final = Argument("command", Kind.NAMES, "the commands", None)
_WANTED: Final = (
    Argument("namespace", Kind.TEXT, "the namespace, as shop.orders, or shop.* for a database", None),
    Argument("appName", Kind.TEXT, "the application name of the client", None),
    Argument("node", Kind.SERVER, "the server", None),
    Argument("connection", Kind.COUNT, "the number of the connection", None),
    Argument("outcome", Kind.OUTCOME, "ok, error, disconnect, silence, or an error code", None),
    Argument("verdict", Kind.TEXT, "the decision of admission control", None, known=_VERDICTS),
    Argument("document", Kind.DOCUMENT, "a filter on the command document", None),
    Argument("since", Kind.COUNT, "only what is newer than the record of this number", None),
)
_KIND: Final = Argument("kind", Kind.NAMES, "the kinds of records, such as ruleHit; all if not given", None)


def _read(subject: Subject, *, since: int | None, limit: int, documents: bool, **wanted: Any) -> Document:
    journal = subject.cluster.journal
    criteria = _criteria(subject, **wanted)
    found = list(islice(criteria.found_in(journal, since=since or 0, newest_first=since is None), limit))
    if since is None:
        found.reverse()
    return {
        "records": [record.to_document(documents=documents) for record in found],
        "last": journal.last_seq,
        "dropped": journal.dropped,
    }


def _count(subject: Subject, *, since: int | None, **wanted: Any) -> Document:
    journal, criteria = subject.cluster.journal, _criteria(subject, **wanted)
    count = sum(1 for _ in criteria.found_in(journal, since=since or 0))
    return {"count": count, "last": journal.last_seq, "dropped": journal.dropped}


def _clear(subject: Subject) -> Document:
    return {"cleared": subject.cluster.journal.clear()}


def _attempts(subject: Subject, *, least: int, limit: int, since: int | None, **wanted: Any) -> Document:
    journal, criteria = subject.cluster.journal, _criteria(subject, kind=[REQUEST], **wanted)
    newest = islice(criteria.found_in(journal, since=since or 0, newest_first=True), _MOST_REQUESTS)
    met = list(newest)[::-1]
    found = [
        each for each in operations_of(retried(met) if least > 1 else met) if len(each.attempts) >= least
    ]
    began = journal.origin.at
    return {"operations": [each.to_document(began) for each in found[max(len(found) - limit, 0) :]]}


def _verify(
    subject: Subject,
    *,
    count: int | None,
    at_least: int | None,
    at_most: int | None,
    within: float,
    since: int | None,
    **wanted: Any,
) -> Document | Coroutine[Any, Any, Document]:
    if count is not None and (at_least is not None or at_most is not None):
        raise ControlError("give count, or atLeast and atMost", path=("count",))
    least = count if count is not None else at_least
    if least is None:
        least = 0 if at_most is not None else 1
    most = count if count is not None else at_most
    if most is not None and least > most:
        raise ControlError(f"atLeast is {least}, and atMost only {most}", path=("atLeast",))
    expectation = _Expectation(subject.cluster.journal, _criteria(subject, **wanted), least, most, since or 0)
    if expectation.is_over or not within:
        return expectation.result()
    return _verified(subject, expectation, within)


async def _verified(subject: Subject, expectation: _Expectation, within: float) -> Document:
    clock = subject.cluster.clock
    await expectation.journal.until(lambda: expectation.is_over, clock.sleep_until(clock.now() + within))
    return expectation.result()


class _Expectation:
    """Requests that are expected: from `least` to `most`, None for as many as may come."""

    def __init__(
        self, journal: Journal, criteria: Criteria, least: int, most: int | None, since: int
    ) -> None:
        self.journal = journal
        self._criteria = criteria
        self._least, self._most = least, most
        self._since = self._seen = since
        self._met: list[Record] = []

    @property
    def is_over(self) -> bool:
        """Whether nothing that comes changes the result: there are enough, or too many.

        Where none are needed, more than allowed may come until the end.
        """
        last = self.journal.last_seq
        found = self._criteria.found_in(self.journal, since=self._seen)
        self._met += [record for record in found if is_counted(record, self._criteria)]
        self._seen = max(last, self._seen)
        count = len(self._met)
        return self._is_exceeded or (count >= self._least > 0)

    @property
    def _is_exceeded(self) -> bool:
        return self._most is not None and len(self._met) > self._most

    def result(self) -> Document:
        """Return the records that were met. Raises `UnmetError` where they are too few or too many."""
        _ = self.is_over
        count = len(self._met)
        if self._is_exceeded or count < self._least:
            raise UnmetError(self._why())
        shown = self._met[max(count - _MOST, 0) :]
        return {"count": count, "records": [record.to_document() for record in shown]}

    def _why(self) -> str:
        least, most, count = self._least, self._most, len(self._met)
        upto = str(most) if least == most else f"{least} to {most}"
        wanted = f"{least} or more" if most is None else upto
        text = f"{wanted} {self._criteria} expected, {count} came"
        if self._is_exceeded:
            records = self._met[-3:]
            return f"{text}; the last: " + ", ".join(f"#{record.seq}" for record in records)
        nearest = near_misses(self._criteria, self.journal, self._since)
        return f"{text}; nearest: {'; '.join(nearest)}" if nearest else f"{text}; nothing came near"


def _criteria(
    subject: Subject,
    *,
    command: Sequence[str] | None,
    namespace: str | None,
    app_name: str | None,
    node: str | None,
    connection: int | None,
    outcome: str | int | None,
    verdict: str | None,
    document: Document | None,
    kind: Sequence[str] | None,
) -> Criteria:
    """Return what is wanted of records. Raises `ControlError`."""
    for each in kind or ():
        if each not in KINDS:
            raise unknown("kind of record", each, KINDS, path=("kind",))
    known = {name for server in subject.cluster.servers for name in server.commands}
    for each in command or ():
        if each not in known:
            raise unknown("command", each, known, path=("command",))
    of_requests = any(each is not None for each in (command, namespace, app_name, outcome, verdict, document))
    return Criteria(
        kinds=frozenset(kind or ((REQUEST,) if of_requests else ())),
        commands=frozenset(command or ()),
        namespace=namespace,
        app_name=app_name,
        node=None if node is None else subject.node(node).name,
        connection=connection,
        outcome=outcome,
        verdict=verdict,
        matches=None if document is None else _filter(document),
    )


def _filter(document: Document) -> Any:
    try:
        return compile_filter(document)
    except CommandError as error:
        raise ControlError(error.message, path=("document",)) from None


VERBS: Final = (
    Verb(
        "readJournal",
        "journal",
        (
            _KIND,
            _COMMANDS,
            *_WANTED,
            Argument("limit", Kind.COUNT, "the most records: the newest, or with since the oldest", _MOST),
            Argument("documents", Kind.FLAG, "with the documents of requests and replies", default=False),
        ),
        _read,
        "Show what the servers were asked, what they answered, and what happened to them.",
        reads=True,
        example="journal --command find --limit 20",
    ),
    Verb(
        "countJournal",
        "journal count",
        (_KIND, _COMMANDS, *_WANTED),
        _count,
        "Count records of the journal.",
        reads=True,
        example="journal count --command insert --outcome error",
    ),
    Verb(
        "verify",
        "journal verify",
        (
            _COMMANDS,
            Argument("count", Kind.COUNT, "the number of requests; 1 or more if nothing is given", None),
            Argument("atLeast", Kind.COUNT, "the least number of requests", None),
            Argument("atMost", Kind.COUNT, "the largest number of requests", None),
            Argument("within", Kind.DURATION, "time for which requests that are missing are awaited", "0s"),
            *_WANTED,
            Argument("kind", Kind.NAMES, "the kinds of records, in place of requests", None),
        ),
        _verify,
        "Check that the servers were sent what was expected; a failure says what came nearest.",
        reads=True,
        example="journal verify --command insert --count 1 --within 5s",
    ),
    Verb(
        "attempts",
        "journal attempts",
        (
            _COMMANDS,
            *_WANTED,
            Argument("least", Kind.COUNT, "only operations with at least so many attempts", 2),
            Argument("limit", Kind.COUNT, "the most operations: the newest", _MOST),
        ),
        _attempts,
        "Show the operations that were attempted again, with the seconds between their attempts.",
        reads=True,
        example="journal attempts --command insert",
    ),
    Verb(
        "clearJournal",
        "journal clear",
        (),
        _clear,
        "Forget the records; their numbers go on.",
        example="journal clear",
    ),
)


# The verb `verdict`: what of the faults of a run happened, and what reached the application.


VERDICT_VERBS: Final = (
    Verb(
        "verdict",
        "journal verdict",
        (),
        verdict_of,
        "Show which steps, rules, faults and fail points happened, which never did, and what failed.",
        reads=True,
        example="journal verdict",
    ),
)
