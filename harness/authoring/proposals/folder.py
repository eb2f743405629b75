"""The folder of a proposal: what a pull request to the specifications needs, and the page for readers.

Every text is made of a `Proof` and an `ObedienceTable`; nothing is run here. All files are made before the
first is written, so that a mistake in the rule's place leaves no half folder. Their names and contents are
in the table of docs/PROPOSE.md. `summary` is what `--json` writes, for programs; its keys stay when the
pages change.
"""

from __future__ import annotations

import re
from difflib import unified_diff
from textwrap import fill, indent
from typing import TYPE_CHECKING, Any, Final

from harness.authoring.mutants.mutant import original
from harness.authoring.proposals.proving import Fate
from harness.lint.json_copy import to_json
from harness.planning.discovery import BadInputError
from harness.planning.result import ResultStatus
from harness.report.pages import frame
from harness.report.pages.markup import escaped
from harness.report.picture import drawing, svg
from harness.unified.loader import read, text_of
from harness.unified.schema import mistakes
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from harness.authoring.proposals.obedience import ObedienceTable
    from harness.authoring.proposals.proving import Proof, Tried
    from harness.authoring.proposals.rule import Patch, Rule
    from harness.planning.result import Result
    from mongowire.documents.marks import Marked

_OURS: Final = "pushbackd"
"""The key of our extensions of the unified test format."""

_WIDTH: Final = 120
"""Columns of a paragraph, as the public specifications are wrapped."""

_FATES: Final = ("wrong neighbour", "fate", "by")
_PARTS: Final = (
    "[neighbours.md](neighbours.md) lists the wrong neighbours, [driver.patch](driver.patch) is the driver"
    " that obeys."
)
_LIST_ITEM: Final = re.compile(r"^(?P<margin> *)(?P<sign>[-*]|\d+\.) ")


def write(
    folder: Path, proof: Proof, table: ObedienceTable, *, specification: Path | None, created: str
) -> list[str]:
    """Write the folder, and return the names of its files. Raises OSError, BadInputError, ScenarioError."""
    files = dict(_files(proof, table, specification, created))
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_whole(folder / name, text)
    return list(files)


def _files(
    proof: Proof, table: ObedienceTable, specification: Path | None, created: str
) -> Iterator[tuple[str, str]]:
    rule = proof.rule
    documents = [_scenario(path) for path in rule.scenarios]
    yield "README.md", _readme(proof, table, documents, with_place=specification is not None)
    for document in documents:
        yield f"{document.path.stem}.yml", text_of(document.path)
        yield f"{document.path.stem}.json", to_json(document)
    yield "paragraph.md", f"{_wrapped(rule.says)}\n"
    if specification is not None:
        yield "specification.patch", placed(rule, specification)
    yield "driver.patch", driver_patch(proof.patch)
    yield "table.md", markdown(table)
    yield "neighbours.md", _markdown_table(_FATES, _fates(proof))
    found = proof.deviation()
    for name, result in zip(("today.svg", "wanted.svg"), found or (), strict=False):
        yield name, svg(result.timeline, title=f"{result.id} ({name.partition('.')[0]})")
    yield "index.html", page(proof, table, documents, created=created)


# --- the scenario ---


def _scenario(path: Path) -> Marked:
    """Read a scenario, which the schema allows. Raises ScenarioError."""
    document = read(path)
    if found := mistakes(document):
        raise found[0]
    return document


def extensions(document: Marked) -> list[str]:
    """Return the places of a scenario that the public format cannot say, with what each asks for."""
    return list(_extensions(document))


def _extensions(item: Marked) -> Iterator[str]:
    if isinstance(item.value, dict):
        for name, value in item.value.items():
            if name == _OURS:
                words = ", ".join(value) if isinstance(value, dict) else "?"
                place = item[name].location
                yield f"line {place.line}: {place.field} ({words})"
            else:
                yield from _extensions(item[name])
    elif isinstance(item.value, list):
        for index in range(len(item.value)):
            yield from _extensions(item[index])


def format_of(document: Marked) -> str:
    """Return a sentence on whether the public format can say a scenario."""
    name = document.path.name
    found = extensions(document)
    if not found:
        return (
            f"`{name}` is in the public unified test format, and valid by the schema of the version that it "
            f"declares, {document.value['schemaVersion']}."
        )
    return f"`{name}` needs extensions of pushbackd, which the public format cannot say: {'; '.join(found)}."


