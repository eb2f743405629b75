"""The judgement of a trial: its outcome, against the clean runs and the invariants of the user.

Rules, each a function from the case to the findings that it makes:

    hangs            the command does not end; for one that nobody answers and that has no time limit, a note
    crashes          a signal ends it: a reference to nowhere, an abort
    stands still     it fails long after the fault: a worker died, and others waited for it
    fails            a fault that a right client masks reaches the user, or ends a worker for good
    other documents  it ends as if all was well, and the database says otherwise
    other output     it ends as if all was well, and does not say what it says in a clean run
    applied twice    it reports an error, and has done more than a clean run does
    left open        transactions or cursors that a clean run does not leave
    storms           requests without a growing wait, connections without end
    denied           it reports an error, though it was told that all was done in the end
    waits            a fault that nobody need notice lets the user wait too long
    invariants       what the user said must hold

A rule knows nothing of the others. Their order in `_RULES` says which finding names the bug where several
are made, from the symptom that says most. Before the rules come the notes of `judge`: ends that a right
program may come to. A new rule needs a `Kind`, a row of docs/HUNT.md, and a right program that it leaves
alone.
"""

from __future__ import annotations

import re
import signal
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from harness.hunt.baseline import stable_lines
from harness.hunt.documents import canonical, is_log
from harness.hunt.faults import BY_NAME, OUTAGE_SECONDS, Reach
from harness.hunt.findings import Finding, Judgement, Kind, last_error, story, trace
from mongowire.codes import Category, ErrorCode, is_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from harness.hunt.baseline import Baseline
    from harness.hunt.documents import Difference
    from harness.hunt.invariants import Invariants
    from harness.hunt.places import Request
    from harness.hunt.trial import Outcome

_STANDSTILL: Final = 5.0
"""Seconds from the fault to the end, beyond those of a clean run, that say nobody worked any more."""
_QUIET: Final = 3.0
"""Seconds without a write, and without another try of what has failed, that say the same."""
_STORM_RATE: Final = 12.0
"""Requests a second, over an outage, that are a storm when the waits between them do not grow."""
_GROWTH: Final = 1.5
_CONNECTIONS_FACTOR: Final = 3
_CONNECTIONS_MORE: Final = 12
_FAILED_TEST: Final = re.compile(
    r"^\s*(?:not ok \d+ |[✖✕\u00d7] |FAIL\b|--- FAIL: |\d+ failing$|Tests: +\d+ failed)", re.MULTILINE
)
"""How runners of tests say that a test has failed."""
_BY_SIGNAL: Final = 128
_CRASHES: Final = frozenset(
    _BY_SIGNAL + getattr(signal, name)
    for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP")
    if hasattr(signal, name)
)
"""Exit codes of a process that was ended by its own doing, as a shell tells them."""
_PASSING: Final = frozenset({"lost-replies", "lost-requests", "overloaded-for-long"})
_FOR_GOOD: Final = "outage-for-good"
_WAITS_FACTOR: Final = 2
_WAITS_MORE: Final = 3.0
"""A multiple of the slowest clean run, for a loaded machine, and seconds beside it: twice what a fault and a
driver take. Repetitions, and clean runs beside them, then say whether it was the fault."""
_ASSERTIONS: Final = ("AssertionError", "assert ", "Failed:")
_FOR_EVER: Final = 20
"""So many failures of one operation, and no end of them."""
_POLLS: Final = 5
"""So many requests of one name in a clean run, most of them with nothing found, are those of a worker."""


