"""docs/MUTANTS.md: the matrix of mutants and suites, and the survivors one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mutant_record import CORPUS, SCENARIOS, SUITES, SURVIVED, TESTS, MutantRecord

from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from harness.authoring.mutants.mutant import Mutant

MARK: Final = "<!-- The rest of this page is written by `python tests/support/mutant_matrix.py --write`. -->"
"""Where the part of the page begins that is not written by hand."""

SUITE_NAMES: Final = {
    SCENARIOS: "our scenarios",
    CORPUS: "the public specification tests",
    TESTS: "our unit tests",
}
"""What suites are called on pages."""


def write_page(path: Path, mutants: Sequence[Mutant], record: MutantRecord) -> None:
    """Write the matrix to a page, after what stands above its mark; that stays. Raises OSError."""
    above = path.read_text(encoding="utf-8").partition(MARK)[0] if path.exists() else "# Mutants\n\n"
    write_whole(path, f"{above}{MARK}\n\n{body(mutants, record)}")


def body(mutants: Sequence[Mutant], record: MutantRecord) -> str:
    """Return the part of the page that is not written by hand."""
    return "\n".join(_body(mutants, record))


def _body(mutants: Sequence[Mutant], record: MutantRecord) -> Iterator[str]:
    yield "## Figures\n"
    yield from _figures(mutants, record)
    for kind in dict.fromkeys(mutant.kind for mutant in mutants):
        of_kind = [mutant for mutant in mutants if mutant.kind == kind]
        for specification in dict.fromkeys(mutant.specification for mutant in of_kind):
            area = [mutant for mutant in of_kind if mutant.specification == specification]
            yield f"\n## Wrong {kind}s: {specification}\n"
            yield from _matrix(area, record)
    yield "\n## Survivors\n"
    yield from _survivors(mutants, record)


def _figures(mutants: Sequence[Mutant], record: MutantRecord) -> Iterator[str]:
    yield "| mutants | number | " + " | ".join(SUITE_NAMES[suite] for suite in SUITES) + " |"
    yield "|---|---|" + "---|" * len(SUITES)
    areas = dict.fromkeys((mutant.kind, mutant.specification) for mutant in mutants)
    for kind, specification in areas:
        members = [each for each in mutants if (each.kind, each.specification) == (kind, specification)]
        yield _figure(f"wrong {kind}s, {specification}", members, record)
    for kind in dict.fromkeys(kind for kind, _ in areas):
        yield _figure(f"all wrong {kind}s", [each for each in mutants if each.kind == kind], record)


def _figure(what: str, mutants: Sequence[Mutant], record: MutantRecord) -> str:
    cells = (share(mutants, record, suite) for suite in SUITES)
    return f"| {what} | {len(mutants)} | " + " | ".join(cells) + " |"


def share(mutants: Sequence[Mutant], record: MutantRecord, suite: str) -> str:
    """Return how many of some mutants a suite has found."""
    tried = [killer for mutant in mutants if (killer := record.killer(mutant.name, suite)) is not None]
    killed = sum(killer != SURVIVED for killer in tried)
    return f"{killed} ({100 * killed / len(tried):.0f} %)" if tried else "not tried"


def _matrix(mutants: Iterable[Mutant], record: MutantRecord) -> Iterator[str]:
    yield "| mutant | rule | what is wrong | " + " | ".join(SUITE_NAMES[suite] for suite in SUITES) + " |"
    yield "|---|---|---|" + "---|" * len(SUITES)
    for mutant in mutants:
        wrong = f"{mutant.wrong} ({mutant.ticket})" if mutant.ticket else mutant.wrong
        cells = (mutant.name, mutant.rule, wrong, *(_cell(mutant, record, suite) for suite in SUITES))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _cell(mutant: Mutant, record: MutantRecord, suite: str) -> str:
    killer = record.killer(mutant.name, suite)
    if killer is None:
        return "not tried"
    if killer == SURVIVED:
        return "**survives**"
    # The names of public cases are theirs; the file says enough.
    return f"`{killer.partition('::')[0] if suite == CORPUS else killer}`"


def survivors(mutants: Sequence[Mutant], record: MutantRecord) -> list[Mutant]:
    """Return the mutants that our scenarios let live."""
    return [mutant for mutant in mutants if record.killer(mutant.name, SCENARIOS) == SURVIVED]


def _survivors(mutants: Sequence[Mutant], record: MutantRecord) -> Iterator[str]:
    """Yield a paragraph on each mutant that our scenarios let live."""
    left = survivors(mutants, record)
    if not left:
        yield "None."
    for mutant in left:
        verdict = f"{mutant.verdict.capitalize()}: {mutant.because}" if mutant.verdict else "Still open."
        yield f"- **{mutant.name}** ({mutant.kind}, {mutant.rule}). {mutant.wrong} {verdict}"
    yield ""
