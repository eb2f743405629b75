"""Charts say what they show to those who see them and to those who do not, and keep names off the lines."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from harness.report.pages import chart, markup
from harness.report.pages.chart import Bars, Instant, Level, Line, Panel, Scale, Span, around, written

SVG = "{http://www.w3.org/2000/svg}"
PANEL = Panel(
    title="Goodput",
    x="seconds",
    y="per second",
    lines=[
        Line("one", [(0, 0), (10, 50)], "s1"),
        Line("other <b>", [(0, 100), (5, 20), (10, 100)], "s2", dash=1),
    ],
    spans=[Span(2, 4, "server stopped")],
    instants=[Instant(4.2, "recovered", good=True)],
    levels=[Level(80, "capacity")],
)
BARS = Bars(
    title="Attempts", x="per success", names=["one", "other"], series=[("", [(1, "1.00"), (0, "none")])]
)


def drawn(*panels: Panel | Bars) -> ET.Element:
    return ET.fromstring(chart.file(panels, title="Both", columns=2))


def texts(root: ET.Element) -> list[str]:
    return ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]


def test_a_file_has_a_role_a_title_and_a_description_in_words() -> None:
    root = drawn(PANEL, BARS)
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == "Both"
    description = root.findtext(f"{SVG}desc") or ""
    for told in (
        "other <b> begins at 100, is 20 to 100, ends at 100",
        "server stopped from 2 to 4",
        "recovered at 4.2",
        "capacity 80",
        "one, per success: 1.00",
    ):
        assert told in description


def test_each_panel_of_a_page_is_a_picture_of_its_own() -> None:
    parts = [ET.fromstring(part) for part in chart.elements([PANEL, BARS], title="Both")]
    assert [part.findtext(f"{SVG}title") for part in parts] == ["Both: Goodput", "Both: Attempts"]
    assert {part.get("role") for part in parts} == {"img"}
    assert "<style>" not in "".join(chart.elements([PANEL], title="Both"))


def test_every_line_level_span_and_instant_is_named() -> None:
    assert {"one", "other <b>", "capacity", "server stopped", "recovered", "seconds"} <= set(
        texts(drawn(PANEL))
    )


def test_lines_differ_in_more_than_their_colour() -> None:
    lines = [
        each.get("class")
        for each in drawn(PANEL).iter(f"{SVG}path")
        if "line" in each.get("class", "").split()
    ]
    assert lines == ["line s1", "line s2 dash1"] * 2, "in the legend and in the panel"


def test_names_stand_above_the_lines_and_beside_each_other() -> None:
    crowded = [Instant(at, f"event {at}") for at in (4.0, 4.1, 4.2, 9.9)]
    strip = chart.file([Panel(title="", x="x", y="y", lines=PANEL.lines, instants=crowded)], title="x")
    places = re.findall(r'<text class="quiet mid" x="([\d.]+)" y="(\d+)">(event [\d.]+)<', strip)
    rows: dict[str, list[tuple[float, float]]] = {}
    for x, y, name in places:
        half = len(name) * 6.7 / 2
        rows.setdefault(y, []).append((float(x) - half, float(x) + half))
    assert len(places) == 4
    for row in rows.values():
        ordered = sorted(row)
        assert all(end < start for (_, end), (start, _) in pairwise(ordered))
        assert all(start > -0.1 and end < 460.1 for start, end in row)


def test_the_same_numbers_give_the_same_bytes() -> None:
    assert chart.file([PANEL, BARS], title="x") == chart.file([PANEL, BARS], title="x")


def test_many_points_are_drawn_by_their_outline() -> None:
    noisy = [(number / 1000, float(number % 7)) for number in range(10_000)]
    text = chart.file([Panel(title="", x="x", y="y", lines=[Line("", noisy)])], title="x")
    assert len(text) < 60_000
    tops = {float(y) for y in re.findall(r"L[\d.]+ ([\d.]+)", text)}
    assert len(tops) > 1


@pytest.mark.parametrize(
    ("scale", "ticks"),
    [
        (Scale(0, 100), [0, 25, 50, 75, 100]),
        (Scale(0, 7), [0, 2, 4, 6]),
        (Scale(0, 0.3), [0, 0.1, 0.2, 0.3]),
        (Scale(0.1, 1000, "log"), [0.1, 1, 10, 100, 1000]),
        (Scale(0, 650, "symlog"), [0, 1, 10, 100]),
    ],
)
def test_ticks_are_round(scale: Scale, ticks: list[float]) -> None:
    assert scale.ticks() == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("scale", "value", "place"),
    [
        (Scale(0, 10), 2.5, 0.25),
        (Scale(0, 10), 20, 1),
        (Scale(1, 100, "log"), 10, 0.5),
        (Scale(1, 100, "log"), 0, 0),
        (Scale(0, 10, "symlog"), 1, 0.5),
    ],
)
def test_a_value_has_its_place(scale: Scale, value: float, place: float) -> None:
    assert scale.place(value) == pytest.approx(place)


def test_a_scale_has_room_for_its_values_even_if_they_are_one() -> None:
    assert around([], "linear", least=None, most=None).most > 0
    flat = around([0.0, 0.0], "linear", least=None, most=None)
    assert flat.place(0) == 0
    alone = around([10.0], "log", least=None, most=None)
    assert alone.least < alone.most


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.05, "0.05"), (1500, "1,500"), (2e6, "2M"), (2.5, "2.5")]
)
def test_values_are_written_short(value: float, text: str) -> None:
    assert written(value) == text


def test_every_colour_of_the_sheets_is_in_the_palette_in_light_and_dark() -> None:
    light, _, dark = markup.palette().partition("@media")
    for name in ("page", "chart", "sequence"):
        used = set(re.findall(r"var\((--[\w-]+)\)", markup.sheet(name)))
        fonts = {"--mono", "--sans"}
        assert used - set(re.findall(r"(--[\w-]+):", light)) == set(), name
        assert used - fonts - set(re.findall(r"(--[\w-]+):", dark)) == set(), name
