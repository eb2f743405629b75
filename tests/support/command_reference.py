"""The reference of all commands, made from the default table and the heads of the command files.

A command file begins with a line that names it and three paragraphs: Behaviour, Versions, Not modelled. The
release in which a command or a field came is asked of the tables of all releases, so the page says what the
servers do. Run as a program, this writes docs/COMMANDS.md.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fakeserver.commands.default_table import default_table
from fakeserver.idl.fields import Fields
from fakeserver.profile import PROFILES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.idl.fields import Field

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "fakeserver" / "commands"
PAGE: Final = ROOT / "docs" / "COMMANDS.md"

PARAGRAPHS: Final = ("Behaviour", "Versions", "Not modelled")
"""The names with which the paragraphs of a head begin, in their order."""

INTRODUCTION: Final = """\
# Commands

All commands of the fake server, by family.
A family is one file of [fakeserver/commands](../fakeserver/commands); its three paragraphs stand at the head of that file.
This page is made from those heads and from the table of commands: `python tests/support/command_reference.py` writes it, and a test fails while it is out of date.

A command that is not here is answered with 59 CommandNotFound.
Releases are the profiles of `ClusterSpec(profile=…)`; what is said without a release holds in all of them.
Numbers in parentheses are error codes.

- *Kind*: a `read` runs on secondaries for clients that opt in, or unasked where that is said; a `write` needs a primary; an `internal` command runs on every member.
- *Fields* are those that the command declares.
  A required field is marked with an asterisk, a field of an object or of an array's elements stands behind a dot, and several types are joined by *or*.
  `int`, `long` and `number` take every numeric type, `bool` takes numbers too.
