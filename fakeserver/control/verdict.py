"""The verdict on a run: which of its faults happened, which never did, and what reached the application.

A fault that never happens is a test that proves nothing, and says so nowhere: a mistyped collection, a
timeline that outlives the program. So a deployment that has been used is asked, whoever used it: the command
line (`exec`, `drill`, `serve --scenario`), the fixture of pytest, or a program by the verb `verdict`.

A run is as expected if every rule, fault, fail point and expectation was met, no step of a timeline failed,
and at least one of its steps was performed. Operations that failed are told and judge nothing: whether an
application may fail is for its own tests to say.
"""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from fakeserver.deployment.records.journal import folded
from fakeserver.deployment.records.journal_search import REQUEST, Criteria, near_misses
from fakeserver.deployment.records.operations import operations_in
from fakeserver.deployment.records.record import words_of
from fakeserver.deployment.spec import Topology
from fakeserver.rules.rule import times
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fakeserver.control.subject import Subject
    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.records.journal import Fold
    from fakeserver.network.faults import Fault
    from fakeserver.rules.book import RuleEntry
    from fakeserver.settings.failpoints import FailPointUse
    from mongowire.documents.occurrence import Occurrence


Document = dict[str, Any]

_TIMELINE: Final = "timeline"
_MOST_REQUESTS: Final = 10_000
"""The requests that are folded into operations: the newest. Each must be decoded."""
NEEDS_REPLICA_SET: Final = (
    "transactions and change streams cannot run on a standalone server; "
    "-t replicaset has a replica set instead"
)
_OF_REPLICA_SETS: Final = frozenset({int(ErrorCode.ILLEGAL_OPERATION), 40573})
"""The errors of a standalone server to whoever begins a transaction, or opens a change stream."""
_MOST_LINES: Final = 8
"""The lines of one kind; the rest is a number."""


def verdict_of(subject: Subject) -> Document:
    """Return the verdict on what a deployment has been used for so far.

    `steps` are those of its timeline: their number (`of`), how many were `performed`, and those that `failed`
    or are `waiting`. `met` has the rules, faults, fail points and expectations that were met, with their
    hits; `neverMet` the others, each with its `nearMisses`. `operations` are those of applications. `lines`
    says it for a reader, `complaints` what is not as expected alone.
    """
    cluster = subject.cluster
    judged = [*_fail_points(cluster), *_rules(cluster), *_faults(cluster)]
    steps = _steps(subject)
    never_met = [
        {name: each[name] for name in ("kind", "name", "what", "nearMisses")}
        for each in judged
        if not each["met"]
    ]
    verdict: Document = {
        "asExpected": not (never_met or steps["failed"] or (steps["of"] and not steps["performed"])),
        "steps": steps,
        "met": [
            {"kind": each["kind"], "name": each["name"], "hits": each["hits"]}
            for each in judged
            if each["met"]
        ],
        "neverMet": never_met,
        "operations": operations_in(cluster.journal, most=_MOST_REQUESTS).to_document(),
    }
    verdict["reason"] = _reason(verdict)
    # What may explain errors of an application that have no fault of ours as their cause.
    needs_set = any(each["code"] in _OF_REPLICA_SETS for each in verdict["operations"]["failed"])
    is_single = cluster.spec.topology is Topology.SINGLE
    verdict["hints"] = [NEEDS_REPLICA_SET] if needs_set and is_single else []
    return {**verdict, "complaints": _complaints(verdict), "lines": _lines(verdict)}


def _steps(subject: Subject) -> Document:
    timeline = subject.parts.get(_TIMELINE)
    rows: Sequence[Mapping[str, Any]] = [] if timeline is None else timeline.describe()
    shown = ("step", "trigger", "verb")
    return {
        "of": len(rows),
        "performed": sum(1 for row in rows if row["performed"] and row["error"] is None),
        "failed": [
            {**{name: row[name] for name in shown}, "error": row["error"]}
            for row in rows
            if row["error"] is not None
        ],
        "waiting": [
            {**{name: row[name] for name in shown}, "reading": row["reading"]}
            for row in rows
            if not row["performed"] and row["error"] is None
        ],
    }


def _fail_points(cluster: Cluster) -> Iterator[Document]:
    for use in cluster.fail_point_uses:
        yield {
            "kind": "fail point",
            "name": use.name,
            "what": str(use),
            "met": use.is_met,
            "hits": use.hits,
            "nearMisses": [] if use.is_met else _near_fail_point(use, cluster),
        }


def _rules(cluster: Cluster) -> Iterator[Document]:
    for entry in (*cluster.rules.removed, *cluster.rules.entries):
        if entry.held is not None:
            continue
        never_met = entry.never_met
        yield {
            "kind": "expectation" if entry.rule.expect is not None else "rule",
            "name": entry.id,
            "what": never_met,
            "met": never_met is None,
            "hits": entry.hits,
            "nearMisses": [] if never_met is None else _near_rule(entry, cluster),
        }


