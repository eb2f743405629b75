"""Mappings of a file, checked against a list of arguments: every error at its place, all of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mongowire.documents.errors import ControlError, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fakeserver.control.scenario.places import PlacedValue, ProblemReport
    from mongowire.documents.arguments import Argument


def mapping(marked: PlacedValue, what: str, report: ProblemReport) -> bool:
    """Return whether a value is a mapping; report it if it is none."""
    if marked.is_mapping:
        return True
    report.add(marked, f"{what} is a mapping of names to values, not {shown(marked.value)}")
    return False


def sequence(marked: PlacedValue, what: str, report: ProblemReport) -> Sequence[PlacedValue]:
    """Return the elements of a sequence; report a value that is none."""
    if isinstance(marked.value, list):
        return list(marked.members.values())
    report.add(marked, f"{what} is a list, with a dash before each, not {shown(marked.value)}")
    return ()


def known_keys(marked: PlacedValue, kind: str, known: Iterable[str], report: ProblemReport) -> None:
    """Report each key that is not known."""
    names = list(known)
    for key, place in marked.keys.items():
        if key not in names:
            report.add(marked, unknown(kind, key, names).message, place=place)


def filled(
    marked: PlacedValue,
    kind: str,
    arguments: Sequence[Argument],
    report: ProblemReport,
    *,
    others: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the values of a form: those that are given and right, and the defaults of the others.

    Names stay as they are in the file. Keys that no argument has, and that are not among the `others`,
    required ones that are missing and values of a wrong kind are reported.
    """
    by_name = {argument.name: argument for argument in arguments}
    if not by_name and marked.keys:
        report.add(marked, f"{kind} takes no argument; write {{}}")
        return {}
    known_keys(marked, f"field of {kind}", [*by_name, *others], report)
    values: dict[str, Any] = {}
    for name, argument in by_name.items():
        given = marked.members.get(name)
        if given is None or given.value is None:
            if argument.is_required:
                report.add(marked, f"{kind} needs {name}: {argument.help}")
            elif argument.default is not None:
                values[name] = argument.parse(argument.default)
            continue
        try:
            values[name] = argument.parse(given.value)
        except ControlError as error:
            report.refused(marked, error)
    return values


def shown(value: Any) -> str:
    """Return a value for a message."""
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else repr(value)
