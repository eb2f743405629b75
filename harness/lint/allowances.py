"""Comments that allow what a rule would tell of: `# lint: allow timed-wait, the server looks once a second`.

Such a comment holds for its own line, or for the next line where it stands alone. It names rules, and may say
why after them. Only warnings can be allowed: what refuses a file would still refuse it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_COMMENT = re.compile(r"(?:^|\s)#\s*lint:\s*allow\s+(?P<rules>[a-z][a-z-]*(?:\s*,\s*[a-z]+-[a-z-]*)*)")


def allowances(text: str) -> Callable[[int], frozenset[str]]:
    """Return what tells the rules that the text of a file allows to break in a line."""
    by_line: dict[int, frozenset[str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if found := _COMMENT.search(line):
            alone = not line[: found.start()].strip()
            rules = frozenset(name.strip() for name in found["rules"].split(","))
            by_line[number + alone] = by_line.get(number + alone, frozenset()) | rules
    return lambda number: by_line.get(number, frozenset())
