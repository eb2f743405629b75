"""The place of a patch in the driver: what is new in a file, as a tree, and how parts of it are replaced.

New is what stands on a changed line and did not stand on the lines that the patch replaces: a condition that
was there before belongs to another rule, even where the patch has moved it.

Operators ask a `Place` for new nodes and get back whole files with one node replaced. Nodes are of the text
with the patch, so their lines and columns must not be used on any other text. The text is replaced by
position and not printed from the tree, so that the rest of the file keeps its form in the diffs that people
read.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from textwrap import dedent, indent
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_TELLING: Final = (ast.BoolOp, ast.Call, ast.Compare, ast.UnaryOp, ast.BinOp, ast.Subscript)
"""Expressions that say something by themselves; names and numbers alone may stand anywhere."""


@dataclass(slots=True)
class Place:
    """A file that a patch changes."""

    file: str
    before: str
    after: str
    tree: ast.Module = field(init=False)
    changed: frozenset[int] = field(init=False)
    """The numbers of the lines of `after` that are new."""
    functions: list[tuple[Function, Function]] = field(init=False)
    """The functions that the patch changes, without it and with it; none inside of another."""
    _kept: frozenset[str] = field(init=False)
    _parents: dict[ast.AST, ast.AST] = field(init=False)
    _starts: list[int] = field(init=False)
    _touched: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self.tree, was = ast.parse(self.after), ast.parse(self.before)
        old, new = self.before.splitlines(), self.after.splitlines()
        changed, replaced, self._touched = set[int](), set[int](), set[int]()
        # Without `autojunk`, which passes over frequent lines of long files and so tells more as changed.
        for tag, start, end, new_start, new_end in SequenceMatcher(
            None, old, new, autojunk=False
        ).get_opcodes():
            if tag != "equal":
                replaced.update(range(start + 1, end + 1))
                changed.update(range(new_start + 1, new_end + 1))
                self._touched.update((new_start + 1, new_end))
        self.changed = frozenset(changed)
        self._kept = frozenset(text for each in ast.walk(was) if _on(each, replaced) for text in _said(each))
        self._parents = {
            child: parent for parent in ast.walk(self.tree) for child in ast.iter_child_nodes(parent)
        }
        named = dict(_named(was))
        # With the lines beside: a deletion leaves no line of its own.
        near = {line + step for line in self._touched for step in (-1, 0, 1)}
        self.functions = [
            (named[name], function)
            for name, function in _named(self.tree)
            if name in named and _on(function, near)
            if ast.dump(named[name]) != ast.dump(function)
        ]
        # In bytes, because the columns of `ast` count those of UTF-8.
        self._starts = [0]
        for line in self.after.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line.encode()))

    def new(self) -> Iterator[ast.expr | ast.stmt]:
        """Yield what is new, statements and expressions, in the order of the file."""
        found = [
            each
            for each in ast.walk(self.tree)
            if isinstance(each, ast.expr | ast.stmt) and _on(each, self.changed)
        ]
        yield from sorted(
            (each for each in found if self.is_new(each)), key=lambda each: (each.lineno, each.col_offset)
        )

    def is_new(self, node: ast.expr | ast.stmt) -> bool:
        """Return whether a part stands on a changed line, and is no part of what stood there before."""
        if not _on(node, self.changed):
            return False
        for each in (node, *self.around(node)):
            if isinstance(each, ast.stmt):
                return True
            if isinstance(each, _TELLING) and ast.unparse(each) in self._kept:
                return False
            above = self.above(each)
            # A name or a number that was an argument of the same function before is not new either.
            if (
                isinstance(above, ast.Call)
                and each is not above.func
                and _argument(above, each) in self._kept
            ):
                return False
        return True

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield what a part stands in, the innermost first."""
        while (above := self._parents.get(node)) is not None:
            yield above
            node = above

    def above(self, node: ast.AST) -> ast.AST:
        """Return what a part stands in; the file for its statements."""
        return self._parents.get(node, self.tree)

    def function_of(self, node: ast.AST) -> Function | None:
        """Return the function that a part stands in."""
        return next((each for each in self.around(node) if _is_function(each)), None)

    def class_of(self, function: Function) -> str:
        """Return the name of the class that a function is a method of, empty for none."""
        above = self.above(function)
        return above.name if isinstance(above, ast.ClassDef) else ""

    def with_(self, node: ast.expr | ast.stmt, text: str) -> str:
        """Return the file with other text in the place of a part."""
        start, end = self._span(node)
        whole = self.after.encode()
        return (whole[:start] + text.encode() + whole[end:]).decode()

    def source_of(self, node: ast.expr | ast.stmt) -> str:
        """Return a part as it stands in the file."""
        start, end = self._span(node)
        return self.after.encode()[start:end].decode()

    def text(self, node: ast.AST) -> str:
        """Return the text of a part on one line."""
        return " ".join(ast.unparse(node).split())

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def only_where(self, conditions: Mapping[str, str]) -> str:
        """Return the file in which the patch counts under a condition only; each is by a function's name."""
        lines = self.after.splitlines()
        # From the last one up, so that the line numbers of those above stay right.
        for was, function in reversed(self.functions):
            if function.name in conditions:
                start, end, text = self._choice(was, function, conditions[function.name])
                lines[start:end] = text
        return "\n".join(lines) + "\n"

    def _choice(self, was: Function, function: Function, condition: str) -> tuple[int, int, list[str]]:
        """Return lines of a function, and what chooses between those with the patch and those without it."""
        first, last_old, last_new = _difference(was.body, function.body)
        old = _lines(self.before, was.body[first:last_old])
        new = _lines(self.after, function.body[first:last_new])
        if first < last_new:
            start, end = function.body[first].lineno - 1, function.body[last_new - 1].end_lineno
        elif first < len(function.body):
            start = end = function.body[first].lineno - 1
        else:
            start = end = function.body[-1].end_lineno or 0
        margin = " " * function.body[0].col_offset
        chosen = f"if {condition}:\n{indent(new, '    ')}\nelse:\n{indent(old, '    ')}"
        return start, end or start, indent(chosen, margin).splitlines()