@dataclass(frozen=True)
class _Case:
    baseline: Baseline
    outcome: Outcome
    invariants: Invariants | None

    @cached_property
    def differences(self) -> list[Difference]:
        return self.baseline.differences(self.outcome)

    @property
    def is_masked(self) -> bool:
        """Whether a right client masks all of the faults that were met.

        Two operations side by side share a pool. The first fault clears it, and a checkout of the other one
        fails: that is what it is tried again for, once, and a second fault then reaches the user.
        """
        faults = {strike.fault.name: strike.fault for strike in self.outcome.strikes}
        struck = self.outcome.struck
        first = {request.operation: request for request in reversed(struck)}
        masked = all(faults[each.struck].masked(each) for each in first.values())
        are_side_by_side = len({each.session for each in first.values()}) > 1
        return masked and not are_side_by_side and not self._reached_others

    @property
    def _reached_others(self) -> bool:
        """Whether a failover that a fault made failed another request as well, and one that is not retried.

        PyMongo sends a write without its transaction number if the server became unknown to it between the
        choice of the server and the checkout: writes side by side meet a step-down in this way.
        """
        return any(
            is_in((each.reply or {}).get("code", 0), Category.NOT_PRIMARY)
            and not (each.is_retried or each.in_transaction)
            for each in self.outcome.requests
            if not each.struck
        )

    @property
    def may_hang(self) -> bool:
        return any(strike.fault.may_hang for strike in self.outcome.strikes)

    @property
    def succeeded(self) -> bool:
        return self.outcome.code == self.baseline.code and not self.tells

    @property
    def tells(self) -> bool:
        """Whether it ends as if all was well, and its documents say what did not become of what was asked.

        An order that is kept as cancelled, and a letter as dead, are no secret: it is for invariants to say
        what must be true of them.
        """
        is_well = self.outcome.code == self.baseline.code
        return is_well and any(each.tells for each in self.differences)

    @property
    def is_denied(self) -> bool:
        """Whether a fault of a write was reported as an error, and all is written as in a clean run."""
        if self.outcome.code is None or self.succeeded or not self.baseline.clean:
            return False
        writes = any(each.is_write or each.name == "commitTransaction" for each in self.outcome.struck)
        return writes and not self.differences


def judge(baseline: Baseline, outcome: Outcome, invariants: Invariants | None = None) -> Judgement:
    """Return what is wrong with a trial."""
    if len(outcome.unreached) == len(outcome.strikes):
        return Judgement(reached=False)
    case = _Case(baseline, outcome, invariants)
    if outcome.code is None and case.may_hang and not _must_answer(invariants) and not _tries_for_ever(case):
        return Judgement(notes=("it waits without a time limit for what never comes",))
    if outcome.code is None and outcome.left > _QUIET and not _must_answer(invariants):
        return Judgement(notes=("it has closed all of its connections, and does not end",))
    if outcome.code is None and _told_by_a_runner(outcome) and not _must_answer(invariants):
        return Judgement(
            notes=("a test has failed, and what it left open keeps its runner from ending",), reported=True
        )
    found = tuple(finding for rule in _RULES for finding in rule(case))
    steps = tuple(trace(outcome)) if found else ()
    said = tuple(story(baseline, outcome))
    return Judgement(found, reported=not case.succeeded, denied=case.is_denied, story=said, trace=steps)


def _told_by_a_runner(outcome: Outcome) -> bool:
    """Return whether a runner of tests has said that one failed, and nothing was asked any more."""
    return outcome.idle > _QUIET and _FAILED_TEST.search(outcome.ended.output) is not None


def _must_answer(invariants: Invariants | None) -> bool:
    return invariants is not None and invariants.within is not None


def _hangs(case: _Case) -> Iterator[Finding]:
    outcome = case.outcome
    if outcome.code is None:
        yield Finding(
            Kind.HANG,
            f"it had not ended after {outcome.ended.seconds:.0f} s, {outcome.idle:.0f} s after its last"
            f" request; a clean run takes {case.baseline.seconds:.1f} s",
        )


def _tries_for_ever(case: _Case) -> bool:
    """Return whether a command that did not end was still trying what had failed again and again.

    Whoever asks again and again in a clean run already, as a worker does, and whoever waits longer each time,
    may do so.
    """
    outcome = case.outcome
    struck = [each for each in outcome.struck if each.struck == _FOR_GOOD]
    if len(struck) < _FOR_EVER or outcome.idle > _QUIET:
        return False
    usual = max(case.baseline.counts.get(each.place.kind, 0) for each in struck)
    waits = [later.at - before.at for before, later in pairwise(struck)]
    return usual < _POLLS and not _grows(waits)


