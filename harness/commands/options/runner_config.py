"""The file of `start --config`: the options of mongodb-runner as JSON, and what has no option there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.control.scenario.loader import ProblemReport, read
from mongowire.documents.errors import unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from fakeserver.control.scenario.loader import PlacedValue

_MEMBER: Final = ("arbiterOnly",)


def options_in(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the options of a file by name, and its arguments of `serve`.

    Raises `ScenarioFileError`, with a line for each mistake.
    """
    marked, report = read(path), ProblemReport()
    options: dict[str, Any] = {}
    arguments: list[str] = []
    if not marked.is_mapping:
        report.add(marked, f"holds a document of {', '.join(_KEYS)}")
    for name, inner in marked.members.items() if marked.is_mapping else ():
        reader = _KEYS.get(str(name))
        if reader is None:
            report.add(marked, unknown("key", name, _KEYS).message, place=marked.keys.get(str(name)))
        else:
            found = reader(inner, report)
            options |= found.get("options", {})
            arguments += found.get("arguments", [])
    report.end()
    return options, arguments


def _text(option: str) -> Callable[[PlacedValue, ProblemReport], dict[str, Any]]:
    def read_text(marked: PlacedValue, report: ProblemReport) -> dict[str, Any]:
        if isinstance(marked.value, str):
            return {"options": {option: marked.value}}
        report.add(marked, f"{marked.value!r} is no text")
        return {}

    return read_text


def _count(option: str) -> Callable[[PlacedValue, ProblemReport], dict[str, Any]]:
    def read_count(marked: PlacedValue, report: ProblemReport) -> dict[str, Any]:
        value = len(marked.value) if option == "shards" and isinstance(marked.value, list) else marked.value
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return {"options": {option: value}}
        report.add(marked, f"{value!r} is no whole number")
        return {}

    return read_count


def _arguments(marked: PlacedValue, report: ProblemReport) -> dict[str, Any]:
    if isinstance(marked.value, list) and all(isinstance(each, str) for each in marked.value):
        return {"arguments": marked.value}
    report.add(marked, "holds a list of texts, each an argument of serve")
    return {}


def _members(marked: PlacedValue, report: ProblemReport) -> dict[str, Any]:
    """Read the members of a set, of which only their number and the arbiters count."""
    members = list(marked.members.values()) if isinstance(marked.value, list) else []
    if not members or not all(member.is_mapping for member in members):
        report.add(marked, "holds a list of documents, one for each member")
        return {}
    for member in members:
        for name in member.value:
            if name not in _MEMBER:
                report.add(member, f"{name} of a member is not supported; known is arbiterOnly")
    arbiters = sum(bool(member.value.get("arbiterOnly")) for member in members)
    return {"options": {"secondaries": len(members) - arbiters - 1, "arbiters": arbiters}}


def _users(marked: PlacedValue, report: ProblemReport) -> dict[str, Any]:
    users = marked.value if isinstance(marked.value, list) else [None]
    arguments = ["--auth"]
    for user in users:
        if not isinstance(user, dict) or not all(
            isinstance(user.get(name), str) for name in ("username", "password")
        ):
            report.add(marked, "holds a list of documents with username and password")
            return {}
        arguments += ["--user", f"{user['username']}:{user['password']}"]
    return {"arguments": arguments}


_KEYS: Final[Mapping[str, Callable[[PlacedValue, ProblemReport], dict[str, Any]]]] = {
    "topology": _text("topology"),
    "version": _text("profile"),
    "id": _text("name"),
    "secondaries": _count("secondaries"),
    "arbiters": _count("arbiters"),
    "shards": _count("shards"),
    "args": _arguments,
    "rsMembers": _members,
    "users": _users,
}
