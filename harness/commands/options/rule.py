"""The options of `pushbackd rule add`: a rule in words of the command line, instead of a document.

Values are handed on as texts, which the reader of rules takes; what is no option can be said by documents.

The options are rows of tables, grouped by the part of the rule in which they stand: conditions (`when`),
effects (`then`), and the rule itself. `rule_of` puts their values into a document, beside what was given as
JSON; the server reads that document as any other, so no check of a value is repeated here. `place_of` is the
way back: a mistake that the server finds in a field is told with the option that the user wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from harness.commands.options.types import ERROR_NAMES, Word, commands, servers
from mongowire.documents.arguments import document, documents, from_json
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


def _as_it_is(text: str) -> Any:
    return text


_PER: Final = ("operation", "connection", "application", "rule")


class _FieldOption(NamedTuple):
    """An option, the field of the rule that it is, and how its text is read."""

    option: str
    field: str
    help: str
    metavar: str
    read: Callable[[str], Any] = _as_it_is

    @property
    def parameter(self) -> str:
        return f"rule_{self.field}"

    def of(self, given: Mapping[str, Any]) -> Any:
        """Return the value of the option, None where it is not there. Raises `ControlError`."""
        text = given.get(self.parameter)
        if text is None:
            return None
        return _at(self.option, self.read, text)


_DOCUMENTS: Final = (
    _FieldOption("--when", "when", "Conditions, as a document.", "JSON", document),
    _FieldOption("--then", "then", "Effects, as a document or a list of them.", "JSON", documents),
    _FieldOption(
        "--sequence", "sequence", "Effects of one request after the other, as lists.", "JSON", from_json
    ),
)
_RULE: Final = (
    _FieldOption("--times", "times", "Number of requests to which it applies.", "N"),
    _FieldOption("--for", "for", "Time for which it applies.", "DURATION"),
    _FieldOption("--per", "per", "Whose requests --sequence counts.  [default: rule]", f"[{'|'.join(_PER)}]"),
    _FieldOption("--expect", "expect", "Number of requests that must meet it.", "N"),
    _FieldOption("--name", "name", "Name of the rule, by which `rule rm` removes it.", "NAME"),
)
_WHEN: Final = (
    _FieldOption("--command", "command", "Command; several by commas.", "NAMES"),
    _FieldOption(
        "--namespace", "namespace", "Collection (shop.orders), or all of a database (shop.*).", "NAME"
    ),
    _FieldOption("--app-name", "appName", "Application: the appName of its connection string.", "NAME"),
    _FieldOption("--node", "node", "Server: its name, its address or its role.", "SERVER"),
    _FieldOption("--connection", "connection", "Connection, by its number.", "N"),
    _FieldOption("--nth", "nth", "Only the n-th request.", "N"),
    _FieldOption("--every", "every", "Only every n-th request.", "N"),
    _FieldOption("--attempt", "attempt", "Only this attempt of an operation; 1 is the first.", "N"),
    _FieldOption("--probability", "probability", "Share of the requests: 2% or 0.02.", "SHARE"),
    _FieldOption("--document", "document", "Filter on the command, in the query language.", "JSON", document),
)
_ERROR: Final = (
    _FieldOption("--error", "error", "Answer with this error: its code or its name.", "CODE"),
    _FieldOption("--labels", "labels", "Labels of the error.", "NAMES"),
    _FieldOption("--message", "message", "Message of the error.", "TEXT"),
)
_THEN: Final = (
    _FieldOption("--delay", "delay", "Wait, as 200ms or 2s.", "DURATION"),
    _FieldOption("--label", "label", "Add labels to the reply.", "NAMES"),
    _FieldOption(
        "--write-concern-error", "writeConcernError", "Code of an error of the write concern.", "CODE"
    ),
    _FieldOption("--reply", "reply", "Answer with this document.", "JSON", document),
)
_FLAGS: Final = (
    ("--close", "close", "Close the connection."),
    ("--silence", "silence", "Never answer."),
)
_PARTS: Final[Mapping[tuple[str, ...], _FieldOption]] = {
    **{("when", field.field): field for field in _WHEN},
    **{("then", field.field): field for field in (*_ERROR, *_THEN)},
    **{(field.field,): field for field in (*_RULE, *_DOCUMENTS)},
}
"""The options by the path of the fields that they are."""


def rule_options() -> Iterator[click.Parameter]:
    """Yield the options that describe a rule."""
    for field in (*_WHEN, *_ERROR, *_THEN):
        yield _declared(field)
    for option, name, text in _FLAGS:
        yield click.Option([f"rule_{name}", option], is_flag=True, help=text)
    yield from map(_declared, (*_RULE, *_DOCUMENTS))


def rule_of(given: Mapping[str, Any], start: str | None) -> dict[str, Any]:
    """Return the rule that options describe, added to the document `start`. Raises `ControlError`.

    `given` are all parameters of the command.
    """
    rule = {} if start is None else _at("RULE", document, start)
    for field in (*_RULE, *_DOCUMENTS):
        _put(rule, field, field.of(given))
    when = rule.get("when", {})
    for field in _WHEN:
        _put(when, field, field.of(given))
    if when:
        rule["when"] = when
    effects = list(_effects(given))
    if effects:
        then = rule.get("then", [])
        rule["then"] = [*(then if isinstance(then, list) else [then]), *effects]
    # A document may be complete without options; options alone have to have an effect.
    if start is None and not any(name in rule for name in ("then", "sequence", "expect")):
        raise ControlError("the rule has no effect; add one, as --error 462, --delay 200ms or --close")
    return rule


def place_of(path: tuple[str | int, ...], given: Mapping[str, Any]) -> tuple[str | int, ...]:
    """Return a path that begins with the option that says the field, else with the document that does."""
    if path[:1] != ("rule",):
        return path
    path = path[1:]
    names = tuple(part for part in path if isinstance(part, str))
    # The longest path first: `when.command` is an option, and `when` is one too.
    for length in range(min(2, len(names)), 0, -1):
        field = _PARTS.get(names[:length])
        if field is not None and given.get(field.parameter) is not None:
            return (field.option, *path[path.index(names[length - 1]) + 1 :])
    return ("RULE", *path)


def _effects(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the effects that options describe."""
    for field in _THEN:
        value = field.of(given)
        if value is not None:
            yield {field.field: {"code": int(value)} if _is_code(field, value) else value}
    error = {field.field: value for field in _ERROR if (value := field.of(given)) is not None}
    # `labels` and `message` belong to an error, and would make no effect of their own.
    if error and "error" not in error:
        raise ControlError("goes with --error, which is missing", path=(f"--{next(iter(error))}",))
    if error:
        yield error
    yield from ({name: True} for _, name, _ in _FLAGS if given.get(f"rule_{name}"))


def _is_code(field: _FieldOption, value: Any) -> bool:
    if field.field != "writeConcernError":
        return False
    if not str(value).isdigit():
        raise ControlError(f"{value!r} is no error code", path=(field.option,))
    return True


def _put(target: dict[str, Any], field: _FieldOption, value: Any) -> None:
    if value is None:
        return
    # Neither of the two could be preferred without dropping what the user wrote.
    if field.field in target:
        raise ControlError("the document has this field, too; write one of them", path=(field.option,))
    target[field.field] = value


_WORDS: Final[Mapping[str, Any]] = {
    "command": commands,
    "error": ERROR_NAMES,
    "node": servers,
    "per": _PER,
}
"""What the shell completes, by the field."""


def _declared(field: _FieldOption) -> click.Option:
    kind = Word(_WORDS.get(field.field, ()))
    return click.Option([field.parameter, field.option], metavar=field.metavar, type=kind, help=field.help)


def _at(place: str, read: Callable[[Any], Any], value: Any) -> Any:
    """Return what is read. Raises `ControlError` that names the place."""
    try:
        return read(value)
    except ControlError as error:
        raise error.within(place) from None
