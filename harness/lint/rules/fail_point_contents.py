"""Rules about what is inside a fail point: its mode, the fields of its data, and the names in them.

Unified Test Format: failPoint.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from harness.lint.commands import all_commands, is_command
from harness.lint.findings import LintRule, Problem
from harness.unified.build import decoded
from harness.unified.schema.fail_points import DATA, FIELDS, MODE_FIELDS, MODES, NAMES, wrong_data, wrong_mode
from mongowire.codes import ErrorCode, Label
from mongowire.documents.errors import did_you_mean, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.lint.scenario import LintedScenario, OperationUse
    from mongowire.documents.marks import Marked

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
    hints = [did_you_mean(each, known) for each in written if each not in known] if _is_named(written) else []
    modes = "off, alwaysOn, {times: n}, {skip: n} or {activationProbability: p}"
    yield Problem(mode.location, wrong, next(filter(None, hints), f"modes: {modes}"))


def _is_named(written: Any) -> bool:
    return isinstance(written, (list, dict)) and all(isinstance(each, str) for each in written)


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
    for item in _strings(data.get("errorLabels")):
        hint = "" if item.value in _labels() else did_you_mean(item.value, _labels())
        if hint:
            yield Problem(item.location, f"no server gives the label {item.value!r}", hint)


def _strings(item: Marked | None) -> Iterator[Marked]:
    for each in item.items() if item is not None and isinstance(item.value, list) else ():
        if isinstance(each.value, str):
            yield each


def _wrong_code_name(scenario: LintedScenario) -> Iterator[Problem]:
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


RULES: Final = (
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