# --- the place in the specification ---


def placed(rule: Rule, specification: Path) -> str:
    """Return the diff that puts the paragraph into a specification. Raises BadInputError."""
    try:
        lines = specification.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{specification}: {error}") from error
    at, sign = _place(rule, specification, lines)
    new = _paragraph(rule.says, sign)
    name = rule.page
    after = [*lines[:at], *new, *lines[at:]]
    return "\n".join(unified_diff(lines, after, f"a/{name}", f"b/{name}", lineterm="")) + "\n"


def _place(rule: Rule, specification: Path, lines: Sequence[str]) -> tuple[int, str]:
    """Return the line before which the paragraph stands, and what a line of the block there begins with."""
    heading = next((index for index, line in enumerate(lines) if _heading(line) == rule.heading), None)
    if heading is None:
        place = rule.document["heading"].location
        raise BadInputError(f"{place}: {specification} has no heading '{rule.heading}'")
    # A sentence may be broken over lines, so blocks are compared with their white space made single.
    for first, last in _blocks(lines, heading + 1):
        sign = _LIST_ITEM.match(lines[first])
        text = " ".join(" ".join(lines[first:last]).split())
        if rule.after in text:
            return last, f"{sign['margin']}{sign['sign']} " if sign else ""
    place = rule.document["after"].location
    raise BadInputError(f"{place}: {specification} does not have that sentence below '{rule.heading}'")


def _heading(line: str) -> str:
    return line.lstrip("#").strip() if line.startswith("#") else ""


def _blocks(lines: Sequence[str], start: int) -> Iterator[tuple[int, int]]:
    """Yield the first line of each paragraph and list item of a section, and the one after its last."""
    first = start
    for index in range(start, len(lines) + 1):
        line = lines[index] if index < len(lines) else ""
        ends = not line.strip() or _LIST_ITEM.match(line) or line.startswith("#")
        if ends and index > first:
            yield first, index
        if line.startswith("#"):
            return
        if not line.strip():
            first = index + 1
        elif ends:
            first = index


def _paragraph(text: str, sign: str) -> list[str]:
    """Return the lines to insert: a list item after one (`sign`), or an empty line and a paragraph."""
    if not sign:
        return ["", *_wrapped(text).splitlines()]
    return fill(
        " ".join(text.split()),
        width=_WIDTH,
        initial_indent=sign,
        subsequent_indent=" " * (len(sign) - len(sign.lstrip()) + 4),
        break_long_words=False,
        break_on_hyphens=False,
    ).splitlines()


def _wrapped(text: str) -> str:
    paragraphs = (" ".join(each.split()) for each in text.split("\n\n"))
    return "\n\n".join(
        fill(each, width=_WIDTH, break_long_words=False, break_on_hyphens=False) for each in paragraphs
    )


def driver_patch(patch: Patch) -> str:
    """Return the change of the reference driver as a unified diff."""
    return "".join(
        line + "\n"
        for file, text in patch.after.items()
        for line in unified_diff(
            original(file).splitlines(), text.splitlines(), f"a/{file}", f"b/{file}", lineterm=""
        )
    )


# --- Markdown ---


def markdown(table: ObedienceTable) -> str:
    """Return the table of drivers as Markdown."""
    return _markdown_table(table.headings(), table.lines())


def _markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(map(_cell, line)) + " |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _readme(proof: Proof, table: ObedienceTable, documents: Sequence[Marked], *, with_place: bool) -> str:
    rule = proof.rule
    names = ", ".join(f"`{each.path.stem}.yml`" for each in documents)
    parts = [
        f"# {rule.name}",
        indent(_wrapped(rule.says), "> "),
        f"**Place.** `{rule.page}`, below *{rule.heading}*, after the sentence: {rule.after}"
        + ("\n`specification.patch` puts it there." if with_place else ""),
        f"**Why.** {rule.because}",
        *([f"**Open today.** {rule.asks}"] if rule.asks else []),
        f"**Tests.** {names}, with the JSON beside, for `source/{rule.specification}/tests/unified`.\n"
        + "\n".join(map(format_of, documents)),
        f"## Proof\n\n{proof.verdict()}\n{_PARTS}",
        f"## Who obeys today\n\n{markdown(table)}".rstrip(),
        "[index.html](index.html) has all of it on one page, with what is sent today and what is wanted.",
    ]
    return "\n\n".join(parts) + "\n"


