"""Verbs of rules (`fakeserver.rules`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fakeserver.control.verbs.form import Verb
from fakeserver.rules.parsing import Known, at, conditions_of, occurrence_of, parse_rule
from fakeserver.rules.rule import Rule
from mongowire.documents.arguments import Argument, Kind

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
