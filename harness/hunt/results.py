"""The report of a hunt for programs: JSON, JUnit's XML, and the summary of a step on GitHub.

The JSON has the schema `pushbackd-hunt/1`: others read its keys, so one may join and none may change its
meaning. It has every bug, also those that were not confirmed (`confirmed`); the two other forms are for
verdicts.
"""

from __future__ import annotations

import json
from html import escape
from shlex import join, quote
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

from harness.explaining.text import for_xml
from harness.hunt.hunting import statuses
from harness.hunt.wishes import text_of
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.hunt.findings import Bug, Trial
    from harness.hunt.hunting import Report, Waiting

SCHEMA: Final = "pushbackd-hunt/1"


def write_json(path: Path, report: Report, command: str) -> None:
    """Write the report as JSON. Raises `OSError`."""
    write_whole(path, json.dumps(document(report, command), indent=2, ensure_ascii=False) + "\n")


def document(report: Report, command: str) -> dict[str, Any]:
    """Return the report as a document of plain values; times are in seconds."""
    waiting: dict[str, Any] | None = None
    if report.waiting is not None:
        places = [{"place": str(place), **_times(each)} for place, each in report.waiting_at.items()]
        waiting = {**_times(report.waiting), "places": places}
    return {
        "schema": SCHEMA,
        "command": command,
        "seed": report.wishes.seed,
        "budget": report.wishes.budget,
        "seconds": round(report.seconds, 3),
        "interrupted": report.interrupted,
        "planned": report.planned,
        "places": [str(place) for place in report.baseline.places],
        "trials": [_trial(trial) for trial in report.trials],
        "waiting": waiting,
        "bugs": [_bug(bug, report, command) for bug in report.bugs],
        "mended": [text_of(trial.strikes) for trial in report.mended],
        "notCompared": sorted([*report.baseline.loose, *report.baseline.loose_fields]),
    }


def _times(waiting: Waiting) -> dict[str, Any]:
    return {
        "trials": waiting.trials,
        "median": round(waiting.median, 3),
        "p99": round(waiting.p99, 3),
        "longest": text_of(waiting.longest.strikes),
    }


def repeating(bug: Bug, report: Report, command: str) -> str:
    """Return the line that repeats the trial of a bug, by the shortest command that does."""
    line, only = command, bug.only
    if bug.shorter is not None:
        line, only = join(bug.shorter.words), bug.shorter.only
    quoted = only.replace("'", "'\\''")
    besides = "".join(f"{quote(word)} " for word in report.wishes.besides)
    return f"pushbackd hunt {besides}--only '{quoted}' -- {line}"


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "faults": [{"fault": each.fault.name, "place": str(each.place)} for each in trial.strikes],
        "status": trial.judgement.status,
        "exitCode": trial.outcome.code,
        "seconds": round(trial.outcome.ended.seconds, 3),
        "denied": trial.judgement.denied,
        "findings": [
            {"kind": each.kind.name.lower(), "text": each.words} for each in trial.judgement.findings
        ],
        "notes": list(trial.judgement.notes),
    }


def _bug(bug: Bug, report: Report, command: str) -> dict[str, Any]:
    return {
        "kind": bug.cause.kind.name.lower(),
        "title": bug.cause.kind.value,
        "text": bug.finding.words,
        "story": list(bug.trial.judgement.story),
        "only": bug.only,
        "trace": [step._asdict() for step in bug.trial.judgement.trace],
        "repeat": repeating(bug, report, command),
        "runs": bug.repeated + 1,
        "failed": bug.again + 1,
        "confirmed": bug.is_confirmed,
        "known": bug.is_known,
        "otherTrials": len(bug.others),
    }


def write_junit(path: Path, report: Report, command: str) -> None:
    """Write a case for each trial as JUnit's XML; the bugs are its failures. Raises `OSError`."""
    failed = [trial for trial in report.trials if trial.judgement.findings]
    missed = [trial for trial in report.trials if not trial.judgement.reached]
    counts = {"tests": len(report.trials), "failures": len(failed), "skipped": len(missed)}
    root = ET.Element("testsuites", name="pushbackd hunt")
    suite = ET.SubElement(
        root, "testsuite", {name: str(count) for name, count in counts.items()}, name=for_xml(command)
    )
    suite.extend(_case(trial) for trial in report.trials)
    ET.indent(root)
    write_whole(path, ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")


def _case(trial: Trial) -> ET.Element:
    place = " + ".join(str(strike.place) for strike in trial.strikes)
    name = " + ".join(strike.fault.name for strike in trial.strikes)
    seconds = f"{trial.outcome.ended.seconds:.3f}"
    case = ET.Element("testcase", classname=for_xml(place), name=name, time=seconds)
    if not trial.judgement.reached:
        ET.SubElement(case, "skipped", message="the place was not reached")
    for finding in trial.judgement.findings:
        failure = ET.SubElement(case, "failure", message=for_xml(finding.kind.value))
        failure.text = for_xml("\n".join([*trial.judgement.story, finding.words]))
    return case


def markdown(report: Report, command: str) -> str:
    """Return the report for the summary of a step on GitHub."""
    counts = statuses([trial.judgement for trial in report.trials])
    said = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "none"
    bugs = "1 bug" if len(report.confirmed) == 1 else f"{len(report.confirmed)} bugs"
    return "\n".join(
        [
            f"### pushbackd hunt: {bugs}",
            "",
            f"`{escape(command)}`: {len(report.trials)} trials ({said}) in {report.seconds:.0f} s.",
            "",
            *(line for bug in report.confirmed for line in _paragraph(bug, report, command)),
        ]
    )


def _paragraph(bug: Bug, report: Report, command: str) -> Iterator[str]:
    said = "; ".join(bug.trial.judgement.story)
    yield f"- **{escape(bug.cause.kind.value)}** ({bug.rate}): {escape(said)}."
    yield f"  {escape(bug.finding.words)}."
    yield f"  <br><code>{escape(repeating(bug, report, command))}</code>"
