"""The recipes of docs/RECIPES.md do what they say, as they stand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from recipe_book import Recipe, recipes

import fakeserver

if TYPE_CHECKING:
    from collections.abc import Mapping

RECIPES = recipes()
NODE_MODULES = os.environ.get("PUSHBACKD_NODE_MODULES", "").split(os.pathsep)
SECONDS = 120

pytestmark = pytest.mark.slow


def environment(folder: Path) -> dict[str, str]:
    """Return the variables for a recipe: our commands on the path, and a registry of its own."""
    bin_folder = folder.parent / "bin"
    if not bin_folder.exists():
        bin_folder.mkdir()
        for name, arguments in (("python", ""), ("pushbackd", "-m harness")):
            script = bin_folder / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
            script.chmod(0o755)
    packages = str(Path(fakeserver.__file__).parents[1])
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        "PATH": os.pathsep.join([str(bin_folder), os.environ["PATH"]]),
        "PYTHONPATH": packages,
        "PUSHBACKD_HOME": str(folder.parent / "home"),
        "NODE_PATH": os.pathsep.join(NODE_MODULES),
    }


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


TESTED = [recipe for recipe in RECIPES if recipe.has_tests]
TOGETHER = [recipe for recipe in TESTED if "pytest.ini" not in recipe.files]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Run all recipes for pytest that need no ini file in one process; return the failures by recipe."""
    folder = tmp_path_factory.mktemp("recipes")
    runnable = [recipe for recipe in TOGETHER if not recipe.missing]
    for recipe in runnable:
        recipe.write(folder)
    # What frameworks warn of on their own is their affair; what is left open is ours.
    warnings = "error::ResourceWarning\n    error::pytest.PytestUnraisableExceptionWarning"
    (folder / "pytest.ini").write_text(f"[pytest]\nfilterwarnings =\n    {warnings}\n")
    report = folder / "report.xml"
    done = run(
        pytest_command(f"--junit-xml={report}", "--import-mode=importlib", "--continue-on-collection-errors"),
        folder,
    )
    found = dict.fromkeys((recipe.slug for recipe in runnable), f"it has not run:\n{done.stdout}")
    for case in ET.parse(report).iter("testcase"):
        slug = case.get("classname", "").split(".")[0]
        problems = [each.get("message", "") + (each.text or "") for each in case if each.tag != "properties"]
        before = found.get(slug, "")
        found[slug] = "\n".join([*([] if before.startswith("it has not run") else [before]), *problems])
    return found


def pytest_command(*arguments: str) -> list[str]:
    load = [] if installed() else ["-p", "fakeserver.pytest_plugin"]
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *load, *arguments]


def installed() -> bool:
    from importlib import metadata  # noqa: PLC0415 - asked once

    return any(each.value == "fakeserver.pytest_plugin" for each in metadata.entry_points(group="pytest11"))


def skip_without(recipe: Recipe) -> None:
    if recipe.missing:
        pytest.skip(f"the recipe {recipe.title!r} needs {', '.join(recipe.missing)}, not installed here")


@pytest.mark.parametrize("recipe", [pytest.param(each, id=each.slug) for each in TOGETHER])
def test_a_recipe_for_pytest_passes(recipe: Recipe, outcomes: Mapping[str, str]) -> None:
    skip_without(recipe)
    assert not outcomes[recipe.slug]


@pytest.mark.parametrize(
    "recipe", [pytest.param(each, id=each.slug) for each in TESTED if each not in TOGETHER]
)
def test_a_recipe_with_an_ini_file_passes(recipe: Recipe, tmp_path: Path) -> None:
    skip_without(recipe)
    done = run(pytest_command(), recipe.write(tmp_path))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("recipe", [pytest.param(each, id=each.slug) for each in RECIPES if each.commands])
def test_the_commands_of_a_recipe_print_what_it_says(recipe: Recipe, tmp_path: Path) -> None:
    skip_without(recipe)
    for package in ("mongoose", "express"):
        has_package = shutil.which("node") and any(Path(each, package).is_dir() for each in NODE_MODULES)
        if f'require("{package}")' in "".join(recipe.files.values()) and not has_package:
            pytest.skip(f"the recipe needs node, and {package} in a folder of PUSHBACKD_NODE_MODULES")
    done = run(["bash", "-euc", recipe.commands], recipe.write(tmp_path))
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    for line in recipe.printed:
        assert re.search(f"^{re.escape(line).replace('…', '.*')}$", said, re.MULTILINE), said


def test_there_are_twenty_recipes_and_all_but_a_few_run() -> None:
    run_by_tests = [recipe for recipe in RECIPES if recipe.has_tests or recipe.commands]
    assert len(run_by_tests) >= 20


def test_what_recipes_configure_can_be_read() -> None:
    files = {name: text for recipe in RECIPES for name, text in recipe.files.items()}
    properties = dict(line.split("=", 1) for line in files["application.properties"].splitlines())
    assert properties == {"spring.data.mongodb.uri": "${MONGODB_URI}"}
    steps = yaml.safe_load(files["workflow.yml"])["jobs"]["tests"]["steps"]
    assert {step.get("uses", "").partition("@")[0] for step in steps} >= {"./pushbackd"}