def _stands_still(case: _Case) -> Iterator[Finding]:
    """Find a fault that passed at once, and a command that failed long after it.

    While an outage lasts, or nobody answers, waiting is what a client should do.
    """
    outcome, clean = case.outcome, case.baseline
    if outcome.code is None or case.succeeded or case.tells or case.may_hang:
        return
    if any(strike.fault.reach is Reach.SHAPE for strike in outcome.strikes):
        return
    ended = "what did the work had ended, and nobody noticed"
    if outcome.after > clean.seconds + _STANDSTILL:
        after = f"it failed with exit code {outcome.code}, {outcome.after:.0f} s after the fault"
        yield Finding(Kind.STANDSTILL, f"{after}: {ended}")
    elif (quiet := outcome.quiet) > clean.quiet + _QUIET:
        after = f"it failed with exit code {outcome.code}, and had tried nothing for {quiet:.1f} s"
        yield Finding(Kind.STANDSTILL, f"{after}: {ended}")


def _fails(case: _Case) -> Iterator[Finding]:
    outcome = case.outcome
    if outcome.code is None or case.succeeded:
        return
    must = case.invariants is not None and case.invariants.succeeds
    if case.is_masked or must:
        told = f"exit code {outcome.code}: {last_error(outcome)}"
        if case.tells:
            told = f"it is kept in the documents: {'; '.join(map(str, case.differences))}"
        yield Finding(Kind.FAILS, told)
    elif not case.tells and outcome.restarts == 0 and _is_worker(case):
        yield Finding(Kind.WORKER, f"exit code {outcome.code}: {last_error(outcome)}")


def _crashes(case: _Case) -> Iterator[Finding]:
    """Find a process that a signal has ended by its own fault; a shell says it by the exit code."""
    code = case.outcome.code
    if code is not None and code in _CRASHES and code != case.baseline.code:
        name = signal.Signals(code - _BY_SIGNAL).name
        yield Finding(Kind.CRASHES, f"exit code {code} ({name}): {last_error(case.outcome)}")


def _is_worker(case: _Case) -> bool:
    """Return whether the command is a worker that one passing fault has ended: it had asked again and again.

    A fault that passes is one that says nothing about the request: of the network, of overload.
    """
    struck = case.outcome.struck
    polled = Counter(each.place.kind for each in case.outcome.requests if each.attempt == 1)
    return any(
        each.struck in _PASSING
        and max(polled[each.place.kind], case.baseline.counts.get(each.place.kind, 0)) >= _POLLS
        and _finds_nothing(case.outcome, each)
        for each in struck
    )


def _finds_nothing(outcome: Outcome, struck: Request) -> bool:
    """Return whether most requests of a name found nothing: they ask for work that is to come."""
    replies = [each.reply for each in outcome.requests if each.place.kind == struck.place.kind and each.reply]
    empty = sum(1 for reply in replies if reply.get("value", reply) is None or _is_empty(reply))
    return empty * 2 > len(replies)


def _is_empty(reply: Mapping[str, Any]) -> bool:
    cursor = reply.get("cursor")
    return isinstance(cursor, dict) and not (cursor.get("firstBatch") or cursor.get("nextBatch"))


def _other_documents(case: _Case) -> Iterator[Finding]:
    if not case.succeeded:
        return
    if found := case.differences:
        yield Finding(Kind.DOCUMENTS, "; ".join(map(str, found)), tuple(each.namespace for each in found))


