"""The page of a run over mutants: numbers by area, the survivors, then each mutant with its killer.

Survivors come before the long tables, because they are what a reader can act upon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.report.pages import frame
from harness.report.pages.markup import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.authoring.mutants.mutant import Mutant

_WORDS: Final = range(4)
"""Columns of the long table that hold words; the others would be set as numbers."""


def page(mutants: Sequence[Mutant], killers: Mapping[str, str]) -> str:
    """Return the page of mutants that were tried, with the case that killed each, by name."""
    return frame.page(
        "Wrong drivers and wrong servers", _sections(mutants, killers), facts=f"{len(mutants)} mutants"
    )


def _sections(mutants: Sequence[Mutant], killers: Mapping[str, str]) -> Iterator[str]:
    areas = list(dict.fromkeys((mutant.kind, mutant.specification) for mutant in mutants))
    members = {area: [each for each in mutants if (each.kind, each.specification) == area] for area in areas}
    rows = [
        (f"wrong {kind}s, {specification}", str(len(own)), str(sum(each.name in killers for each in own)))
        for (kind, specification), own in members.items()
    ]
    yield frame.section(
        "How many are found", frame.table(("mutants", "number", "found"), rows, caption="Mutants found")
    )
    told = "".join(
        f"<li><b>{escaped(mutant.name)}</b> ({mutant.kind}, {escaped(mutant.rule)}). "
        f"{escaped(mutant.wrong)}</li>"
        for mutant in mutants
        if mutant.name not in killers
    )
    yield frame.section("Survivors", f"<ul>{told}</ul>" if told else frame.paragraph("None."))
    for (kind, specification), own in members.items():
        title = f"Wrong {kind}s: {specification}"
        table = frame.table(
            ("mutant", "rule", "what is wrong", "found by"),
            [(each.name, each.rule, each.wrong, killers.get(each.name, "nothing")) for each in own],
            caption=title,
            words=_WORDS,
        )
        yield frame.section(title, f"<details><summary>{len(own)} mutants</summary>{table}</details>")
