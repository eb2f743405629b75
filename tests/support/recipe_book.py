"""docs/RECIPES.md as recipes: their files, their commands, and what these print."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[2] / "docs" / "RECIPES.md"
_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE: Final = re.compile(r"(?:#|//) ([\w.-]+\.\w+)\n")
_FRAMEWORKS: Final = ("celery", "django", "fastapi", "flask", "httpx", "trustme")
"""Packages that a recipe may need beyond those of the tests."""

_ALSO: Final = {"fastapi": ("httpx",), "fakeserver.network.certificates": ("trustme",)}
"""What an import needs besides itself."""


@dataclass(slots=True)
class Recipe:
    """A recipe: its files by name, its shell commands, and the lines that these print."""

    title: str
    files: dict[str, str] = field(default_factory=dict)
    commands: str = ""
    printed: list[str] = field(default_factory=list)

    @property
    def slug(self) -> str:
        """The title as a name of a folder, which is that of no package."""
        return "recipe-" + re.sub(r"\W+", "-", self.title.lower()).strip("-")

    @property
    def has_tests(self) -> bool:
        """Whether it is run by pytest."""
        return any(name.startswith("test_") for name in self.files)

    @property
    def missing(self) -> list[str]:
        """The packages that its Python files need and that are not installed."""
        needed: set[str] = set()
        for name, text in self.files.items():
            if name.endswith(".py"):
                for module in _imported(text):
                    needed |= {module.partition(".")[0], *_ALSO.get(module, ())}
        return sorted(name for name in needed & set(_FRAMEWORKS) if find_spec(name) is None)

    def write(self, folder: Path) -> Path:
        """Write the files into a folder of their own, and return it."""
        own = folder / self.slug
        own.mkdir()
        for name, text in self.files.items():
            (own / name).write_text(text)
        return own


def recipes() -> list[Recipe]:
    """Return the recipes of the page."""
    found = []
    for chapter in PAGE.read_text().split("\n## ")[1:]:
        title, _, body = chapter.partition("\n")
        recipe = Recipe(title)
        for language, text in _BLOCK.findall(body):
            named = _FILE.match(text)
            if named is not None:
                recipe.files[named[1]] = text[named.end() :]
            elif language == "sh":
                recipe.commands += text
            elif language == "text":
                recipe.printed += text.splitlines()
        found.append(recipe)
    return found


def _imported(text: str) -> list[str]:
    modules: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            modules.append(node.module)
    return modules
