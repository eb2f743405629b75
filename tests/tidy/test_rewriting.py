"""What is rewritten for the workers of xdist is what each would have rewritten for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import rewriting
from _pytest.assertion import rewrite

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "test_sum.py"
    path.write_text("def check():\n    assert 1 + 1 == 3\n")
    return path


def test_a_module_is_rewritten_once_and_explains_what_fails(
    module: Path, pytestconfig: pytest.Config
) -> None:
    assert rewriting.stale([str(module.parent)]) == [module]
    rewriting.rewrite_all(pytestconfig, [module])
    assert rewriting.stale([str(module.parent)]) == []

    code = rewrite._read_pyc(module, rewriting.kept(module))
    assert code is not None
    names: dict[str, Any] = {}
    exec(code, names)
    with pytest.raises(AssertionError, match=r"assert \(1 \+ 1\) == 3"):
        names["check"]()


def test_a_module_that_cannot_be_read_is_left_to_who_loads_it(
    module: Path, pytestconfig: pytest.Config
) -> None:
    module.write_text("def check(:\n")
    rewriting.rewrite_all(pytestconfig, [module])
    assert rewriting.stale([f"{module}::check"]) == [module]
