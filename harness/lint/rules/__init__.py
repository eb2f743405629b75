"""Every rule, in one explicit table.

A rule is a function from a `LintedScenario` to problems, in the file of its subject: `names` (entities,
options of clients), `operations` (with operators and labels), `ranges`, `events`, `fail_points`,
`server_side` (the key `pushbackd`) and `files` (version, descriptions, anchors, JSON copy). Its `LintRule`
gives it an id, by which comments and options name it, and the sentence that `--rules` and docs/AUTHORING.md
show. A rule that `refuses` must be certain: a run fails the case by it, whatever the driver does.
"""

from __future__ import annotations

from typing import Final

from harness.lint.rules import events, fail_points, files, names, operations, ranges, server_side

READING: Final = {
    "syntax": "The file can be read, and is YAML or JSON.",
    "schema": "The file follows the schema of the version that it declares.",
}
"""What is found before there is anything for a rule to look at; both refuse the file."""

RULES: Final = (
    *names.RULES,
    *operations.RULES,
    *names.OPTION_RULES,
    *ranges.RULES,
    *events.RULES,
    *fail_points.RULES,
    *fail_points.CONTENT_RULES,
    *server_side.RULES,
    *files.RULES,
)
