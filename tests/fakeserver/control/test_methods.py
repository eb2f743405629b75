"""The methods of `cluster.control` are those of the table."""

from __future__ import annotations

import inspect
from importlib import import_module

import control_methods
import pytest

from fakeserver.control.methods import Methods
from fakeserver.control.verbs.table import VERBS


@pytest.mark.parametrize("name", control_methods.texts())
def test_the_modules_of_methods_are_as_the_table_has_them(name: str) -> None:
    module = import_module(f"fakeserver.control.{name}")
    assert inspect.getsource(module) == control_methods.texts()[name], (
        "run `python tests/support/control_methods.py`"
    )


def test_every_verb_has_a_method() -> None:
    assert [verb.name for verb in VERBS if not callable(getattr(Methods, verb.python, None))] == []