def _said(node: ast.AST) -> Iterator[str]:
    """Yield what an expression says by itself, and each argument of a call together with what is called."""
    if isinstance(node, _TELLING):
        yield ast.unparse(node)
    if isinstance(node, ast.Call):
        yield from (_argument(node, each) for each in (*node.args, *node.keywords))


def _argument(call: ast.Call, argument: ast.AST) -> str:
    return f"{ast.unparse(call.func)}({ast.unparse(argument)}, …)"


def _on(node: ast.AST, lines: frozenset[int] | set[int]) -> bool:
    first = getattr(node, "lineno", None)
    return first is not None and any(line in lines for line in range(first, (node.end_lineno or first) + 1))  # type: ignore[attr-defined]


def _is_function(node: ast.AST) -> TypeGuard[Function]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _named(node: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, Function]]:
    for each in node.body:
        if _is_function(each):
            yield prefix + each.name, each
        elif isinstance(each, ast.ClassDef):
            yield from _named(each, f"{prefix}{each.name}.")


def _difference(old: Sequence[ast.stmt], new: Sequence[ast.stmt]) -> tuple[int, int, int]:
    """Return where two lists of statements begin to differ, and where each does so no more."""
    old_dumps, new_dumps = [ast.dump(each) for each in old], [ast.dump(each) for each in new]
    shorter = min(len(old), len(new))
    first = next((index for index in range(shorter) if old_dumps[index] != new_dumps[index]), shorter)
    same = 0
    while same < shorter - first and old_dumps[-1 - same] == new_dumps[-1 - same]:
        same += 1
    return first, len(old) - same, len(new) - same


def _lines(source: str, statements: Sequence[ast.stmt]) -> str:
    if not statements:
        return "pass"
    return dedent("\n".join(source.splitlines()[statements[0].lineno - 1 : statements[-1].end_lineno]))
