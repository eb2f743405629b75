"""The action for GitHub and the container file, as far as they can be tried without either."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from pymongo import MongoClient
from started import Started

import fakeserver

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: dict[str, dict[str, Any]] = {
    step.get("name", step.get("id")): step for step in ACTION["runs"]["steps"]
}
CONTAINER = re.sub(r"\\\n", " ", (ROOT / "Containerfile").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def instructions(name: str) -> list[str]:
    """Return what stands behind an instruction of the container file, each time it is there."""
    return re.findall(rf"^{name} (.*)$", CONTAINER, re.MULTILINE)


def test_every_input_of_the_action_is_used_and_every_used_one_declared() -> None:
    used = set(re.findall(r"\$\{\{ inputs\.([\w-]+) \}\}", (ROOT / "action.yml").read_text()))
    assert used == set(ACTION["inputs"])
    assert [name for name, each in ACTION["inputs"].items() if each.get("required")] == ["run"]


def test_no_script_of_the_action_holds_an_expression() -> None:
    """What a workflow hands in comes by the environment, or it could be more commands than one."""
    scripts = [step["run"] for step in STEPS.values() if "run" in step]
    assert len(scripts) == 2
    for script in scripts:
        assert "${{" not in script
        assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


def test_the_action_installs_the_checkout_that_it_is_part_of() -> None:
    step = STEPS["Install pushbackd from this checkout"]
    assert step["env"]["SOURCE"] == "${{ github.action_path }}"
    assert (ROOT / "pyproject.toml").exists()


@pytest.mark.slow
@pytest.mark.parametrize("shed", ["", "100%"])
@pytest.mark.parametrize(
    ("command", "code"), [('test -n "$MONGODB_URI"', 0), ("exit 7; true", 7), ("false | true", 1)]
)
def test_the_action_runs_a_command_and_ends_with_its_code(
    tmp_path: Path, shed: str, command: str, code: int
) -> None:
    program = tmp_path / "pushbackd"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m harness "$@"\n')
    program.chmod(0o755)
    defaults = {name.upper(): str(each.get("default", "")) for name, each in ACTION["inputs"].items()}
    step = STEPS["Run the command"]
    variables = {name: defaults.get(name, "") for name in step["env"]}
    variables |= {"PUSHBACKD": str(program), "COMMAND": command, "SHED": shed}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env={**os.environ, **variables, "PYTHONPATH": packages(), "PUSHBACKD_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    nothing_refused = bool(shed) and code == 0  # no operation came: the drill has rehearsed nothing
    assert done.returncode == (1 if nothing_refused else code), done.stderr


def test_every_path_that_the_container_file_copies_is_there_and_reaches_the_builder() -> None:
    copied = [word for line in instructions("COPY") for word in line.split()[:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) <= set(copied)
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert kept == set(copied)


def test_the_container_installs_extras_that_there_are() -> None:
    (extras,) = re.findall(r"/source\[([\w,]+)\]", " ".join(instructions("RUN")))
    assert set(extras.split(",")) <= set(PROJECT["project"]["optional-dependencies"])


@pytest.mark.slow
def test_the_container_s_command_serves_a_replica_set(tmp_path: Path) -> None:
    (entrypoint,), (arguments,) = map(instructions, ("ENTRYPOINT", "CMD"))
    line: list[str] = [*json.loads(entrypoint), *json.loads(arguments)]
    program, words = line[0], line[1:]
    assert (program, instructions("EXPOSE")) == ("pushbackd", [words[words.index("--port") + 1]])
    words[words.index("--port") + 1] = "0"
    environment = {**os.environ, "PYTHONPATH": packages(), "PUSHBACKD_HOME": str(tmp_path)}
    with Started(
        [sys.executable, "-m", "harness", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            uri = server.stdout.readline().strip()
            with MongoClient[dict[str, Any]](uri) as client:
                assert client.admin.command("hello")["setName"] == "rs0"
        finally:
            server.terminate()


def test_the_comment_of_the_container_file_and_the_recipe_say_the_same_commands() -> None:
    commands = re.findall(r"^#     (docker .*)$", CONTAINER, re.MULTILINE)
    recipe = (ROOT / "docs/RECIPES.md").read_text()
    assert len(commands) == 2
    assert all(f"$ {shlex.join(shlex.split(command))}\n" in recipe for command in commands)


def packages() -> str:
    return str(Path(fakeserver.__file__).parents[1])
