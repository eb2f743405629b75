"""Results for CI servers: JUnit's XML, one suite for each driver and topology.

CI servers agree on a core of this format only, so nothing else is used: `failure` with the explanation as
text, `skipped` with the reason, `system-out` with the timeline, and `properties`. Cases known to fail count
as skipped, because servers have no word for them and a red mark would hide the news. Times are in seconds, on
the clock of the run.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias
from xml.etree import ElementTree as ET

from harness.explaining.explanation import explanation
from harness.explaining.journal import two_columns
from harness.explaining.text import for_xml
from harness.planning.result import Result, ResultStatus, Tally
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.planning.plan import Settings

    _Properties: TypeAlias = Callable[[Result], Mapping[str, str]]

_FAILED = (ResultStatus.FAILED, ResultStatus.UNEXPECTED_PASS)
_SKIPPED = (ResultStatus.SKIPPED, ResultStatus.KNOWN_FAILING, ResultStatus.NOT_RUN)


def write(
    path: Path,
    results: Sequence[Result],
    *,
    settings: Settings,
    of_case: _Properties = lambda _: {},
) -> None:
    """Write the report of a run with these settings. Raises `OSError`.

    `of_case` returns the properties that a case has besides.
    """
    root = ET.Element("testsuites", name="pushbackd conform")
    _count(root, results)
    for (adapter, topology), group in groupby(results, key=lambda result: (result.adapter, result.topology)):
        of_suite = list(group)
        suite = ET.Element("testsuite", name=f"{adapter} on {topology}")
        _count(suite, of_suite)
        first = of_suite[0]
        properties = {
            "adapter": first.adapter,
            "driver": settings.driver(first.adapter),
            "topology": first.topology,
            "edition": first.edition,
            "server_version": next(
                (result.server_version for result in of_suite if result.server_version), ""
            ),
            "seed": str(settings.seed),
            "time": settings.time,
        }
        _list(suite, properties)
        suite.extend(_case(result, of_case(result)) for result in of_suite)
        root.append(suite)
    ET.indent(root)
    write_whole(path, ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")


def _list(element: ET.Element, properties: Mapping[str, str]) -> None:
    listed = ET.SubElement(element, "properties")
    for key, value in properties.items():
        ET.SubElement(listed, "property", name=key, value=for_xml(value))


def _case(result: Result, properties: Mapping[str, str]) -> ET.Element:
    spec, _, name = result.id.partition("/")
    case = ET.Element("testcase", classname=spec, name=for_xml(name or spec), time=_seconds([result]))
    if result.file:
        case.set("file", result.file)
        case.set("line", str(result.line))
    if properties:
        _list(case, properties)
    if result.status in _FAILED:
        failure = ET.SubElement(case, "failure", message=for_xml(result.reason), type=result.status.value)
        failure.text = for_xml("\n".join(explanation(result, cut=False)))
    if result.status in _SKIPPED:
        ET.SubElement(case, "skipped", message=for_xml(result.reason), type=result.status.value)
    if result.status in _FAILED and result.timeline:
        ET.SubElement(case, "system-out").text = for_xml("\n".join(two_columns(result.timeline, whole=True)))
    return case


def _count(element: ET.Element, results: Sequence[Result]) -> None:
    tally = Tally.of(results)
    element.set("tests", str(len(results)))
    element.set("failures", str(sum(tally[status] for status in _FAILED)))
    # A defect of the harness is a failure of its case, with its text as the reason.
    element.set("errors", "0")
    element.set("skipped", str(sum(tally[status] for status in _SKIPPED)))
    element.set("time", _seconds(results))


def _seconds(results: Iterable[Result]) -> str:
    return f"{sum(result.duration_ms for result in results) / 1000:.3f}"
