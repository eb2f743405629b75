"""From a document of any format to its cases."""

from __future__ import annotations

from dataclasses import replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING, TypeAlias

from harness.formats import UNIFIED, format_of, is_for_servers
from harness.formats.case import FormatCase, FormatFile
from harness.formats.grammar import check
from harness.unified.build import build, case_names, decoded, id_prefix
from harness.unified.errors import ScenarioError
from harness.unified.model import Case, TestFile
from mongowire.documents.marks import Location

if TYPE_CHECKING:
    from mongowire.documents.marks import Marked

AnyCase: TypeAlias = Case | FormatCase
AnyFile: TypeAlias = TestFile | FormatFile


def cases_of(document: Marked) -> AnyFile:
    """Check a document as its format asks for, and return its cases. Raises `ScenarioError`."""
    if is_for_servers(document.value):
        raise ScenarioError(
            "is a scenario for servers, and tests no driver",
            location=Location(document.path, 1, 1),
            fix="--server-scenario runs tests on such servers, `pushbackd serve --scenario` runs them alone",
        )
    of = format_of(document.value)
    check(document, of)
    if of is UNIFIED:
        return build(document)
    make_runs = resolve_name(of.runs)
    plain = replace(document, value=decoded(document))
    nodes = plain["tests"].items() if of.in_tests else (plain,)
    names = case_names([node.value.get("description", of.about) for node in nodes])
    prefix = id_prefix(document.path)
    return FormatFile(
        document.path,
        tuple(
            FormatCase(f"{prefix}::{name}", name, index, node, make_runs(node))
            for index, (name, node) in enumerate(zip(names, nodes, strict=True))
        ),
    )