def _other_output(case: _Case) -> Iterator[Finding]:
    if not case.succeeded or case.differences:
        return
    if missing := case.baseline.missing_lines(case.outcome):
        yield Finding(Kind.OUTPUT, f"it did not write {missing[0]!r}", ("output",))
    elif repeated := case.baseline.repeated_records(case.outcome):
        count = stable_lines(case.outcome).count(repeated[0])
        yield Finding(Kind.OUTPUT, f"it wrote {repeated[0]!r} {count} times", ("output",))


def _twice(case: _Case) -> Iterator[Finding]:
    """Find what went beyond a clean run that reports an error; what is missing there was reported."""
    if case.succeeded:
        return
    texts = canonical(case.outcome.contents, case.baseline.varying)
    for namespace, clean in case.baseline.clean.items():
        if namespace in case.baseline.apart or is_log(namespace):
            continue
        actual = texts.get(namespace, Counter())
        more = [text for text, count in actual.items() if text in clean and count > clean[text]]
        if more:
            yield Finding(
                Kind.TWICE,
                f"{namespace} has {more[0]} {actual[more[0]]} times, a clean run {clean[more[0]]} times",
                (namespace,),
            )
    for field, change in case.outcome.net.items():
        clean_change = case.baseline.net.get(field)
        if clean_change and change / clean_change > 1:
            yield Finding(
                Kind.TWICE,
                f"{field.namespace}: {field.path} of {field.document} has changed by {change},"
                f" in a clean run by {clean_change}",
                (field.namespace,),
            )


def _left_open(case: _Case) -> Iterator[Finding]:
    outcome, clean = case.outcome, case.baseline
    if not case.succeeded:
        return
    if outcome.open_transactions > clean.open_transactions:
        count = outcome.open_transactions
        yield Finding(Kind.TRANSACTION, f"{count} when the command had ended, with its locks")
    lost = sum(1 for request in outcome.struck if request.reply is None or not request.is_ok)
    if outcome.open_cursors > clean.open_cursors + lost:
        yield Finding(Kind.CURSOR, f"{outcome.open_cursors} when the command had ended")


def _retry_storm(case: _Case) -> Iterator[Finding]:
    for strike in case.outcome.strikes:
        if strike.fault.reach is not Reach.SHAPE:
            continue
        struck = [request.at for request in case.outcome.struck if request.place.kind == strike.place.kind]
        waits = [later - before for before, later in pairwise(struck)]
        usual = case.baseline.counts.get(strike.place.kind, 0)
        # They come faster than a client should ask, and no slower in the end.
        is_storm = not _grows(waits) and sum(waits) * _STORM_RATE < len(waits)
        if len(struck) > usual + _STORM_RATE * OUTAGE_SECONDS and is_storm:
            yield Finding(
                Kind.RETRY_STORM,
                f"{len(struck)} requests in {struck[-1] - struck[0]:.1f} s, without waiting longer each time",
            )


