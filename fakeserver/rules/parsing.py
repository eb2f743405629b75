"""Reads a rule from its document. Strict: what is not known is refused, with the place and the cure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import bson
from bson import Int64
from bson.errors import BSONError

from fakeserver.errors import CommandError
from fakeserver.rules.rule import (
    CONTROLLING,
    PER,
    Answer,
    Conditions,
    Effects,
    Ending,
    Expectation,
    Fail,
    Rule,
    RuleReply,
    Sequence,
)
from fakeserver.storage.filters.matching import compile_filter
from mongowire.codes import ErrorCode, Label, code_name
from mongowire.documents import arguments
from mongowire.documents.errors import ControlError, nearest, unknown
from mongowire.documents.occurrence import Occurrence, check_exclusive

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping


T = TypeVar("T")


def at(place: str | int, reader: Callable[..., T], *values: Any) -> T:
    """Call a reader. Raises its `ControlError` with `place` in front of the path."""
    try:
        return reader(*values)
    except ControlError as error:
        raise error.within(place) from None


def check_known(kind: str, document: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise `ControlError` for a key that is not known."""
    names = tuple(known)
    for key in document:
        if key not in names:
            raise unknown(kind, key, names)


def one_text(value: Any) -> str:
    """Return a text. Raises `ControlError`."""
    return arguments.text(value)


def count_from_one(value: Any) -> int:
    """Return a whole number from 1. Raises `ControlError`."""
    number = arguments.count(value)
    if number < 1:
        raise ControlError(f"{value!r} is less than 1; counts begin with 1")
    return number


def plain(value: Any) -> Any:
    """Return a value with plain documents and lists in place of what Python code may hand over."""
    if hasattr(value, "keys"):
        return {key: plain(value[key]) for key in value}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


# Effects.


_ANSWERS: Final = ("error", "reply", "close", "silence", "pass")
_OF_ERRORS: Final = ("labels", "message", "extra")
_IN_ORDER: Final = ("delay", *_ANSWERS, "label", "writeConcernError", "fields")
EFFECTS: Final = (*_ANSWERS, "delay", "label", "writeConcernError", "fields", *_OF_ERRORS)
_ENDINGS: Final = {ending.value: ending for ending in Ending if ending is not Ending.HOLD}
_OF_REPLIES: Final = {
    "ok": "an error always has ok: 0",
    "code": "write the code as the error",
    "codeName": "the name belongs to the code",
    "errmsg": "write message",
    "errorLabels": "write labels",
}
_CODES: Final = {code.code_name: int(code) for code in ErrorCode}
_LABELS: Final = frozenset(str(label) for label in Label)
_INT32_MAX: Final = (1 << 31) - 1
_MESSAGE: Final = "Failing command via rule"


def effects_of(value: Any) -> Effects:
    """Return the effects that a list of documents states; one document is a list of one.

    Raises `ControlError` that names the field.
    """
    if hasattr(value, "keys"):
        return _merged([_effect(arguments.document(value))])
    if not isinstance(value, list | tuple):
        raise ControlError(f"{value!r} is no list of effects; write a document of each, as [{{error: 462}}]")
    return _merged([at(index, _effect, each) for index, each in enumerate(value)])


def _effect(value: Any) -> Effects:
    document = arguments.document(value)
    check_known("effect", document, EFFECTS)
    if not document:
        raise ControlError("the effect is empty")
    for name in _OF_ERRORS:
        allowed = "error" in document or (name == "labels" and "writeConcernError" in document)
        if name in document and not allowed:
            cure = "; label adds labels to any reply" if name == "labels" else ""
            raise ControlError(f"{name} goes with an error, and there is none{cure}", path=(name,))
    answers = [name for name in _ANSWERS if name in document]
    if len(answers) > 1:
        raise ControlError(f"{answers[0]} and {answers[1]} are both answers; a request gets one")
    delay = at("delay", arguments.duration, document["delay"]) if "delay" in document else 0.0
    concern = document.get("writeConcernError")
    alone = "labels" in document and "error" not in document
    return Effects(
        delay=delay,
        answer=_answer(answers[0], document) if answers else None,
        labels=at("label", labels_of, document["label"]) if "label" in document else (),
        write_concern_error=None if concern is None else at("writeConcernError", _concern_error, concern),
        replacing_labels=at("labels", labels_of, document["labels"]) if alone else None,
        fields=at("fields", _extra, document["fields"]) if "fields" in document else {},
        name="+".join(name for name in _IN_ORDER if name in document),
    )


