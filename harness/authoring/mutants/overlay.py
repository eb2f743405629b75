"""Puts the code of a mutant into a process, and leaves the files alone.

Functions that differ get the code of the mutant, in the modules that are loaded: that takes milliseconds. A
change of anything else, such as a constant or a default, has effects when modules are imported: then our
packages are imported anew, with the text of the mutant. The process is of no use for anything else after it.

`put_in` is the fast way and `import_anew` the sure one; `trial.become` tries them in this order. The same
swapping of code serves `record_reach`, which gives functions a copy of themselves that notes which marked
lines it comes by. Both look for functions among all objects of the garbage collector, because a function may
be held by a table, a closure or a bound method that no module's namespace leads to.
"""

from __future__ import annotations

import ast
import gc
import sys
from collections import defaultdict
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

PACKAGES: Final = ("mongowire", "fakeserver", "driver", "harness", "spec_tests")
_OF_CASES: Final = ("harness.adapters.reference.adapter", "fakeserver.assembly.assembling")
"""What the first case imports, and what these import. Once here is once for all forks, each of which would
spend half of its time on that."""


def load_modules(files: Iterable[str]) -> None:
    """Import what runs cases, and source files of our packages by their paths, such as `driver/run.py`.

    Only what is loaded can be given other code, or be watched; the harness imports much no sooner than used.
    """
    for name in _OF_CASES:
        import_module(name)
    for file in files:
        import_module(file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))


def changed_functions(before: str, after: str, path: str) -> dict[str, CodeType] | None:
    """Return the functions that differ between two texts of a file, by qualified name, with their new code.

    A function includes those inside it. None stands for a difference that is not in functions alone.
    """
    old, new = (compile(text, path, "exec", dont_inherit=True) for text in (before, after))
    if _plain(old, body_only=True) != _plain(new, body_only=True):
        return None  # a constant, a default, a decorator: it has had its effect at import
    were, are = dict(_functions(old)), dict(_functions(new))
    if len(were) != len(list(_functions(old))):  # two of one name, such as a property and its setter
        return None
    return {name: are[name] for name, code in were.items() if _plain(code) != _plain(are[name])}


def _is_function(code: CodeType) -> bool:
    return bool(code.co_flags & CO_OPTIMIZED) and not code.co_name.startswith("<")


def _functions(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    """Yield the functions of a module and its classes, but not those inside functions."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if _is_function(constant):
                yield constant.co_qualname, constant
            else:
                yield from _functions(constant)


def _plain(code: CodeType, *, body_only: bool = False) -> CodeType:
    """Return the code without its place in the file; functions are their names if only bodies count."""

    def constant(value: object) -> object:
        if not isinstance(value, CodeType):
            return value
        if body_only and _is_function(value):
            return value.co_qualname
        return _plain(value, body_only=body_only)

    return code.replace(
        co_firstlineno=1, co_linetable=b"", co_consts=tuple(constant(value) for value in code.co_consts)
    )


def put_in(sources: Mapping[str, str], originals: Mapping[str, str]) -> bool:
    """Make the loaded modules those of a mutant; texts are by path. Return whether that was possible.

    If it was not, nothing has changed.
    """
    swaps: list[tuple[FunctionType, CodeType]] = []
    for path, text in sources.items():
        changed = changed_functions(originals[path], text, path)
        if changed is None:
            return False
        found = _loaded(path, changed)
        # A function that is not loaded would keep its old code when it is imported later.
        if {function.__code__.co_qualname for function in found} != set(changed):
            return False
        swaps += [(function, changed[function.__code__.co_qualname]) for function in found]
    # Python refuses code with another number of cells; asked before the first swap, so that all or none
    # happen.
    if any(len(function.__code__.co_freevars) != len(code.co_freevars) for function, code in swaps):
        return False
    for function, code in swaps:
        function.__code__ = code
    return True


def _loaded(path: str, names: Collection[str]) -> list[FunctionType]:
    gc.unfreeze()  # what is frozen is not listed
    return [
        each
        for each in gc.get_objects()
        if type(each) is FunctionType  # isinstance() asks a dead weak proxy for its class
        and each.__code__.co_qualname in names
        and each.__code__.co_filename == path
    ]


class LineMark(NamedTuple):
    """Lines of a file, from the first to the last, and a name that says that they were reached."""

    path: str
    first: int
    last: int
    name: str


def record_reach(marks: Iterable[LineMark]) -> tuple[set[str], frozenset[str]]:
    """Have lines of the loaded modules add their names to a set, when they are reached.

    Returns the set, and the names of the lines of which that cannot be said.
    """
    reached: set[str] = set()
    unknown: set[str] = set()
    by_path = defaultdict[str, list[LineMark]](list)
    for mark in marks:
        by_path[mark.path].append(mark)
    for path, places in by_path.items():
        text = Path(path).read_text(encoding="utf-8")
        tree = ast.parse(text)
        unknown |= {mark.name for mark in places if not _put_mark(tree.body, mark)}
        marked = ast.unparse(ast.fix_missing_locations(tree))
        # The text without marks is unparsed too: only then do the marks alone differ.
        codes = changed_functions(ast.unparse(ast.parse(text)), marked, path) or {}
        for function in _loaded(path, codes):
            function.__globals__[_REACHED] = reached
            function.__code__ = codes[function.__code__.co_qualname]
    return reached, frozenset(unknown)


_REACHED: Final = "reached_by_case"


def _put_mark(body: list[ast.stmt], mark: LineMark, *, inside: bool = False) -> bool:
    """Put a statement that records the mark before the first statement that its lines are part of.

    Returns whether that is possible: not outside of functions, whose code alone can be replaced.
    """
    touched = [each for each in body if each.lineno <= mark.last and (each.end_lineno or 0) >= mark.first]
    if len(touched) == 1 and touched[0].lineno < mark.first:
        inner = [
            each
            for each in _bodies(touched[0])
            if each[0].lineno <= mark.first and (each[-1].end_lineno or 0) >= mark.last
        ]
        is_function = isinstance(touched[0], ast.FunctionDef | ast.AsyncFunctionDef)
        if len(inner) == 1:
            return _put_mark(inner[0], mark, inside=inside or is_function)
    if not inside:
        return False
    place = body.index(touched[0]) if touched else 0
    body[place:place] = ast.parse(f"{_REACHED}.add({mark.name!r})").body
    return True


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        if found := getattr(statement, name, None):
            yield found
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


class _Loader(SourceFileLoader):
    """Loads a module from another text than that of its file."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        del fullname
        return compile(self._text, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finds the modules of a mutant; texts are by path."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in PACKAGES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None and spec.origin in self._sources:
            spec.loader = _Loader(fullname, spec.origin, self._sources[spec.origin])
        return spec


def import_anew(sources: Mapping[str, str]) -> None:
    """Have our packages imported anew, with the texts of a mutant; what is held already stays what it is."""
    # First, so that no other finder answers for our packages, and for good: modules come late in a run too.
    sys.meta_path.insert(0, _Finder(sources))
    for name in list(sys.modules):
        if name.partition(".")[0] in PACKAGES:
            del sys.modules[name]