def _grows(waits: Sequence[float]) -> bool:
    quarter = max(1, len(waits) // 4)
    return sum(waits[-quarter:]) > _GROWTH * sum(waits[:quarter])


def _connection_storm(case: _Case) -> Iterator[Finding]:
    clean, now = case.baseline.connections, case.outcome.connections
    if now > clean * _CONNECTIONS_FACTOR + _CONNECTIONS_MORE:
        yield Finding(Kind.CONNECTION_STORM, f"{now} connections, in a clean run {clean}")


def _denied(case: _Case) -> Iterator[Finding]:
    """Find an error that is reported where the write had happened, and the application knew it.

    A write whose fate stayed unknown may be reported, until the application does it again and is told that it
    is there; so may every fault, unless the user has said that errors must be true. An assertion of the
    command's own is a look at what it did, and no word to its user.
    """
    last = last_error(case.outcome)
    must = case.invariants is not None and case.invariants.truthful
    asserts = last.startswith(_ASSERTIONS)
    if case.is_denied and (must or (_did_it_again(case) and not asserts)):
        yield Finding(
            Kind.DENIED, f"exit code {case.outcome.code}, with the documents of a clean run: {last}"
        )
    elif not case.is_denied and not asserts and _gave_up_on_its_own(case):
        yield Finding(Kind.DENIED, f"it met its own write (11000), and gave up: {last}")


def _gave_up_on_its_own(case: _Case) -> bool:
    """Return whether the last write is one that had happened, and was refused when it came again."""
    outcome = case.outcome
    if outcome.code in {None, case.baseline.code}:
        return False
    carried_out = [each for each in outcome.struck if not BY_NAME[each.struck].replaces(each)]
    last = next((each for each in reversed(outcome.requests) if each.is_write), None)
    return last is not None and _is_there(last) and any(_is_again(case, last, each) for each in carried_out)


def _did_it_again(case: _Case) -> bool:
    """Return whether each write that a fault struck came again and was done then, or found to be done.

    One that the fault kept from happening comes again in its session. Of one that had happened, the same one
    after it may be another: the next of a loop, unless clean runs ask for it once.
    """
    outcome = case.outcome
    first = min(each.at for each in outcome.struck)
    later = [each for each in outcome.requests if each.at >= first and not each.struck]
    again = [[each for each in later if _is_again(case, each, struck)] for struck in outcome.struck]
    found = {id(each) for requests in again for each in requests if _is_there(each)}
    return all(again) and all(each.is_ok or id(each) in found for each in later)


def _is_again(case: _Case, request: Request, struck: Request) -> bool:
    if BY_NAME[struck.struck].replaces(struck):
        is_known = request.session == struck.session and request.is_ok
        return is_known and _statement(request) == _statement(struck)
    kind, (words, turn) = struck.place.kind, struck.said
    is_once = (kind, (words, 1)) in (known := case.baseline.numbers.known) and (kind, (words, 2)) not in known
    is_same = request.place.kind == kind and request.said[0] == words and request.said[1] > turn
    return is_once and is_same and (request.is_ok or _is_there(request))


def _is_there(request: Request) -> bool:
    """Return whether a write was refused because what it writes is there already."""
    errors = (request.reply or {}).get("writeErrors") or ()
    return bool(errors) and all(each.get("code") == ErrorCode.DUPLICATE_KEY for each in errors)


def _statement(request: Request) -> dict[str, Any]:
    """Return what a request asks for; a commit is of its transaction, any other statement of none."""
    own = {"lsid"} if request.name == "commitTransaction" else {"lsid", "txnNumber", "startTransaction"}
    return {
        name: value for name, value in request.command.items() if name not in own and not name.startswith("$")
    }


def _waits(case: _Case) -> Iterator[Finding]:
    """Find a run that took much longer: than the user allows, or after a fault that a right client masks.

    Such a fault costs its own time, a second at most, and what drivers wait by their specifications: half a
    second between two looks at a server, and a backoff. The user sees none of it but the time.
    """
    outcome, clean = case.outcome, case.baseline.seconds
    if outcome.code is None:
        return
    wished = None if case.invariants is None else case.invariants.waits
    if wished is None and (not case.succeeded or not case.is_masked):
        return
    most = clean * _WAITS_FACTOR + _WAITS_MORE if wished is None else clean + wished
    if outcome.waited > most:
        yield Finding(
            Kind.WAITS,
            f"it took {outcome.waited:.1f} s, and {most:.1f} s are enough: the slowest clean run took"
            f" {clean:.1f} s",
            () if wished is None else ("waits",),
        )


def _invariants(case: _Case) -> Iterator[Finding]:
    if case.invariants is not None and case.outcome.code is not None:
        for name, words in case.invariants.broken(case.outcome):
            yield Finding(Kind.INVARIANT, f"{name}: {words}", (name,))


_RULES: Final[tuple[Callable[[_Case], Iterator[Finding]], ...]] = (
    *(_hangs, _crashes, _stands_still, _fails, _other_documents, _other_output, _twice, _left_open),
    *(_retry_storm, _connection_storm, _denied, _waits, _invariants),
)
