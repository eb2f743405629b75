"""A likely cause of a failure: what the driver did, the rules that forbid it, and a sentence of evidence."""

from __future__ import annotations

from typing import NamedTuple


class Cause(NamedTuple):
    """What a driver did wrong.

    `name` is the same for every case with this cause ("no backoff"), `text` the sentence that the events of
    this case prove. `rules` are the ids of rules.yml that forbid it; none where no numbered rule does.
    """

    name: str
    text: str
    rules: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.text} [{', '.join(self.rules)}]" if self.rules else self.text
