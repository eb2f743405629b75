"""Rules and faults of a scenario file, checked as their verbs check them, without a deployment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fakeserver.commands.default_table import default_table
from fakeserver.network.faults import parse_fault
from fakeserver.rules.parsing import Known, parse_rule
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    from fakeserver.control.scenario.places import PlacedValue, ProblemReport


ROLES: Final = ("primary", "secondary", "mongos")
"""The words for servers of a role; they mean the role of the moment."""


@dataclass(frozen=True, slots=True)
class ScenarioNames:
    """The names that rules, faults and steps of a file may use: servers, and commands with their aliases."""

    servers: Collection[str]
    commands: Mapping[str, str]

    @classmethod
    def of(cls, servers: Collection[str]) -> ScenarioNames:
        """Return the names of a deployment with these servers."""
        return cls(servers, {name: spec.name for name, spec in default_table().commands.items()})


def check_rule(marked: PlacedValue, names: ScenarioNames, report: ProblemReport) -> None:
    """Report what is wrong with a rule."""
    _check(marked, lambda rule: parse_rule(rule, Known(names.commands, names.servers)), report)


def check_fault(marked: PlacedValue, names: ScenarioNames, report: ProblemReport) -> None:
    """Report what is wrong with a fault of bytes."""
    nodes = (*ROLES, *names.servers)
    _check(
        marked,
        lambda fault: parse_fault(fault, default_id="fault", nodes=nodes, commands=names.commands),
        report,
    )


def _check(marked: PlacedValue, parse: Callable[[Any], object], report: ProblemReport) -> None:
    try:
        parse(marked.value)
    except ControlError as error:
        report.refused(marked, error)


CHECKS: Final[Mapping[tuple[str, str], Callable[[PlacedValue, ScenarioNames, ProblemReport], None]]] = {
    ("addRule", "rule"): check_rule,
    ("addFault", "fault"): check_fault,
}
"""The checks of arguments of verbs, by verb and argument."""
