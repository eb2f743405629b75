"""Scripts that only wait are recognised, and no others."""

from __future__ import annotations

import pytest

from fakeserver.storage.scripts.javascript import recognise

BUSY = "var d = new Date((new Date()).getTime() + {} * 1000); while (d > (new Date())) {{}}"


@pytest.mark.parametrize(
    ("script", "milliseconds", "holds"),
    [
        ("sleep(1000) || true", 1000, True),
        ("sleep(1000) || true;", 1000, True),
        ("(sleep(5) || true)", 5, True),
        ("sleep(1000)", 1000, False),
        ("sleep(1000) && true", 1000, False),
        ("sleep(1000) || false", 1000, False),
        ("sleep(5), true", 5, True),
        ("function() { sleep(2 * 1000); return true; }", 2000, True),
        ("function () {\n  sleep(500);\n  return true\n}", 500, True),
        ("function slow() { sleep(0.5 * 1000 + 1); return 1 }", 501, True),
        ("function() { sleep(10) }", 10, False),
        ("function() { return sleep(10) || true }", 10, True),
        ("function() { sleep(1); sleep(2); return true }", 3, True),
        ("() => { sleep(3); return true; }", 3, True),
        ("() => sleep(5) || true", 5, True),
        ("sleep(100); return true;", 100, True),
        (f"function() {{ {BUSY.format(2)} return true; }}", 2000, True),
        (f"function() {{ {BUSY.format(0.5)}; return true; }}", 500, True),
        (BUSY.format(1) + "; return true", 1000, True),
        ("var start = Date.now(); while (Date.now() < start + 100) {} return true;", 100, True),
        ("function() { var s = new Date(); while (new Date() - s < 5000) {} return true; }", 5000, True),
        ("function() { return true }", 0, True),
    ],
)
def test_a_script_that_waits_is_recognised(script: str, milliseconds: float, *, holds: bool) -> None:
    assert recognise(script) == (milliseconds, holds)


@pytest.mark.parametrize(
    "script",
    [
        "this.a == 1",
        "sleep(this.a) || true",
        "sleep(1000) || this.a",
        "function() { sleep(100); return this.x; }",
        "function() { sleep(100); nonsense(); return true; }",
        "function(x) { while (true) {} }",
        "sleep(100",
        "sleep(1) || true)",
        "sleep() || true",
        "true",
        "",
    ],
)
def test_any_other_script_is_not(script: str) -> None:
    assert recognise(script) is None