- The arguments of all commands (`lsid`, `txnNumber`, `readConcern`, `writeConcern`, `maxTimeMS`, `comment`, `$readPreference` …) are not repeated: the pipeline reads them before a command runs.
"""  # noqa: E501 - a sentence a line


@dataclass(frozen=True)
class Head:
    """The docstring of a command file: its title and the paragraphs by name."""

    title: str
    paragraphs: Mapping[str, str]


def head_of(docstring: str) -> Head:
    """Return the head that a docstring is. Raises `ValueError` for one of another form."""
    title, *paragraphs = (" ".join(part.split()) for part in inspect.cleandoc(docstring).split("\n\n"))
    named = dict(paragraph.partition(": ")[::2] for paragraph in paragraphs)
    if tuple(named) != PARAGRAPHS or len(paragraphs) != len(PARAGRAPHS) or not all(named.values()):
        raise ValueError(f"a head has a title and the paragraphs {', '.join(PARAGRAPHS)}: {title}")
    return Head(title, named)


@cache
def families() -> Mapping[str, Sequence[CommandSpec]]:
    """Return the commands by the name of their module, in the order in which the table is merged."""
    found: dict[str, list[CommandSpec]] = {}
    for name, spec in default_table().commands.items():
        if name == spec.name:
            found.setdefault(spec.handler.__module__, []).append(spec)
    return found


def files_with_a_table() -> Iterator[Path]:
    """Iterate over the command files: the modules that assign `table`."""
    for path in sorted(FOLDER.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "table":
                yield path


# --- releases ---


@dataclass(frozen=True)
class Span:
    """The first and the last release that know something."""

    first: str
    last: str

    def __str__(self) -> str:
        """Return the span in words, nothing where it is all releases."""
        oldest, *_, newest = _releases()
        if self.first == oldest:
            return "" if self.last == newest else f"until {self.last}"
        return f"since {self.first}" if self.last == newest else f"{self.first} to {self.last}"


def _releases() -> list[str]:
    return list(reversed(PROFILES))


@cache
def spans() -> Mapping[tuple[str, str], Span]:
    """Return since and until when there is what: commands (an empty path), fields, `in_transaction`."""
    found: dict[tuple[str, str], Span] = {}
    for release in _releases():
        for spec in default_table().known_to(PROFILES[release].max_wire_version):
            paths = ["", *(path for path, _ in _walk(spec.fields))]
            if spec.in_transaction:
                paths.append("in_transaction")
            for path in paths:
                key = (spec.name, path)
                found[key] = Span(found[key].first if key in found else release, release)
    return found


@cache
def fields_of(name: str) -> Mapping[str, Field]:
    """Return the fields that a command has in any release, by path; the newest declaration of each."""
    found: dict[str, Field] = {}
    for release in PROFILES:
        spec = default_table().known_to(PROFILES[release].max_wire_version).get(name)
        for path, each in _walk(spec.fields) if spec is not None else ():
            found.setdefault(path, each)
    return found


def _walk(fields: Fields | None, prefix: str = "") -> Iterator[tuple[str, Field]]:
    for each in () if fields is None else fields.by_name.values():
        yield prefix + each.name, each
        if isinstance(each.of, Fields):
            yield from _walk(each.of, f"{prefix}{each.name}.")


# --- the page ---


def page() -> str:
    """Return docs/COMMANDS.md as it has to be."""
    sections = (_family(module, specs) for module, specs in families().items())
    return "\n".join([INTRODUCTION, *_contents(), "", *sections])


def _contents() -> Iterator[str]:
    for module, specs in families().items():
        links = ", ".join(f"[{spec.name}](#{spec.name.lower()})" for spec in specs)
        heading, _ = _heading(module)
        anchor = re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
        yield f"- [{heading}](#{anchor}): {links}"


def _heading(module: str) -> tuple[str, str]:
    """Return the heading of a family, which is its title up to a colon, and what follows there."""
    heading, _, rest = _head(module).title.removesuffix(".").partition(": ")
    return heading, f"{rest[:1].upper()}{rest[1:]}." if rest else ""


def _head(module: str) -> Head:
    return head_of(sys.modules[module].__doc__ or "")


def _family(module: str, specs: Sequence[CommandSpec]) -> str:
    heading, subject = _heading(module)
    path = module.replace(".", "/") + ".py"
    source = f"([{path.rpartition('/')[2]}](../{path}))"
    lines = [f"## {heading}", "", f"{subject} {source}".lstrip()]
    for name, text in _head(module).paragraphs.items():
        lines += ["", f"**{name}.** {text}"]
    return "\n".join([*lines, "", *map(_command, specs)])


def _command(spec: CommandSpec) -> str:
    facts = "\n".join(f"- {fact}" for fact in _facts(spec))
    return f"### {spec.name}\n\n{spec.help}\n\n{facts}\n{_table(spec)}"


def _facts(spec: CommandSpec) -> Iterator[str]:
    kind = f"Kind: {spec.kind}" + (", on secondaries unasked" if spec.on_secondaries else "")
    servers = {"anywhere": "mongod and mongos", "mongod": "mongod", "mongos": "mongos"}[spec.home]
    span = str(spans()[spec.name, ""])
    yield f"{kind}. On: {servers}{', ' + span if span else ''}."
    if spec.aliases:
        yield f"Also called {', '.join(f'`{alias}`' for alias in spec.aliases)}."
    if spec.in_transaction:
        since = str(spans()[spec.name, "in_transaction"])
        own = since if since != span else ""
        yield f"May be in a transaction{', ' + own if own else ''}."
    for holds, text in (
        (spec.retryable_write, "May be a retryable write."),
        (spec.write_concern, "Takes a write concern."),
        (spec.admin_only, "On the database `admin` only."),
        (not spec.requires_auth, "Needs no authentication."),
        (spec.test_only, "Test commands only (`enableTestCommands`)."),
        (bool(spec.sequences), f"Document sequences: {', '.join(f'`{name}`' for name in spec.sequences)}."),
        (spec.fields is not None and spec.fields.strict, "Refuses undeclared fields."),
    ):
        if holds:
            yield text


def _table(spec: CommandSpec) -> str:
    own = str(spans()[spec.name, ""])
    rows = [("Field", "Type", "Release"), ("---", "---", "---")]
    for path, each in fields_of(spec.name).items():
        span = str(spans()[spec.name, path])
        mark = r"\*" if each.required else ""
        rows.append((f"`{path}`{mark}", _type(each), "" if span == own else span))
    declared = rows[2:]
    if not declared:
        return ""
    width = 3 if any(release for *_, release in declared) else 2
    return "\n".join(["", *(f"| {' | '.join(row[:width])} |" for row in rows), ""])


def _type(field: Field) -> str:
    if field.choices:
        return " or ".join(f"`{choice}`" for choice in field.choices)
    kind = field.kind.replace("|", " or ")
    if field.kind != "array" or field.of is None:
        return kind
    return f"array of {'object' if isinstance(field.of, Fields) else field.of}"


if __name__ == "__main__":
    PAGE.write_text(page())