def _faults(cluster: Cluster) -> Iterator[Document]:
    for fault, count in cluster.faults.registry.counts():
        yield {
            "kind": "fault",
            "name": fault.id,
            "what": f"fault {fault.id} (at: {fault.phase.value})",
            "met": count.hits > 0 or (count.seen > 0 and fault.occurrence.probability is not None),
            "hits": count.hits,
            "nearMisses": [] if count.hits else _near_fault(fault, count.seen, cluster),
        }


# Near misses.


def _near_rule(entry: RuleEntry, cluster: Cluster) -> list[str]:
    rule = entry.rule
    if rule.expect is not None:
        return entry.near_misses
    when = rule.when
    criteria = Criteria(
        frozenset({REQUEST}),
        commands=when.commands or frozenset(),
        namespace=when.namespace,
        app_name=when.app_name,
        node=_name_of(when.node, cluster),
        connection=when.connection,
        matches=when.meets_document,
    )
    return _passed_over(entry.matches, rule.occurrence) or _near(criteria, cluster)


def _near_fault(fault: Fault, seen: int, cluster: Cluster) -> list[str]:
    criteria = Criteria(
        frozenset({REQUEST}),
        commands=fault.commands,
        app_name=fault.app_name,
        node=_name_of(fault.node, cluster),
        connection=fault.connection,
    )
    return _passed_over(seen, fault.occurrence) or _near(criteria, cluster)


def _near_fail_point(use: FailPointUse, cluster: Cluster) -> list[str]:
    commands, namespace, app_name = (use.data.get(each) for each in ("failCommands", "namespace", "appName"))
    criteria = Criteria(
        frozenset({REQUEST}),
        commands=frozenset(each for each in commands if isinstance(each, str))
        if isinstance(commands, list)
        else frozenset(),
        namespace=namespace if isinstance(namespace, str) else None,
        app_name=app_name if isinstance(app_name, str) else None,
    )
    return _near(criteria, cluster)


def _passed_over(seen: int, occurrence: Occurrence) -> list[str]:
    """Return why requests that met the conditions were passed over."""
    if not seen:
        return []
    turn = f"one in {occurrence.every}" if occurrence.every else f"number {occurrence.nth}"
    met = "1 request" if seen == 1 else f"{seen} requests"
    return [f"{met} met the conditions; it is for {turn} of them"]


def _near(criteria: Criteria, cluster: Cluster) -> list[str]:
    return near_misses(criteria, cluster.journal)


def _name_of(word: str | None, cluster: Cluster) -> str | None:
    """Return the name of the server that a word names; None for a role, which changes."""
    return next((node.name for node in cluster.servers if word in {node.name, node.address}), None)


# Lines.


def _lines(verdict: Mapping[str, Any]) -> list[str]:
    """Return a verdict as lines for a reader."""
    operations = verdict["operations"]
    lines = [f"verdict: {'; '.join(_head(verdict))}", *_complaints(verdict)]
    if verdict["steps"]["performed"]:
        lines += _waiting_steps(verdict)
    failed = []
    for each in operations["failed"]:
        error = each["error"] if each["code"] is None else f"{each['code']} {each['error']}"
        failed.append(f"  failed in the application: {each['command']}, {error}, {times(each['count'])}")
    lines += _bounded(failed, "kinds of errors")
    if awaiting := operations["awaiting"]["errors"]:
        lines.append(f"  failed while awaiting data: getMore, {times(awaiting)} (a change stream resumes)")
    return lines + [f"  hint: {each}" for each in verdict["hints"]]


def _complaints(verdict: Mapping[str, Any]) -> list[str]:
    """Return a line for each thing that is not as expected, with the near misses below it."""
    steps = verdict["steps"]
    failed = [
        f"  failed: {each['step']} {each['trigger']}: {each['verb']}: {each['error']}"
        for each in steps["failed"]
    ]
    lines = _bounded(failed, "steps that failed")
    if not steps["performed"]:
        lines += _waiting_steps(verdict)
    for each in verdict["neverMet"][:_MOST_LINES]:
        lines.append(f"  never met: {each['what']}")
        lines += [f"    near miss: {near}" for near in each["nearMisses"]]
    return lines + _more(len(verdict["neverMet"]), "never met")


def _reason(verdict: Mapping[str, Any]) -> str:
    """Return why a run is not as expected, in a few words; "" where it is."""
    if verdict["asExpected"]:
        return ""
    steps, never = verdict["steps"], len(verdict["neverMet"])
    reasons = [f"{never} of its faults and expectations never met"] if never else []
    if steps["of"] and not steps["performed"] and not steps["failed"]:
        reasons.append("no step of the timeline was performed")
    reasons += [f"{len(steps['failed'])} of its steps failed"] if steps["failed"] else []
    return ", ".join(reasons)


