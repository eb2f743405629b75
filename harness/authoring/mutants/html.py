"""The matrix of mutants and suites as a page: what is wrong, and what found it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.authoring.mutants.page import SUITE_NAMES, share, survivors
from harness.authoring.mutants.record import SUITES, SURVIVED
from harness.pages import frame
from harness.pages.markup import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.authoring.mutants.mutant import Mutant
    from harness.authoring.mutants.record import MutantRecord

_WORDS: Final = range(6)


def page(mutants: Sequence[Mutant], record: MutantRecord) -> str:
    """Return the page."""
    return frame.page(
        "Wrong drivers and wrong servers", _sections(mutants, record), facts=f"{len(mutants)} mutants"
    )


def _sections(mutants: Sequence[Mutant], record: MutantRecord) -> Iterator[str]:
    headings = ("mutants", "number", *(SUITE_NAMES[suite] for suite in SUITES))
    areas = list(dict.fromkeys((mutant.kind, mutant.specification) for mutant in mutants))
    members = {area: [each for each in mutants if (each.kind, each.specification) == area] for area in areas}
    rows = [
        (f"wrong {kind}s, {specification}", str(len(own)), *(share(own, record, suite) for suite in SUITES))
        for (kind, specification), own in members.items()
    ]
    yield frame.section("How many are found", frame.table(headings, rows, caption="Mutants found, by suite"))
    left = survivors(mutants, record)
    told = "".join(
        f"<li><b>{escaped(mutant.name)}</b> ({mutant.kind}, {escaped(mutant.rule)}). "
        f"{escaped(mutant.wrong)}</li>"
        for mutant in left
    )
    yield frame.section("Survivors", f"<ul>{told}</ul>" if told else frame.paragraph("None."))
    for (kind, specification), own in members.items():
        title = f"Wrong {kind}s: {specification}"
        table = frame.table(
            ("mutant", "rule", "what is wrong", *headings[2:]),
            [_row(mutant, record) for mutant in own],
            caption=title,
            words=_WORDS,
        )
        yield frame.section(title, f"<details><summary>{len(own)} mutants</summary>{table}</details>")


def _row(mutant: Mutant, record: MutantRecord) -> tuple[str, ...]:
    return (mutant.name, mutant.rule, mutant.wrong, *(_found(mutant, record, suite) for suite in SUITES))


def _found(mutant: Mutant, record: MutantRecord, suite: str) -> str:
    killer = record.killer(mutant.name, suite)
    if killer is None:
        return "not tried"
    return "survives" if killer == SURVIVED else killer.partition("::")[0]
