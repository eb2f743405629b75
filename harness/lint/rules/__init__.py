"""Every rule, in one explicit table."""

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
