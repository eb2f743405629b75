"""The verbs on the command line: a click command of each row of `fakeserver.control.verbs.table`.

`Verb.command` is its place: `node step-down` is a command of the group `node`. An argument that is required
is an argument here too, and so is a first one called `node`; the others are options. All values go to the
server as texts, which the table's kinds of arguments read; they are read here before, so that a mistake is
told whether a server runs or not.

Verbs have one table, and three other doors read it as well: the HTTP control, Python and scenarios for
servers. So nothing of a verb is written down here but what only a command line has: `_SYNTAX` for arguments
whose name does not say their form, and the command that undoes it, which is printed to standard error after
each performance so that standard output stays the answer.

`perform` is the way of one verb: parse here, so that a mistake is told without a server; find the server by
`--id`, `PUSHBACKD_ID` or the registry; send texts, and print the answer.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from fakeserver.control.client import ControlClient, find
from fakeserver.control.verbs.form import Applies, kebab
from fakeserver.control.verbs.table import VERBS, is_undoing, undo_of, why_not_undone
from fakeserver.deployment.records.record import line_of
from harness.commands.options.rule import place_of, rule_of, rule_options
from harness.commands.options.types import ServerId, Text, Word, words_for
from harness.commands.output import bad_input, compact, show
from harness.commands.subcommands import FORMER_VERBS, SUBCOMMANDS, epilog_of
from harness.planning.result import ExitCode
from mongowire.documents.arguments import Kind
from mongowire.documents.command_line import NotAsExpected
from mongowire.documents.errors import ControlError, UnmetError, dotted, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fakeserver.control.verbs.form import Verb
    from mongowire.documents.arguments import Argument

_FOLLOWED: Final = "readJournal"
_TOLD: Final = "verdict"
"""The verb whose answer has lines for a reader."""
_STATE: Final = "state"
"""The verb whose answer has the address of the page, and empty fields, which only programs want."""
_DRASTIC: Final = {"reset": "pushbackd reset", "restore": "pushbackd data restore NAME"}
"""The command lines of verbs that undo more than one other verb."""
_PREFIX: Final = "verb_"
"""Begins the names of the parameters that are arguments of a verb: one of them may be called `id`."""


class VerbGroup(click.Group):
    """A group of verbs; a mistyped one is told with the one that was meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name."""
        former = FORMER_VERBS.get(self.name or "", {})
        # A former name works with a notice, so that scripts live on and people learn the new one.
        if args and args[0] in former:
            told = f"pushbackd {self.name} {args[0]} is called pushbackd {self.name} {former[args[0]]} now"
            click.echo(told, err=True)
            args = [former[args[0]], *args[1:]]
        # click would only say that there is no such command.
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise click.UsageError(str(unknown("command", args[0], self.commands)), ctx)
        return super().resolve_command(ctx, args)


@dataclass(frozen=True, slots=True)
class _Place:
    """An argument of a verb on the command line."""

    verb: str
    argument: Argument
    positional: bool

    @property
    def parameter(self) -> str:
        """The name of its click parameter."""
        return _PREFIX + self.argument.name

    @property
    def spelling(self) -> str:
        """Its spelling in messages."""
        name = kebab(self.argument.name)
        return name.upper() if self.positional else f"--{name}"

    @property
    def metavar(self) -> str:
        """What an argument on its place is called: its words, where there are few."""
        known = self.argument.known
        return f"{{{'|'.join(known)}}}" if known else self.spelling

    @property
    def _type(self) -> Word:
        return Word(words_for(self.verb, self.argument))

    def declare(self) -> click.Parameter:
        """Return its click parameter."""
        argument = self.argument
        if self.positional:
            several = argument.kind is Kind.GROUPS
            return click.Argument(
                [self.parameter],
                metavar=self.metavar + ("..." if several else ""),
                required=argument.is_required,
                nargs=-1 if several else 1,
                type=self._type,
            )
        if argument.kind is Kind.FLAG:
            switch = f"{self.spelling}/--no-{self.spelling[2:]}" if argument.default else self.spelling
            return click.Option(
                [self.parameter, switch], is_flag=True, default=None, help=_with_default(argument)
            )
        metavar = f"[{'|'.join(argument.known)}]" if argument.known else argument.kind.value
        return click.Option(
            [self.parameter, self.spelling], metavar=metavar, type=self._type, help=_with_default(argument)
        )


def command_of(verb: Verb, name: str) -> click.Command:
    """Return the command of a verb."""
    # The one verb whose document is too large for a terminal: it has options for the parts of a rule.
    if verb.name == "addRule":
        return _rule_add(verb, name)
    places = _places(verb)
    return click.Command(
        name,
        callback=_performing(verb, places),
        params=list(_parameters(verb, places)),
        help=_help(verb),
        epilog=epilog_of([verb.example]),
    )


def server_options() -> Sequence[click.Parameter]:
    """Return the options of every command that talks to a running server."""
    return (
        click.Option(
            ["server_id", "--id"],
            metavar="ID",
            type=ServerId(),
            help="Id of the server (pushbackd ls).  [default: $PUSHBACKD_ID, else the only one that runs]",
        ),
        click.Option(["as_json", "--json"], is_flag=True, help="Write the answer as one line of JSON."),
    )


def perform(
    verb: Verb,
    arguments: Mapping[str, Any],
    server_id: str | None,
    spellings: Mapping[str, str],
) -> dict[str, Any]:
    """Perform a verb on a running server. Raises `click.ClickException` that names the option."""
    try:
        verb.parse(arguments)
        return ControlClient(find(server_id)).perform(verb.name, arguments)
    # An expectation that was not met is no mistake of the command line: exit code 1, and not 2.
    except UnmetError as error:
        raise NotAsExpected(str(error)) from error
    except ControlError as error:
        raise click.ClickException(told(error, spellings)) from error


def told(error: ControlError, spellings: Mapping[str, str]) -> str:
    """Return an error as the command line tells it: with the option that it is about."""
    if not error.path:
        return error.message
    first, *inner = error.path
    return f"{dotted((spellings.get(str(first), str(first)), *inner))}: {error.message}"


def _rule_add(verb: Verb, name: str) -> click.Command:
    """Return the command that adds a rule: by options, by a document, or by both."""

    def callback(*, rule: str | None, server_id: str | None, as_json: bool, **given: Any) -> int:
        with bad_input(ControlError):
            arguments = {"rule": rule_of(given, rule)}
            try:
                verb.parse(arguments)
                answer = ControlClient(find(server_id)).perform(verb.name, arguments)
            except ControlError as error:
                # The server names the field of the document; the user wrote an option.
                raise ControlError(error.message, path=place_of(error.path, given)) from None
        show(answer, as_json=as_json)
        if not as_json:
            click.echo(f"ends with: {undoing_of(verb, arguments, answer)}{_of_server(server_id)}", err=True)
        return ExitCode.PASSED

    argument = click.Argument(["rule"], required=False, metavar="[RULE]", type=Text())
    parameters = [argument, *rule_options(), *server_options()]
    text = f"{_help(verb)}\n\nRULE is the rule as JSON (@FILE reads it from a file); options add to it."
    return click.Command(
        name, callback=callback, params=parameters, help=text, epilog=epilog_of([verb.example])
    )


def _places(verb: Verb) -> list[_Place]:
    # A server that may be left out has its place all the same: `node roll-back node1`.
    first_node = verb.arguments[0] if verb.arguments and verb.arguments[0].name == "node" else None
    return [
        _Place(verb.name, argument, positional=argument.is_required or argument is first_node)
        for argument in verb.arguments
    ]


def _parameters(verb: Verb, places: Sequence[_Place]) -> Iterator[click.Parameter]:
    yield from (place.declare() for place in places)
    if verb.name == _FOLLOWED:
        yield click.Option(["follow", "--follow", "-f"], is_flag=True, help="Go on with records to come.")
    yield from server_options()


def _performing(verb: Verb, places: Sequence[_Place]) -> Callable[..., int]:
    spellings = {place.argument.name: place.spelling for place in places}

    def callback(*, server_id: str | None, as_json: bool, follow: bool = False, **given: Any) -> int:
        context = click.get_current_context()
        arguments = {
            place.argument.name: _value(given[place.parameter])
            for place in places
            if given.get(place.parameter) not in {None, ()}
        }
        # A group that is a verb itself, as `journal`: the verb below it has options of its own.
        if context.invoked_subcommand is not None:
            if arguments:
                raise click.UsageError(f"options of {context.info_name} go with no command of it", context)
            return ExitCode.PASSED
        if follow:
            _follow(verb, arguments, server_id, spellings, as_json=as_json)
        else:
            answer = perform(verb, arguments, server_id, spellings)
            # The registry has the address of the page, and a server's state has not.
            if verb.name == _STATE and (page := find(server_id).page):
                answer = {"page": page, **answer}
            if verb.name == _FOLLOWED and not as_json:
                _show_records(answer["records"], as_json=False)
            elif verb.name == _TOLD and not as_json:
                click.echo("\n".join(answer["lines"]))
            else:
                show(answer if as_json or verb.name != _STATE else _telling(answer), as_json=as_json)
            if not as_json:
                _tell_what_holds(verb, arguments, answer, server_id)
        return ExitCode.PASSED

    return callback


def _telling(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a state that say something."""
    said = {name: value for name, value in state.items() if value}
    said["servers"] = [
        {
            name: _with_unit(name, value)
            for name, value in server.items()
            if name == "connections" or (any(value.values()) if isinstance(value, dict) else value)
        }
        for server in state["servers"]
    ]
    return said