def _head(verdict: Mapping[str, Any]) -> Iterator[str]:
    steps, operations = verdict["steps"], verdict["operations"]
    if steps["of"]:
        yield f"{steps['performed']} of {steps['of']} steps performed"
    if verdict["met"]:
        met = []
        for each in verdict["met"]:
            hits = times(each["hits"]) if each["hits"] else "as set"
            met.append(f"{each['kind']} {each['name']} {hits}")
        more = f" and {len(met) - _MOST_LINES} more" if len(met) > _MOST_LINES else ""
        yield f"met {', '.join(met[:_MOST_LINES])}{more}"
    if verdict["neverMet"]:
        yield f"{len(verdict['neverMet'])} never met"
    yield f"{operations['errors']} of {operations['operations']} operations failed"


def _waiting_steps(verdict: Mapping[str, Any]) -> list[str]:
    lines = []
    for step in verdict["steps"]["waiting"]:
        reading = f" ({step['reading']})" if step["reading"] else ""
        lines.append(f"  not performed: {step['step']} {step['trigger']}: {step['verb']}{reading}")
    return _bounded(lines, "steps not performed")


def _bounded(lines: Sequence[str], what: str) -> list[str]:
    return [*lines[:_MOST_LINES], *_more(len(lines), what)]


def _more(count: int, what: str) -> list[str]:
    return [f"  … {count - _MOST_LINES} more {what}"] if count > _MOST_LINES else []


# The trace of a run as one HTML page: the verdict on it, and what the servers were asked and did, in order.
#
# It opens from a disk, makes no request and runs no script. What repeats is one row with its count, as in the
# lines of a test that failed.


MOST_ROWS: Final = 2000

_HEAD: Final = (
    '<th scope="col">Seconds</th><th scope="col" class="wide">Record</th>'
    '<th scope="col">Server</th><th scope="col">What</th>'
)

_STYLE: Final = """
* { box-sizing: border-box; }
body { margin: 0; font: 14px/1.5 var(--sans); color: var(--ink); background: var(--ground); }
header, main { padding: 1rem 1.5rem 0; } main { padding-bottom: 3rem; }
h1 { margin: 0; font-size: 1.5rem; } h2 { margin: 0 0 .6rem; font-size: 1.05rem; }
section { padding: .9rem 1.1rem; margin-bottom: 1rem; border: 1px solid var(--line); border-radius: 12px;
  background: var(--paper); box-shadow: var(--shadow); }
pre { margin: 0; font: 12.5px/1.5 var(--mono); white-space: pre-wrap; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0;
  border-bottom: 1px solid var(--line); white-space: nowrap; }
th:last-child, td:last-child { width: 100%; white-space: normal; overflow-wrap: anywhere; }
th:first-child, td:first-child { text-align: right; }
.dim { color: var(--quiet); } .error { color: var(--bad); } .event { color: var(--link); }
@media (max-width: 40rem) { .wide { display: none; } header, main { padding: .8rem .6rem 0; } }
"""


def trace_page(title: str, verdict: Mapping[str, Any], documents: Iterable[Mapping[str, Any]]) -> str:
    """Return the page of a run, made of its verdict and of the records of its journal as documents."""
    kept, left_out = folded(documents, MOST_ROWS)
    palette = (files("fakeserver") / "control" / "web" / "page" / "palette.css").read_text(encoding="utf-8")
    outcome = "as expected" if verdict["asExpected"] else "not as expected"
    rows = "1 row" if len(kept) == 1 else f"{len(kept)} rows"
    more = f", {left_out} records left out" if left_out else ""
    legend = f"{rows}{more}. Requests that failed begin with ✗, faults and verbs with ●."
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{palette}{_STYLE}</style></head><body>",
        f"<header><h1>{escape(title)}: {outcome}</h1></header><main>",
        f"<section><h2>Verdict</h2><pre>{escape(chr(10).join(verdict['lines']))}</pre></section>",
        "<section><h2>What happened</h2>",
        f'<p class="dim">{legend}</p>',
        f"<table><thead><tr>{_HEAD}</tr></thead><tbody>",
        *_rows(kept),
        "</tbody></table></section></main></body></html>\n",
    ]
    return "\n".join(parts)


def _rows(folds: Sequence[Fold]) -> Iterator[str]:
    for fold in folds:
        first = fold.first
        kind, mark = ("error", "✗ ") if fold.is_error else ("event", "● ") if fold.is_event else ("", "")
        times = "" if fold.size == 1 else f' <span class="dim">{fold.size} times</span>'
        cells = (
            f"<td>{first['at']:.3f}</td>",
            f'<td class="dim wide">#{first["seq"]}</td>',
            f"<td>{escape(str(first['node']))}</td>",
            f'<td class="{kind}">{mark}{escape(words_of(first))}{times}</td>',
        )
        yield f"<tr>{''.join(cells)}</tr>"