def _fates(proof: Proof) -> list[tuple[str, str, str]]:
    return [(each.neighbour.name, str(each.fate), _told(each)) for each in proof.tried]


def _told(each: Tried) -> str:
    """Return what has found a neighbour, or why nothing has."""
    if each.fate is Fate.FOUND:
        return f"{each.killer.partition('::')[2]}: {each.reason}"
    return each.because or each.neighbour.advice


# --- the page ---

_STYLE: Final = "blockquote { margin: .4rem 0; padding-left: 1rem; border-left: 3px solid var(--line) }\n"


def page(proof: Proof, table: ObedienceTable, documents: Sequence[Marked], *, created: str) -> str:
    """Return the page: the rule, what is sent today and what is wanted, who obeys, and the neighbours."""
    rule = proof.rule
    pictures = zip(("What is sent today", "What is wanted"), proof.deviation() or (), strict=False)
    sections = [
        frame.section("The rule", *_of_rule(rule, documents)),
        frame.section("The proof", *_of_proof(proof)),
        *(frame.section(title, *_picture(result)) for title, result in pictures),
        frame.section(
            "Who obeys today",
            frame.table(table.headings(), table.lines(), caption="Drivers and the rule", words=range(99)),
        ),
        *_deviations(table),
        frame.section(
            "The patch of the reference driver", f"<pre>{escaped(driver_patch(proof.patch))}</pre>"
        ),
    ]
    sheets = ("page", "chart", "sequence")
    return frame.page(rule.name, sections, facts=f"A proposal, made {created}", sheets=sheets, own=_STYLE)


def _of_rule(rule: Rule, documents: Sequence[Marked]) -> Iterator[str]:
    yield f"<blockquote>{escaped(rule.says)}</blockquote>"
    yield frame.paragraph(rule.because)
    if rule.asks:
        yield frame.paragraph(f"Open today: {rule.asks}")
    yield frame.paragraph(f"Place: {rule.page}, below “{rule.heading}”, after: {rule.after}")
    yield from (frame.paragraph(format_of(each)) for each in documents)


def _of_proof(proof: Proof) -> Iterator[str]:
    yield f'<p><span class="seal {"good" if proof.holds else "bad"}">{escaped(proof.verdict())}</span></p>'
    yield from (frame.paragraph(each) for each in proof.stale)
    if proof.tried:
        yield frame.table(_FATES, _fates(proof), caption="Wrong neighbours", words=range(3))
    for each in proof.survivors:
        yield f"<h3>{escaped(each.neighbour.name)}</h3><pre>{escaped(each.neighbour.diff(proof.patch))}</pre>"


def _deviations(table: ObedienceTable) -> Iterator[str]:
    """Yield a picture of the first case that each real driver breaks."""
    for row in table.today():
        broken = [each for each in row.broken() if each.timeline]
        if row.driver != "reference" and broken:
            yield frame.section(f"What {row.driver} does today", *_picture(broken[0]))


def _picture(result: Result) -> Iterator[str]:
    name = f"{result.id} on {result.topology}, {result.edition}"
    yield frame.paragraph(name)
    if result.status is ResultStatus.FAILED:
        yield frame.paragraph(result.reason.partition("\n")[0])
    yield frame.scrolling(drawing(result.timeline, title=name), label=name)


def summary(proof: Proof, table: ObedienceTable) -> dict[str, Any]:
    """Return the outcome as a document of plain values."""
    return {
        "rule": proof.rule.name,
        "proved": proof.holds,
        "passed": proof.passed,
        "failedWithPatch": [each.id for each in proof.red_with],
        "failedWithoutPatch": len(proof.red_without),
        "neighbours": [
            {"name": each.neighbour.name, "fate": str(each.fate), "told": _told(each)} for each in proof.tried
        ],
        "drivers": [dict(zip(table.headings(), line, strict=True)) for line in table.lines()],
    }
