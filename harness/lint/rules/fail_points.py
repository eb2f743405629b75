"""Rules about fail points: what is set should be hit by those it is for, and not be left.

Unified Test Format: failPoint.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from harness.lint.commands import BACKGROUND, MONITORING, all_commands, commands_of, is_command
from harness.lint.findings import LintRule, Problem
from harness.unified.build import decoded
from harness.unified.schema.fail_points import DATA, FIELDS, MODE_FIELDS, MODES, NAMES, wrong_data, wrong_mode
from mongowire.codes import ErrorCode, Label
from mongowire.documents.errors import did_you_mean, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.lint.scenario import LintedScenario, OperationUse
    from mongowire.documents.marks import Marked


def _never_hit(scenario: LintedScenario) -> Iterator[Problem]:
    """Find a fail point whose commands no later operation of its case sends: the case would pass untested.

    Those of commands that drivers send unasked are left out, and a case with an operation that could send
    anything.
    """
    for test in scenario.tests:
        for index, step in enumerate(test.steps):
            failing = _failing(step)
            if not failing or failing & BACKGROUND:
                continue
            later = [commands_of(each) for each in test.steps[index + 1 :]]
            if None in later:
                continue  # an operation of which nobody can know what it sends
            sent = frozenset[str]().union(*filter(None, later))
            if not failing & sent:
                names = ", ".join(sorted(failing))
                yield Problem(
                    step.place_of("failPoint"),
                    f"nothing after this fail point sends {names}",
                    f"what is sent: {', '.join(sorted(sent)) or 'nothing'}",
                )


def _failing(step: OperationUse) -> frozenset[str]:
    """Return the commands that an operation makes fail, none when it sets no such fail point."""
    command = step.arguments.get("failPoint")
    if step.name not in ("failPoint", "targetedFailPoint") or not isinstance(command, dict):
        return frozenset()
    data = command.get("data")
    if command.get("configureFailPoint") != "failCommand" or not isinstance(data, dict):
        return frozenset()
    names = data.get("failCommands")
    return (
        frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()
    )


def _for_any_monitor(scenario: LintedScenario) -> Iterator[Problem]:
    """Find fail points for hello: monitors say it at times of their own, those of the runner's client too.

    Which of them is hit first is a matter of milliseconds, so that the case passes on one machine and fails
    on another.
    """
    for step in scenario.steps:
        said = _failing(step) & MONITORING
        if said and "appName" not in step.arguments["failPoint"]["data"]:
            yield Problem(
                step.place_of("failPoint"),
                f"whichever client's monitor says {' or '.join(sorted(said))} next hits this fail point",
                "give it an appName, and one client the same in its uriOptions",
            )


def _left_on(scenario: LintedScenario) -> Iterator[Problem]:
    """Find a fail point that `runCommand` sets and no operation turns off; the next case would meet it.

    The operations `failPoint` and `targetedFailPoint` are undone by the runner, and need nothing.
    """
    for test in scenario.tests:
        on: dict[str, OperationUse] = {}
        for step in test.steps:
            command = step.arguments.get("command")
            if step.name != "runCommand" or not isinstance(command, dict):
                continue
            name = str(command.get("configureFailPoint", ""))
            if name and command.get("mode") == "off":
                on.pop(name, None)
            elif name:
                on[name] = step
        for name, step in on.items():
            yield Problem(
                step.place_of("command"),
                f"runCommand sets the fail point {name}, and nobody turns it off after the case",
                "use the operation failPoint, which is undone, or set mode off at the end",
            )


RULES: Final = (
    LintRule("unhit-fail-point", "A later operation sends a command that the fail point is for.", _never_hit),
    LintRule(
        "racy-fail-point", "A fail point that monitors hit is for those of one client.", _for_any_monitor
    ),
    LintRule("fail-point-left-on", "A fail point is off when its case has ended.", _left_on),
)


# Rules about what is inside a fail point: its mode, the fields of its data, and the names in them.
#
# Unified Test Format: failPoint.


_COMMAND_LISTS: Final = ("failCommands", "failCommandsExcept")
_CODES: Final = ("errorCode", "failBeforeCommitExceptionCode")


def _commands(scenario: LintedScenario) -> Iterator[Marked]:
    """Yield the `configureFailPoint` commands of all operations that have one."""
    for step in scenario.steps:
        found = _command(step)
        if found is not None and isinstance(found.value, dict):
            yield found


def _command(step: OperationUse) -> Marked | None:
    if step.on_runner and step.name in ("failPoint", "targetedFailPoint"):
        return step.item["arguments"].get("failPoint") if "failPoint" in step.arguments else None
    command = step.arguments.get("command")
    if step.name == "runCommand" and isinstance(command, dict) and next(iter(command), "") == _NAME:
        return step.item["arguments"]["command"]
    return None


_NAME: Final = "configureFailPoint"


def _wrong_content(scenario: LintedScenario) -> Iterator[Problem]:
    """Find what a server would refuse, or read as another thing.

    Values are decoded from extended JSON first: the server sees no `{$numberInt: "1"}`, but 1.
    """
    for command in _commands(scenario):
        name = command.value.get(_NAME)
        if not isinstance(name, str):
            yield Problem(command.location, f"{_NAME} must name a fail point", f"add {_NAME}: failCommand")
            continue
        if "mode" not in command.value:
            yield Problem(command.location, "the fail point has no mode", "add mode: { times: 1 }")
        else:
            yield from _mode_problems(command["mode"])
        data = command.get("data")
        if data is not None and not isinstance(data.value, dict):
            yield Problem(data.location, "data must be a document")
        elif data is not None:
            for field, _, wrong in wrong_data(name, decoded(data)):
                yield Problem(data.locate((field,)), wrong, _code_hint(field, data.value[field]))


def _mode_problems(mode: Marked) -> Iterator[Problem]:
    wrong = wrong_mode(decoded(mode))
    if not wrong:
        return
    written = [mode.value] if isinstance(mode.value, str) else mode.value
    known = MODES if isinstance(mode.value, str) else MODE_FIELDS
    is_named = isinstance(written, (list, dict)) and all(isinstance(each, str) for each in written)
    hints = [did_you_mean(each, known) for each in written if each not in known] if is_named else []
    modes = "off, alwaysOn, {times: n}, {skip: n} or {activationProbability: p}"
    yield Problem(mode.location, wrong, next(filter(None, hints), f"modes: {modes}"))


def _code_hint(field: str, value: Any) -> str:
    """Return the number of a code that stands there by its name."""
    if field not in _CODES or not isinstance(value, str):
        return ""
    known = codes_by_name()
    close = nearest(value, known)
    return f"{close} is {known[close]}" if close else ""


@cache
def codes_by_name() -> dict[str, int]:
    """Return the server's codes by their names."""
    return {code.code_name: int(code) for code in ErrorCode}


