"""Verbs of fail points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.control.verbs.form import Verb
from fakeserver.errors import CommandError
from fakeserver.settings.failpoints import FAIL_COMMAND, NAMES, Mode, number_of, parse_mode
from mongowire.documents.arguments import Argument, Kind, count, share
from mongowire.documents.errors import ControlError, unknown

if TYPE_CHECKING:
    from fakeserver.control.subject import Subject
    from fakeserver.deployment.node import Node

Document = dict[str, Any]

_MODES: Final = {"times": count, "skip": count, "activationProbability": share}
_NODES: Final = Argument("nodes", Kind.SERVERS, "the servers", "all")
_FIELDS: Final = (
    *("failCommands", "failAllCommands", "failCommandsExcept", "namespace", "appName", "threadName"),
    *("failInternalCommands", "closeConnection", "blockConnection", "blockTimeMS", "errorCode"),
    *("errorLabels", "errorMsg", "errorExtraInfo", "writeConcernError", "allowRewriteStateChange"),
    "priorityPortOnly",
)
_EFFECTS: Final = ("errorCode", "closeConnection", "blockConnection", "writeConcernError")


def _set(
    subject: Subject, *, name: str, mode: str | int | Document, data: Document | None, nodes: list[str]
) -> Document:
    if name not in NAMES:
        raise unknown("fail point", name, NAMES, path=("name",))
    parsed = _mode(mode)
    data = data or {}
    if name == FAIL_COMMAND:
        _check(data, subject.nodes(nodes))
    on = subject.nodes(nodes)
    for node in on:
        node.configure_fail_point(name, mode=parsed, data=dict(data))
    return {"name": name, "nodes": [node.name for node in on]}


def _mode(mode: str | int | Document) -> Any:
    """Return a mode as `configureFailPoint` takes it. Raises `ControlError`."""
    if isinstance(mode, int):
        mode = {"times": mode}
    if isinstance(mode, dict):
        for key in mode:
            if key not in _MODES:
                raise unknown("mode", key, _MODES, path=("mode",))
        try:
            mode = {key: _MODES[key](value) for key, value in mode.items()}
        except ControlError as error:
            raise error.within("mode") from None
    try:
        parse_mode(mode)
    except CommandError as error:
        raise ControlError(error.message, path=("mode",)) from None
    return mode


def _check(data: Document, nodes: list[Node]) -> None:
    """Refuse data that `failCommand` would take in silence, or choke on when a command meets it."""
    for key in data:
        if key not in _FIELDS:
            raise unknown("field", key, _FIELDS, path=("data",))
    if not data.get("failAllCommands") and not data.get("failCommands"):
        raise ControlError("it names no command; write failCommands or failAllCommands", path=("data",))
    known = {name for node in nodes for name in node.commands}
    for key in ("failCommands", "failCommandsExcept"):
        for index, name in enumerate(data.get(key, ())):
            if name not in known:
                raise unknown("command", name, known, path=("data", key, index))
    for key in ("errorCode", "blockTimeMS"):
        if key in data and number_of(data[key]) is None:
            raise ControlError(f"{data[key]!r} is no number", path=("data", key))
    if not any(data.get(key) for key in _EFFECTS):
        raise ControlError(f"it does nothing; write one of {', '.join(_EFFECTS)}", path=("data",))


def _list(subject: Subject, *, nodes: list[str]) -> Document:
    servers = subject.nodes(nodes)
    listed = []
    for name in NAMES:
        points = {node.name: node.fail_points.get(name) for node in servers}
        on = [each for each, point in points.items() if point.mode is not Mode.OFF]
        entered = sum(point.times_entered for point in points.values())
        shown: Document = {"name": name, "on": on, "timesEntered": entered}
        if on:
            active = points[on[0]]
            shown |= {"mode": active.setting, "data": dict(active.data)}
        listed.append(shown)
    return {"failPoints": listed}


def _off(subject: Subject, *, nodes: list[str]) -> Document:
    off = 0
    for node in subject.nodes(nodes):
        for name in list(node.fail_points.active):
            node.configure_fail_point(name, mode="off", data=None)
            off += 1
    return {"off": off}


VERBS: Final = (
    Verb(
        "setFailPoint",
        "fail-point set",
        (
            Argument("name", Kind.TEXT, "the fail point: `failCommand` and others"),
            Argument(
                "mode",
                Kind.MODE,
                "`alwaysOn`, `off`, a number of times, or a document",
                "alwaysOn",
            ),
            Argument("data", Kind.DOCUMENT, "what it does, and to which commands", None),
            _NODES,
        ),
        _set,
        "Configure a fail point.",
        undone_by="failPointsOff",
        example='fail-point set failCommand --mode 2 --data \'{"failCommands": ["find"], "errorCode": 91}\'',
    ),
    Verb(
        "listFailPoints",
        "fail-point ls",
        (_NODES,),
        _list,
        "List every fail point: where it is on, and how often it was entered.",
        reads=True,
        example="fail-point ls",
    ),
    Verb(
        "failPointsOff",
        "fail-point off",
        (_NODES,),
        _off,
        "Switch every fail point off.",
        example="fail-point off",
    ),
)
