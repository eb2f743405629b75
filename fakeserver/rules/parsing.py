"""Reads a rule from its document. Strict: what is not known is refused, with the place and the cure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.rules.conditions import CONTROLLING, Conditions
from fakeserver.rules.parsing_effects import effects_of
from fakeserver.rules.reading import at, check_known, count_from_one, one_text, plain
from fakeserver.rules.rule import PER, Expectation, Rule, Sequence
from fakeserver.storage.filters.matching import compile_filter
from mongowire.documents import arguments
from mongowire.documents.errors import ControlError, unknown
from mongowire.documents.occurrence import Occurrence, check_exclusive
from mongowire.documents.suggestions import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

FIELDS: Final = ("name", "when", "then", "sequence", "per", "times", "for", "until", "expect")
"""The fields of a rule."""
CONDITIONS: Final = (
    *("command", "namespace", "appName", "node", "connection", "nth", "every", "attempt"),
    *("probability", "document"),
)
"""The fields of `when`."""
ROLES: Final = ("primary", "secondary", "arbiter", "mongos")
"""The roles of servers, by which a condition may name one."""
_ALL: Final = "all"
"""The name by which every rule is removed; no rule has it."""


@dataclass(frozen=True, slots=True)
class Known:
    """The names that exist in a deployment."""

    commands: Mapping[str, str]
    """The canonical name of each command, by name and alias."""
    servers: Collection[str] | None = None
    """The names and addresses of the servers, None where they are not known yet."""
    roles: Collection[str] = ROLES
    """The roles that its servers may have."""


def parse_rule(document: Any, known: Known) -> Rule:
    """Return the rule of a document. Raises `ControlError` that names the field."""
    rule = arguments.document(document)
    check_known("field", rule, FIELDS)
    when = at("when", conditions_of, rule.get("when", {}), known)
    then = at("then", effects_of, rule["then"]) if "then" in rule else effects_of([])
    sequence = _sequence(rule)
    expect = at("expect", _expectation, rule["expect"]) if "expect" in rule else None
    if sequence is not None and "then" in rule:
        raise ControlError("a rule has then or a sequence, not both", path=("sequence",))
    if then.is_nothing and sequence is None and expect is None:
        raise ControlError("the rule does nothing; write what comes of it: then, sequence or expect")
    return Rule(
        when,
        then,
        sequence,
        name=at("name", _name, rule["name"]) if "name" in rule else None,
        occurrence=occurrence_of(rule),
        expect=expect,
        document=plain(rule),
    )


def occurrence_of(rule: Mapping[str, Any]) -> Occurrence:
    """Return which matches a rule counts, and for how long. Raises `ControlError` that names the field."""

    def read(document: Mapping[str, Any], name: str, reader: Callable[..., Any]) -> Any:
        return at(name, reader, document[name]) if name in document else None

    def chosen(conditions: Mapping[str, Any]) -> dict[str, Any]:
        check_exclusive(conditions)
        return {
            "nth": read(conditions, "nth", count_from_one),
            "every": read(conditions, "every", count_from_one),
            "probability": read(conditions, "probability", arguments.share),
        }

    return Occurrence(
        **at("when", chosen, rule.get("when") or {}),
        times=read(rule, "times", count_from_one),
        seconds=read(rule, "for", _span),
        until=read(rule, "until", _span),
    )


def _name(value: Any) -> str:
    name = one_text(value)
    if name == _ALL:
        raise ControlError(f"no rule is named {_ALL!r}, which stands for every rule")
    return name


def _span(value: Any) -> float:
    seconds = arguments.duration(value)
    if not seconds:
        raise ControlError("the time is 0: the rule would never hold")
    return seconds


def _sequence(rule: Mapping[str, Any]) -> Sequence | None:
    if "sequence" not in rule:
        if "per" in rule:
            raise ControlError("per belongs to a sequence", path=("per",))
        return None
    steps = rule["sequence"]
    if not isinstance(steps, list | tuple) or not steps:
        raise ControlError(
            f"{steps!r} is no list of steps; write a list of lists of effects", path=("sequence",)
        )
    per = rule.get("per", "rule")
    if per not in PER:
        raise unknown("value", per, PER, path=("per",))
    read = [at("sequence", at, index, effects_of, step) for index, step in enumerate(steps)]
    return Sequence(tuple(read), per)


def _expectation(value: Any) -> Expectation:
    if not hasattr(value, "keys"):
        number = arguments.count(value)
        return Expectation(number, number)
    document = arguments.document(value)
    check_known("field", document, ("count", "min", "max"))
    if "count" in document:
        if len(document) > 1:
            raise ControlError("count stands alone; write min and max for a range")
        count = document["count"]
        return at("count", _expectation, count)
    if not document:
        raise ControlError("write count, or min and max")
    least = at("min", arguments.count, document.get("min", 0))
    most = at("max", arguments.count, document["max"]) if "max" in document else None
    if most is not None and most < least:
        raise ControlError(f"max is {most}, less than min, which is {least}")
    return Expectation(least, most)


# Conditions.


def conditions_of(value: Any, known: Known) -> Conditions:
    """Return the conditions of a document. Raises `ControlError` that names the field."""
    document = arguments.document(value)
    check_known("condition", document, CONDITIONS)

    def read(name: str, reader: Callable[..., Any], *more: Any) -> Any:
        return at(name, reader, document[name], *more) if name in document else None

    query = read("document", arguments.document)
    return Conditions(
        commands=read("command", _commands, known),
        namespace=read("namespace", _namespace),
        app_name=read("appName", one_text),
        node=read("node", _node, known),
        connection=read("connection", count_from_one),
        attempt=read("attempt", count_from_one),
        meets_document=None if query is None else at("document", _filter, query),
        document=query,
    )


def _commands(value: Any, known: Known) -> frozenset[str]:
    names = arguments.names(value)
    if not names:
        raise ControlError("the list of commands is empty")
    found = {_command(name, known) for name in names}
    return frozenset(found | {"isMaster"} if "hello" in found else found)


def _command(name: str, known: Known) -> str:
    canonical = known.commands.get(name)
    if canonical is None:
        if nearest(name, known.commands):
            raise unknown("command", name, known.commands)
        raise ControlError(f"unknown command {name!r}; the command listCommands returns those that exist")
    if canonical in CONTROLLING:
        raise ControlError(f"no rule covers {canonical}, which ends faults")
    return canonical


def _namespace(value: Any) -> str:
    text = one_text(value)
    db, _, collection = text.partition(".")
    if not db or not collection:
        raise ControlError(f"{text!r} is no namespace; write 'db.collection', or 'db.*' for a database")
    if "*" in text and (collection != "*" or "*" in db):
        raise ControlError(f"{text!r}: a star stands for every collection of a database, as in 'shop.*'")
    return text


def _node(value: Any, known: Known) -> str:
    text = one_text(value)
    if known.servers is not None and text not in known.roles and text not in known.servers:
        raise unknown("server", text, [*known.roles, *known.servers])
    return text


def _filter(query: Mapping[str, Any]) -> Callable[[Any], bool]:
    try:
        return compile_filter(query)
    except CommandError as error:
        raise ControlError(f"no filter: {error.message}") from None