def _with_unit(name: str, value: Any) -> Any:
    """Return a field of a server's state with its unit, where that is a time or a rate."""
    if name in {"slow", "lag", "frozen"}:
        return f"{value:.3g}s" if value >= 1 else f"{1000 * value:.3g}ms"
    if name == "limits":
        return {limited: f"{rate:g}/s" for limited, rate in value.items()}
    if name == "serviceTime":
        return {
            "time": _with_unit("slow", value["seconds"]),
            "atWork": value["atWork"],
            "peak": value["peak"],
        }
    return value


def _follow(
    verb: Verb,
    arguments: Mapping[str, Any],
    server_id: str | None,
    spellings: Mapping[str, str],
    *,
    as_json: bool,
) -> None:
    try:
        verb.parse(arguments)
        for record in ControlClient(find(server_id)).follow(verb.name, arguments):
            _show_records([record], as_json=as_json)
    except ControlError as error:
        raise click.ClickException(told(error, spellings)) from error


def _show_records(records: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    for record in records:
        click.echo(compact(record) if as_json else line_of(record))
    # Into a pipe, lines would wait for a full buffer: `--follow` is read while it goes on.
    sys.stdout.flush()


def _value(given: Any) -> Any:
    """Return a value as the server takes it: groups of servers, a word each, are lists."""
    if isinstance(given, tuple):
        # One word in brackets is a list as JSON, which the table reads by itself.
        is_json = len(given) == 1 and given[0].startswith("[")
        return given[0] if is_json else [word.split(",") for word in given]
    return given


def _with_default(argument: Argument) -> str:
    text = f"{argument.help[:1].upper()}{argument.help[1:]}."
    if argument.default is None or argument.default == "" or argument.kind is Kind.FLAG:
        return text
    default = argument.default
    shown = ",".join(map(str, default)) if isinstance(default, list | tuple) else default
    return f"{text}  [default: {shown}]"


_SYNTAX: Final[Mapping[str, str]] = {
    "addFault": "FAULT is the fault as JSON (@FILE reads it from a file): `at` is a phase (connect, hello,"
    " request, reply …), beside it conditions such as `command`, `nth`, `times` and `for`, and `do` has the"
    " effects: delay, bandwidth, cut, reset, halfOpen … (docs/FAULTS.md).",
    "partition": "GROUPS are words: each is a group, its members parted by commas, `clients` among them.",
    "seed": "DOCUMENTS is a document or a list of them as JSON; @FILE reads it from a file, - from standard"
    " input.",
    "setFailPoint": "--mode is alwaysOn, off, a number of times, or a document as of `configureFailPoint`.",
}
"""What an argument of a verb looks like, where its name does not say it."""


def _help(verb: Verb) -> str:
    text = verb.help
    if verb.name in _SYNTAX:
        text += f"\n\n{_SYNTAX[verb.name]}"
    if verb.applies is not Applies.ALL:
        text += f"\n\nFor {verb.applies.value}."
    # Placeholders, where a performance would have the id of the rule or the server that was chosen.
    undoing = undoing_of(verb, {}, {"id": "ID", "node": "NODE"})
    return f"{text}\n\n`{undoing}` undoes it." if undoing else text


def undoing_of(verb: Verb, arguments: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """Return the command line that undoes a performance; "" for a verb that nothing undoes.

    What the undoing needs and the arguments do not say, stands there by its name, in capitals.
    """
    if verb.undone_by in _DRASTIC:
        return _DRASTIC[verb.undone_by]
    if verb.reads or why_not_undone(verb):
        return ""
    name, needed = undo_of(verb, arguments, result)
    undoing = VERBS[name]
    missing = {each.name: kebab(each.name).upper() for each in undoing.arguments if each.is_required}
    return line_of_verb(undoing, {**missing, **needed})


def line_of_verb(verb: Verb, arguments: Mapping[str, Any]) -> str:
    """Return the command line that performs a verb with these arguments."""
    words = ["pushbackd", *verb.command.split(" ")]
    places = [place for place in _places(verb) if arguments.get(place.argument.name) is not None]
    for place in sorted(places, key=lambda each: not each.positional):
        value, argument = arguments[place.argument.name], place.argument
        if argument.kind is Kind.FLAG:
            words += [place.spelling] if value else []
            continue
        values = [",".join(each) for each in value] if argument.kind is Kind.GROUPS else [_worded(value)]
        words += values if place.positional else [place.spelling, *values]
    return shlex.join(words)


def _worded(value: Any) -> str:
    """Return a value as a word of the command line."""
    if isinstance(value, list | tuple) and not any(isinstance(each, dict) for each in value):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else compact(value)


def _of_server(server_id: str | None) -> str:
    """Return the option for the server that a command was told, so that its undoing reaches the same one."""
    return "" if server_id is None else f" --id {shlex.quote(server_id)}"


def _tell_what_holds(
    verb: Verb, arguments: Mapping[str, Any], result: Mapping[str, Any], server_id: str | None
) -> None:
    """Print what is in force from now on, and the command that ends it; nothing for a verb that ends."""
    undoing = undoing_of(verb, arguments, result)
    if not undoing or verb.undone_by in _DRASTIC or is_undoing(verb, arguments):
        return
    defaults = {each.name: each.default for each in verb.arguments if not each.is_required}
    named = {key: result[key] for key in ("node",) if key in result}
    held = line_of_verb(verb, {**defaults, **arguments, **named}).removeprefix("pushbackd ")
    click.echo(f"in force: {held}\nends with: {undoing}{_of_server(server_id)}", err=True)


def _first(name: str) -> click.Command:
    """Return the command of a first word: of one verb, or a group, which may be a verb itself."""
    own = next((verb for verb in VERBS if verb.command == name), None)
    below = {verb.command.split(" ")[1]: verb for verb in VERBS if verb.command.startswith(f"{name} ")}
    if own is not None and not below:
        return command_of(own, name)
    text = SUBCOMMANDS[name].help if own is None else _help(own)
    group = VerbGroup(name, help=text, invoke_without_command=own is not None)
    if own is not None:
        places = _places(own)
        group.params = list(_parameters(own, places))
        group.callback = _performing(own, places)
    for word, verb in below.items():
        group.add_command(command_of(verb, word))
    return group


commands: Final = {name: _first(name) for name, listed in SUBCOMMANDS.items() if listed.module == "control"}
"""The commands of all verbs, by their first word."""
