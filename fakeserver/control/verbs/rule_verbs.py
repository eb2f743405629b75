"""Verbs for rules and for faults of bytes: added, listed and removed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fakeserver.control.verbs.form import Verb
from fakeserver.rules.parsing import Known, at, conditions_of, occurrence_of, parse_rule
from fakeserver.rules.rule import Rule
from mongowire.documents.arguments import Argument, Kind
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.control.subject import Subject
    from fakeserver.deployment.cluster import Cluster
    from fakeserver.rules.book import RuleEntry


Document = dict[str, Any]

ALL: Final = "all"


def known_of(cluster: Cluster) -> Known:
    """Return the names that a rule of a deployment may use."""
    commands = {name: spec.name for server in cluster.servers for name, spec in server.commands.items()}
    servers = [name for server in cluster.servers for name in (server.name, server.address)]
    roles = ["primary", *(["secondary", "arbiter"] if cluster.shards else ())]
    return Known(commands, servers, [*roles, "mongos"] if cluster.routers else roles)


def add_holding_rule(subject: Subject, stated: Mapping[str, Any], times: int | None) -> RuleEntry:
    """Add a rule that holds requests. Raises `ControlError`."""
    cluster, document = subject.cluster, {"when": dict(stated), "hold": True}
    when = at("when", conditions_of, stated, known_of(cluster))
    occurrence = replace(occurrence_of(document), times=times)
    return cluster.rules.hold(Rule(when, occurrence=occurrence, document=document), cluster.clock.now())


def _add(subject: Subject, *, rule: Document) -> Document:
    cluster = subject.cluster
    parsed = at("rule", parse_rule, rule, known_of(cluster))
    return {"id": at("rule", cluster.rules.add, parsed, cluster.clock.now()).id}


def _list(subject: Subject) -> Document:
    return {"rules": subject.cluster.rules.listed(subject.cluster.clock.now())}


def _remove(subject: Subject, *, id: str) -> Document:  # noqa: A002 - the name of the argument
    rules, now = subject.cluster.rules, subject.cluster.clock.now()
    if id == ALL:
        return {"removed": rules.remove_all(now)}
    at("id", rules.remove, id, now)
    return {"removed": 1}


VERBS: Final = (
    Verb(
        "addRule",
        "rule add",
        (Argument("rule", Kind.DOCUMENT, "the rule, as in docs/RULES.md: when, then, times …"),),
        _add,
        "Add a rule: what becomes of requests that meet conditions.",
        undone_by="removeRule",
        example="rule add --command find --error IngressRequestRateLimitExceeded --times 2",
    ),
    Verb(
        "listRules",
        "rule ls",
        (),
        _list,
        "List the rules, with how often each was met.",
        reads=True,
        example="rule ls",
    ),
    Verb(
        "removeRule",
        "rule rm",
        (Argument("id", Kind.TEXT, "the name or number of the rule, or all"),),
        _remove,
        "Remove a rule, and let go the requests that it holds.",
        example="rule rm all",
    ),
)


# Verbs of faults of bytes: what the network does to connections (`fakeserver.network.faults`).


def _add_fault(subject: Subject, *, fault: Document) -> Document:
    cluster = subject.cluster
    try:
        return {"id": cluster.faults.add(fault, cluster).id}
    except ControlError as error:
        raise error.within("fault") from None


def _list_faults(subject: Subject) -> Document:
    cluster = subject.cluster
    return {"faults": cluster.faults.registry.documents(cluster.clock.now())}


def _remove_fault(subject: Subject, *, id: str) -> Document:  # noqa: A002 - the name of the argument
    try:
        return {"id": subject.cluster.faults.registry.remove(id).id}
    except ControlError as error:
        raise error.within("id") from None


FAULT_VERBS: Final = (
    Verb(
        "addFault",
        "network fault",
        (Argument("fault", Kind.DOCUMENT, "the fault, as docs/FAULTS.md describes it"),),
        _add_fault,
        "Add a fault of bytes: connections are delayed, cut, reset or damaged.",
        undone_by="removeFault",
        example='network fault \'{"at": "reply", "command": "find", "do": {"delay": "200ms"}}\'',
    ),
    Verb(
        "listFaults",
        "network ls",
        (),
        _list_faults,
        "List the faults of bytes, with their ids and how often each fired.",
        reads=True,
        example="network ls",
    ),
    Verb(
        "removeFault",
        "network rm",
        (Argument("id", Kind.TEXT, "the id or name of the fault"),),
        _remove_fault,
        "Remove a fault of bytes; what it has begun goes on.",
        example="network rm fault1",
    ),
)