def _unknown_content(scenario: LintedScenario) -> Iterator[Problem]:
    """Find what a server would take and pass over in silence: fields and names that mean nothing to it."""
    for command in _commands(scenario):
        name = command.value.get(_NAME)
        if not isinstance(name, str):
            continue
        if name not in NAMES:
            hint = (
                did_you_mean(name, NAMES)
                or "pushbackd's own servers have no other than docs/PARAMETERS.md has"
            )
            yield Problem(command.locate((_NAME,)), f"no fail point {name!r} is known", hint)
            continue
        yield from _strange_keys(command, FIELDS, "configureFailPoint", ignored=("comment",))
        data = command.get("data")
        if data is not None and isinstance(data.value, dict):
            yield from _strange_keys(data, DATA.get(name, {}), f"the data of {name}")
            yield from _strange_names(data)


def _strange_keys(
    item: Marked, known: Iterable[str], what: str, ignored: tuple[str, ...] = ()
) -> Iterator[Problem]:
    for key in item.value:
        if key not in known and key not in ignored:
            listed = f"fields: {', '.join(known) or 'none'}"
            yield Problem(
                item.locate_key((key,)), f"{what} has no field {key!r}", did_you_mean(key, known) or listed
            )


def _strange_names(data: Marked) -> Iterator[Problem]:
    for field in _COMMAND_LISTS:
        for item in _strings(data.get(field)):
            if not is_command(item.value):
                hint = did_you_mean(item.value, all_commands()) or "fail points match commands by their names"
                yield Problem(item.location, f"no command is called {item.value!r}", hint)
    # A label of one's own is allowed, as a case may test that it comes through; only a slip of a known one is
    # told.
    for item in _strings(data.get("errorLabels")):
        hint = "" if item.value in _labels() else did_you_mean(item.value, _labels())
        if hint:
            yield Problem(item.location, f"no server gives the label {item.value!r}", hint)


def _strings(item: Marked | None) -> Iterator[Marked]:
    for each in item.items() if item is not None and isinstance(item.value, list) else ():
        if isinstance(each.value, str):
            yield each


def _wrong_code_name(scenario: LintedScenario) -> Iterator[Problem]:
    """Find slips in the names of errors. To a server, a code without a name is `Location` and the number."""
    for step in scenario.steps:
        expected = step.item.get("expectError")
        name = expected.get("errorCodeName") if expected else None
        if name is not None and not name.value.startswith("Location"):
            hint = did_you_mean(name.value, codes_by_name()) if name.value not in codes_by_name() else ""
            if hint:
                yield Problem(name.location, f"no error of a server is called {name.value!r}", hint)


@cache
def _labels() -> tuple[str, ...]:
    return tuple(label.value for label in Label)


CONTENT_RULES: Final = (
    LintRule(
        "wrong-fail-point",
        "A fail point has a mode, and data whose fields have the types that the server reads.",
        _wrong_content,
        refuses=True,
    ),
    LintRule(
        "unknown-fail-point",
        "A fail point, the fields of its data, and the commands and labels in them exist.",
        _unknown_content,
    ),
    LintRule("unknown-code-name", "An expected errorCodeName is one of a server's.", _wrong_code_name),
)
