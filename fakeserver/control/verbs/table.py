"""The one table of verbs, merged from the tables of the families, and which verb undoes which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.control.verbs import (
    admission_verbs,
    data_verbs,
    deployment_verbs,
    fail_point_verbs,
    journal_verbs,
    rule_verbs,
)
from fakeserver.control.verbs.form import Verbs
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.control.verbs.form import Verb


VERBS: Final = Verbs(
    [
        *deployment_verbs.VERBS,
        *admission_verbs.VERBS,
        *fail_point_verbs.VERBS,
        *rule_verbs.VERBS,
        *rule_verbs.FAULT_VERBS,
        *deployment_verbs.TLS_VERBS,
        *data_verbs.VERBS,
        *data_verbs.STATE_VERBS,
        *journal_verbs.VERBS,
        *journal_verbs.VERDICT_VERBS,
        *data_verbs.RESET_VERBS,
    ]
)
"""Every verb, by family."""


# The verb that undoes another.


_NOTHING: Final[Mapping[str, Mapping[str, Any]]] = {
    "slow": {"seconds": 0},
    "lag": {"seconds": 0},
    "freeze": {"seconds": 0},
    "limits": {"off": True},
    "tickets": {"off": True},
    "serviceTime": {"seconds": 0},
    "shed": {"share": 0},
    "certificate": {"which": "valid"},
    "setFailPoint": {"mode": "off"},
}
"""Verbs that undo themselves, with the arguments that say so."""

_RESULTS: Final = frozenset({"id", "node"})
"""Fields of a verb's answer that its undoing may need."""

_DRASTIC: Final = frozenset({"reset", "restore"})
"""Verbs that undo more than one other verb."""


_ENDING: Final = frozenset({"start", "resume"})
"""Verbs that end what another began, which undoes them in turn."""


def why_not_undone(verb: Verb) -> str:
    """Return why a verb cannot be undone after a while, as a sentence; "" if it can."""
    message = f"{verb.name} has no verb that undoes it; leave for and until out"
    if verb.name in _NOTHING:
        return ""
    if not verb.undone_by or verb.undone_by == verb.name or verb.undone_by in _DRASTIC:
        return message
    try:
        undo = VERBS[verb.undone_by]
    except ControlError:
        return message
    needed = {argument.name for argument in undo.arguments if argument.is_required}
    return message if needed - {each.name for each in verb.arguments} - _RESULTS else ""


def is_undoing(verb: Verb, arguments: Mapping[str, Any]) -> bool:
    """Return whether a verb with these arguments ends something: `limits` with `off`, or `resume`."""
    if verb.name in _ENDING:
        return True
    ending = verb.parse(arguments) if verb.name in _NOTHING else {}
    known = {each.name: each for each in verb.arguments}
    nothing = _NOTHING.get(verb.name, {})
    return bool(nothing) and all(ending[name] == known[name].parse(value) for name, value in nothing.items())


def undo_of(
    verb: Verb, arguments: Mapping[str, Any], result: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of what undoes a performance that had this result.

    The result names what was found: of `kill: {node: primary}` the server that was the primary then.
    """
    name = verb.name if verb.name in _NOTHING else verb.undone_by
    known = {argument.name for argument in VERBS[name].arguments}
    given = {**arguments, **{key: result[key] for key in _RESULTS if key in result}}
    kept = ("node", "nodes", "name", "data") if name == verb.name else known
    needed = {key: value for key, value in given.items() if key in known and key in kept}
    return name, {**needed, **(_NOTHING[name] if name == verb.name else {})}
