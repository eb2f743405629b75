"""The picture of a request has every step, in the order of the code."""

from __future__ import annotations

import re
from pathlib import Path

from fakeserver.request.pipeline import MONGOD

DOCS = Path(__file__).parents[2] / "docs"


def test_the_picture_of_a_request_has_the_steps_of_a_mongod_in_their_order() -> None:
    drawn = re.findall(r'<text class="step"[^>]*>([^<]+)</text>', (DOCS / "request.svg").read_text())
    assert drawn == [placement.step.value for placement in MONGOD]


def test_the_walk_beside_it_has_as_many_stops_as_the_picture() -> None:
    walk = (
        (DOCS / "ARCHITECTURE.md")
        .read_text()
        .partition("## The path of a request\n")[2]
        .partition("\n## ")[0]
    )
    (numbers,) = re.findall(
        r'<g text-anchor="middle" font-weight="600".*?</g>', (DOCS / "request.svg").read_text(), re.DOTALL
    )
    assert re.findall(r"^(\d+)\. ", walk, re.MULTILINE) == re.findall(r">(\d+)<", numbers)
