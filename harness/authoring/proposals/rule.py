"""A proposal: the rule in words, the scenarios that show it, and the patch with which the driver obeys.

The rule is one file and the patch another; docs/PROPOSE.md describes their keys. A patch has the notation of
the mutants, except that it is right.

Everything that a user can have written wrong is told here, before the first trial: unknown keys, scenarios
that lint would refuse, deployments, lines that do not occur once, a patch that is no Python. What comes
after works with a `Rule` and a `Patch` that can be used. Their texts are those of the installed source at
this moment.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs

from harness.adapters.registry import EDITIONS
from harness.authoring.mutants.mutant import VERDICTS, Change, original, path_of
from harness.deployments import targets
from harness.planning.discovery import BadInputError
from harness.planning.plan import loaded
from harness.unified.loader import read
from harness.unified.model import Case
from harness.unified.schema.explanation import explain
from harness.unified.schema.notation import STRING, array, record, word
from mongowire.documents.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.unified.schema.notation import Schema
    from mongowire.documents.marks import Location, Marked

DEPLOYMENTS: Final = ("replicaset", "sharded")
"""Where a rule is proved that does not say where."""

_PATCHED: Final = "driver/"
"""Where a patch may change files: with a changed server or judge a rule about drivers is not proved."""

_NO_NAME: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Allowed:
    """A wrong neighbour that no scenario need find: it is no other driver, or not observable, and why."""

    name: str
    verdict: str
    because: str
    location: Location


@dataclass(frozen=True, slots=True)
class Patch:
    """The changes that make the reference driver obey, and the text of each file without and with them."""

    name: str
    does: str
    changes: tuple[Change, ...]
    before: Mapping[str, str]
    after: Mapping[str, str]
    path: Path
    allowed: tuple[Allowed, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """The proposal: the paragraph and its reason, where it belongs, and the scenarios that show it.

    `heading` and `after` are the place in the specification: the paragraph follows that sentence.
    `asks` is the question that the text of today leaves open, empty for none.
    """

    name: str
    says: str
    because: str
    asks: str
    specification: str
    heading: str
    after: str
    scenarios: tuple[Path, ...]
    editions: tuple[str, ...]
    deployments: tuple[str, ...]
    document: Marked

    @property
    def slug(self) -> str:
        """Return the name as a file or a link has it."""
        return _NO_NAME.sub("-", self.name.lower()).strip("-")

    @property
    def page(self) -> str:
        """Return the path of the specification among the public ones."""
        return f"source/{self.specification}/{self.specification}.md"


_RULE: Final = record(
    {
        "rule": STRING,
        "says": STRING,
        "because": STRING,
        "asks": STRING,
        "specification": {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
        "heading": STRING,
        "after": STRING,
        "scenarios": array(STRING, at_least=1),
        "editions": array(word(*EDITIONS), at_least=1),
        "deployments": array(STRING, at_least=1),
    },
    ("rule", "says", "because", "specification", "heading", "after", "scenarios"),
)
_CHANGE: Final[Mapping[str, Schema]] = {"file": STRING, "old": STRING, "new": STRING}
_PATCH: Final = record(
    {
        "name": STRING,
        "does": STRING,
        **_CHANGE,
        "also": array(record(_CHANGE, tuple(_CHANGE)), at_least=1),
        "survives": array(
            record(
                # Not "open", as a mutant may be: what a case could find must be found before a rule is
                # proposed.
                {"neighbour": STRING, "as": word(*VERDICTS[:2]), "because": STRING},
                ("neighbour", "as", "because"),
            ),
            at_least=1,
        ),
    },
    ("name", "does", *_CHANGE),
)


def read_rule(path: Path) -> Rule:
    """Read a rule and its scenarios. Raises BadInputError or ScenarioError, with file, line and field."""
    document = _checked(path, _RULE)
    value: Mapping[str, Any] = document.value
    scenarios = tuple(_scenario(each) for each in document["scenarios"].items())
    names = document.get("deployments")
    return Rule(
        name=value["rule"].strip(),
        says=value["says"].strip(),
        because=value["because"].strip(),
        asks=value.get("asks", "").strip(),
        specification=value["specification"],
        heading=value["heading"].strip(),
        after=" ".join(value["after"].split()),
        scenarios=scenarios,
        editions=tuple(value.get("editions", EDITIONS)),
        deployments=DEPLOYMENTS
        if names is None
        else targets.targets(_deployment(each) for each in names.items()),
        document=document,
    )


def read_patch(path: Path) -> Patch:
    """Read a patch and apply it to the source. Raises BadInputError or ScenarioError, with line and field."""
    document = _checked(path, _PATCH)
    also = document.get("also")
    entries = [document, *(() if also is None else also.items())]
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    changes = []
    for entry in entries:
        change = Change(**{name: entry.value[name] for name in _CHANGE})
        file = entry.value["file"]
        inside = file.startswith(_PATCHED) and ".." not in file and file.endswith(".py")
        if not inside or not path_of(file).is_file():
            raise BadInputError(
                f"{entry['file'].location}: '{file}' is no source file of the reference driver (driver/…)"
            )
        before[change.file] = original(file)
        after[change.file] = _applied(change, after.get(change.file, before[change.file]), entry)
        changes.append(change)
    survivors = document.get("survives")
    allowed = () if survivors is None else tuple(map(_allowed, survivors.items()))
    value = document.value
    return Patch(value["name"].strip(), value["does"].strip(), tuple(changes), before, after, path, allowed)


@cache
def _validator(text: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({"rule": _RULE, "patch": _PATCH}[text])


def _checked(path: Path, schema: Any) -> Marked:
    document = read(path)
    problems = list(_validator("rule" if schema is _RULE else "patch").iter_errors(document.value))
    if problems:
        raise explain(document, problems, lambda _: schema)[0]
    return document


def _scenario(name: Marked) -> Path:
    """Return the file of a scenario, which is named as seen from the rule; all its cases can be used."""
    path = name.path.parent / str(name.value)
    if not path.is_file():
        raise BadInputError(f"{name.location}: {path} is no file")
    for case in loaded(str(path)).cases:
        if not isinstance(case, Case):
            raise BadInputError(f"{name.location}: {path} is not in the unified test format")
        if case.flaw:
            raise BadInputError(f"{case.flaw.location}: {case.flaw.complaint}")
    return path


def _deployment(name: Marked) -> str:
    found = targets.our_spelling(name.value)
    if targets.without_profile(found) not in targets.NAMES:
        hint = did_you_mean(found, targets.NAMES)
        raise BadInputError(
            f"{name.location}: '{name.value}' is no deployment" + (f"; {hint}" if hint else "")
        )
    return found


def _applied(change: Change, source: str, entry: Marked) -> str:
    try:
        text = change.apply(source)
    except ValueError as error:
        raise BadInputError(f"{entry['old'].location}: {error}") from error
    try:
        ast.parse(text)
    except SyntaxError as error:
        told = f"{error.msg}: {(error.text or '').strip()}"
        raise BadInputError(f"{entry['new'].location}: {change.file} is no Python with it: {told}") from error
    return text


def _allowed(entry: Marked) -> Allowed:
    value = entry.value
    return Allowed(value["neighbour"], value["as"], value["because"].strip(), entry.location)