def _merged(effects: list[Effects]) -> Effects:
    """Return several effects as one: delays add up, and only one of them may be an answer."""
    answers = [each for each in effects if each.answer is not None]
    if len(answers) > 1:
        first, second = (each.name.rpartition("+")[2] for each in answers[:2])
        raise ControlError(f"{first} and {second} are both answers; a request gets one")
    concerns = [each for each in effects if each.write_concern_error is not None]
    if len(concerns) > 1:
        raise ControlError("a reply has one writeConcernError")
    names = [name for each in effects for name in each.name.split("+") if name]
    return Effects(
        delay=sum(each.delay for each in effects),
        answer=answers[0].answer if answers else None,
        labels=tuple(label for each in effects for label in each.labels),
        write_concern_error=concerns[0].write_concern_error if concerns else None,
        replacing_labels=concerns[0].replacing_labels if concerns else None,
        fields={name: value for each in effects for name, value in each.fields.items()},
        name="+".join(name for name in _IN_ORDER if name in names),
    )


def _answer(name: str, document: Mapping[str, Any]) -> Answer:
    if name == "error":
        more = {each: document[each] for each in _OF_ERRORS if each in document}
        return failure(document["error"], **more)
    if name == "reply":
        return at("reply", reply_of, document["reply"])
    if document[name] is not True:
        raise ControlError(f"write {name}: true, or leave it out", path=(name,))
    return _ENDINGS[name]


def failure(code: Any, *, labels: Any = None, message: Any = None, extra: Any = None) -> Fail:
    """Return the answer with an error. Raises `ControlError`."""
    number = at("error", code_of, code)
    text = _MESSAGE if message is None else at("message", one_text, message)
    more = {} if extra is None else at("extra", _extra, extra)
    replacing = None if labels is None else at("labels", labels_of, labels)
    return Fail(CommandError(number, text, extra=more), replacing)


def code_of(value: Any) -> int:
    """Return an error code, which is given as a number or by its name. Raises `ControlError`."""
    if isinstance(value, str) and not value.isdigit():
        code = _CODES.get(value)
        if code is None:
            if nearest(value, _CODES):
                raise unknown("code name", value, _CODES)
            raise ControlError(f"unknown code name {value!r}; write the code's number")
        return code
    number = arguments.count(value)
    if not 0 < number <= _INT32_MAX:
        raise ControlError(f"{value!r} is no error code")
    return number


def labels_of(value: Any) -> tuple[str, ...]:
    """Return error labels. Raises `ControlError` for one that no server or driver knows."""
    labels = arguments.names(value)
    for label in labels:
        if label not in _LABELS:
            raise unknown("label", label, _LABELS)
    return tuple(labels)


def _extra(value: Any) -> dict[str, Any]:
    extra = _encodable(value)
    for name, cure in _OF_REPLIES.items():
        if name in extra:
            raise ControlError(cure, path=(name,))
    return extra


def reply_of(value: Any) -> Answer:
    """Return the answer with a document. Raises `ControlError` for one that is no BSON.

    A document with `ok: 0` and a code is an error, and seen as one by the journal and the error labels.
    """
    document = _encodable(value)
    cursor = document.get("cursor")
    if isinstance(cursor, dict) and type(cursor.get("id")) is int:
        cursor["id"] = Int64(cursor["id"])  # drivers take no other type, and JSON has none of its own
    code = document.get("code")
    if document.get("ok", 1) or not isinstance(code, int) or isinstance(code, bool):
        return RuleReply(document)
    own = {"ok", "errmsg", "code", "errorLabels"}
    extra = {name: each for name, each in document.items() if name not in own}
    labels = document.get("errorLabels", [])
    error = CommandError(int(code), str(document.get("errmsg", "")), extra=extra)
    return Fail(error, tuple(labels) if isinstance(labels, list) else ())


def _encodable(value: Any) -> dict[str, Any]:
    document: dict[str, Any] = plain(arguments.document(value))
    try:
        bson.encode(document)
    except (BSONError, OverflowError, TypeError, ValueError) as error:
        raise ControlError(f"no BSON: {error}") from None
    return document


def _concern_error(value: Any) -> dict[str, Any]:
    """Return a write concern error: a document, or its code alone."""
    document = _encodable(value) if hasattr(value, "keys") else {"code": value}
    check_known("field", document, ("code", "codeName", "errmsg", "errInfo"))
    if "code" not in document:
        raise ControlError("a write concern error needs a code")
    code = at("code", code_of, document["code"])
    return {"code": code, "codeName": code_name(code), "errmsg": "Write concern error of a rule"} | {
        name: each for name, each in document.items() if name != "code"
    }


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
