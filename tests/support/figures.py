"""Prints the figures by which the house is judged: `python tests/support/figures.py`.

They are aims, read beside each other and over time. What is a law stands in test_laws.py and test_imports.py.
"""

from __future__ import annotations

import ast
import io
import json
import statistics
import subprocess
import sys
import tokenize
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driver import AsyncClient
from fakeserver import ClusterSpec, start
from harness.sim import World, run_virtual

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = Path(__file__).parents[2]
PACKAGES = ("mongowire", "fakeserver", "driver", "harness")

FLOORS: dict[str, tuple[tuple[str, ...], ...]] = {
    "fakeserver": (
        ("errors", "profile"),
        ("waiting",),
        ("idl",),
        ("storage",),
        ("settings",),
        ("sessions",),
        ("access",),
        ("admission",),
        ("change_streams",),
        ("rules",),
        ("deployment",),
        ("request",),
        ("commands",),
        ("stages",),
        ("network",),
        ("control",),
        ("assembly",),
        ("cli", "pytest_plugin", "__main__"),
    ),
    "harness": (
        ("world",),
        ("adapters",),
        ("unified",),
        ("deployments", "formats"),
        ("lint",),
        ("planning",),
        ("explaining",),
        ("report",),
        ("running",),
        ("sim",),
        ("overload", "testing", "hunt", "authoring", "pytest_plugin"),
        ("commands",),
        ("cli", "__main__"),
    ),
}
"""The rooms of a package from the ground up: an import of a higher floor is an arrow up."""

STORAGE_FLOORS = (
    "values",
    "scripts",
    "port",
    "expressions",
    "filters",
    "stages",
    "updates",
    "plans",
    "store",
)
"""The rooms of storage from the ground up."""

Edge = tuple[str, str]


def sources(package: str) -> list[Path]:
    """Return the modules of a package."""
    return sorted((ROOT / package).rglob("*.py"))


def rooms(package: str) -> list[str]:
    """Return what lies at the top of a package: folders and files, without `__init__` and `__main__`."""
    return sorted(
        path.name
        for path in (ROOT / package).iterdir()
        if not path.name.startswith("__") and (path.is_dir() or path.suffix == ".py")
    )


# Imports.


@cache
def imports(package: str, *, types: bool) -> frozenset[Edge]:
    """Return who imports whom within a package; with `types`, what stands under TYPE_CHECKING counts too."""
    names = {_name_of(path): path for path in sources(package)}
    return frozenset(
        (name, target)
        for name, path in names.items()
        for target in _imported(ast.parse(path.read_text("utf-8")), names, types=types)
        if target != name
    )


def _name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(tree: ast.AST, known: Mapping[str, object], *, types: bool) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not types:
            continue
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for each in node.names:
                deep = f"{node.module}.{each.name}"
                if deep in known:
                    yield deep
                elif node.module in known:
                    yield node.module
        else:
            yield from _imported(node, known, types=types)


def circles(edges: Iterable[Edge]) -> list[list[str]]:
    """Return the groups of modules that reach one another, the largest first (Kosaraju's two walks)."""
    onward: dict[str, set[str]] = {}
    back: dict[str, set[str]] = {}
    for one, other in edges:
        onward.setdefault(one, set()).add(other)
        back.setdefault(other, set()).add(one)
    order: list[str] = []
    seen: set[str] = set()
    for start_at in sorted(onward):
        order += _walk(start_at, onward, seen)
    seen = set()
    groups = [_walk(name, back, seen) for name in reversed(order)]
    return sorted((sorted(group) for group in groups if len(group) > 1), key=len, reverse=True)


def _walk(begin: str, edges: Mapping[str, set[str]], seen: set[str]) -> list[str]:
    """Return what is reached and was not seen before, each behind all that it leads to."""
    found: list[str] = []
    stack = [(begin, False)]
    while stack:
        name, done = stack.pop()
        if done:
            found.append(name)
        elif name not in seen:
            seen.add(name)
            stack.append((name, True))
            stack += [(each, False) for each in sorted(edges.get(name, ()))]
    return found


def arrows_up(package: str) -> list[Edge]:
    """Return the imports in a package, for types too, of what stands on a higher floor."""
    floor_of = {room: number for number, floor in enumerate(FLOORS[package]) for room in floor}

    def floor(module: str) -> int | None:
        _, _, inner = module.partition(".")
        return floor_of.get(inner.partition(".")[0])

    return sorted(
        (one, other)
        for one, other in imports(package, types=True)
        if (low := floor(one)) is not None and (high := floor(other)) is not None and low < high
    )


def arrows_of_storage() -> list[Edge]:
    """Return the pairs of rooms of storage of which the first imports the second, for types too."""
    inner = "fakeserver.storage."
    return sorted(
        {
            (room, other_room)
            for one, other in imports("fakeserver", types=True)
            if one.startswith(inner) and other.startswith(inner)
            if (room := one.split(".")[2]) != (other_room := other.split(".")[2])
        }
    )


def arrows_up_in_storage() -> list[Edge]:
    """Return those of `arrows_of_storage` that lead to a higher floor."""
    floor = STORAGE_FLOORS.index
    return [(room, other) for room, other in arrows_of_storage() if floor(room) < floor(other)]


def folders(package: str) -> dict[str, int]:
    """Return the folders of a package, each with the number of its own modules."""
    return Counter(path.parent.relative_to(ROOT).as_posix() for path in sources(package))


# Functions and comments.


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions of a package: how many, how long, and which are hops."""

    count: int
    median: float
    p90: float
    short: float
    """The share of those with a body of three lines or fewer."""
    once: float
    """The share of private helpers that their file names once."""
    handed: float
    """The share of those which that place hands on, as a row of a table or a callback, and does not call."""


def functions(package: str) -> Functions:
    """Measure the functions of a package; a length is that of the body without its docstring, in lines."""
    lengths: list[int] = []
    once = handed = 0
    for path in sources(package):
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        named = Counter(filter(None, map(_called, nodes)))
        called = {_called(node.func) for node in nodes if isinstance(node, ast.Call)}
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lengths.append(_length(node))
                private = node.name.startswith("_") and not node.name.startswith("__")
                if private and not node.decorator_list and named[node.name] == 1:
                    once += 1
                    handed += node.name not in called
    deciles = statistics.quantiles(lengths, n=10)
    short = sum(length <= 3 for length in lengths) / len(lengths)
    shares = once / len(lengths), handed / len(lengths)
    return Functions(len(lengths), statistics.median(lengths), deciles[-1], short, *shares)


def _called(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def comments(package: str) -> float:
    """Return the share of lines of a package that hold a comment or stand in a module's head."""
    commented = total = 0
    for path in sources(package):
        text = path.read_text("utf-8")
        total += text.count("\n")
        head = ast.get_docstring(ast.parse(text), clean=False) or ""
        commented += head.count("\n")
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            is_comment = token.type == tokenize.COMMENT
            commented += is_comment and not token.string.startswith(("# noqa", "# type:"))
    return commented / total


def deletions(package: str) -> int:
    """Return how many arguments are deleted because a function does not want them."""
    return sum(
        isinstance(node, ast.Delete) and all(isinstance(target, ast.Name) for target in node.targets)
        for path in sources(package)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
    )


def unread_arguments(package: str) -> int:
    """Return the number of signatures with an argument that nothing reads, and that cannot say so."""
    return sum(path.read_text().count("noqa: ARG002") for path in sources(package))


def local_imports(package: str) -> int:
    """Return the number of imports within functions, each of which says why it is not at the top."""
    return sum(path.read_text().count("noqa: PLC0415") for path in sources(package))


def fields_of(path: str, name: str) -> list[str]:
    """Return the fields of a class: annotated in its body, or set in its `__init__`."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    (found,) = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name)
    fields = [ast.unparse(node.target) for node in found.body if isinstance(node, ast.AnnAssign)]
    for node in found.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            targets = [
                each for inner in ast.walk(node) if isinstance(inner, ast.Assign) for each in inner.targets
            ]
            fields += [each.attr for each in targets if isinstance(each, ast.Attribute)]
    return fields


# Hops.


def calls_of_a_retried_insert() -> set[tuple[str, str]]:
    """Return the functions, each with its module, that run for one insert on a replica set.

    The request rate limiter refuses the first attempt, the second one is taken. Client and server run in one
    process on virtual time, so that the calls of both are seen.
    """
    calls: set[tuple[str, str]] = set()

    def profile(frame: Any, event: str, _argument: object) -> None:
        # Generated functions, such as a data class's `__init__`, have no file to read.
        if event == "call" and not frame.f_code.co_filename.startswith("<"):
            calls.add((frame.f_globals.get("__name__", ""), frame.f_code.co_qualname))

    async def main(world: World) -> None:
        ports: dict[str, Any] = {"network": world.network, "clock": world.clock, "rng": world.rng}
        limits = {"ingressRequestAdmissionRatePerSec": 100, "ingressRequestAdmissionBurstCapacitySecs": 0.01}
        async with (
            start(ClusterSpec.replica_set(3), **ports) as cluster,
            AsyncClient(cluster.uri, **ports) as client,
        ):
            collection = client.database("shop").collection("stock")
            await collection.insert_one({"_id": 1})
            primary = cluster.node("primary")
            primary.parameters.set(limits | {"ingressRequestRateLimiterEnabled": True})
            for number in (2, 3):  # from then on its path is known
                await collection.insert_one({"_id": number})
            rejected = primary.admission.requests.rejected
            sys.setprofile(profile)
            try:
                await collection.insert_one({"_id": 4})
            finally:
                sys.setprofile(None)
            assert primary.admission.requests.rejected == rejected + 1, "the limiter refused nothing"

    run_virtual(main)
    return calls


def modules_of_a_retried_insert() -> dict[str, list[str]]:
    """Return the modules of driver and fakeserver in which a function runs for one insert."""
    modules = {module for module, _ in calls_of_a_retried_insert()}
    return {
        package: sorted(name for name in modules if name.split(".")[0] == package)
        for package in ("driver", "fakeserver")
    }


def modules_passed() -> dict[str, list[str]]:
    """Return `modules_of_a_retried_insert` of a process of its own, where nothing else is profiled."""
    command = [sys.executable, __file__, "--modules"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    passed: dict[str, list[str]] = json.loads(printed)
    return passed


def main() -> None:
    """Print all figures."""
    for package in PACKAGES:
        print(f"{package}: {len(sources(package))} modules, {len(rooms(package))} rooms at the top")
        for types in (True, False):
            sizes = [len(group) for group in circles(imports(package, types=types))]
            kind = "with type imports" if types else "at run time"
            print(f"  circles {kind}: {', '.join(map(str, sizes)) or 'none'}")
        measured = functions(package)
        print(
            f"  functions: {measured.count}, median {measured.median:.0f} lines, p90 {measured.p90:.0f},"
            f" {measured.short:.0%} of three lines or fewer, {measured.once:.1%} private and named once,"
            f" of which {measured.handed:.1%} as a row of a table or a callback"
        )
        print(f"  comments and heads: {comments(package):.1%} of the lines")
        print(f"  deleted arguments: {deletions(package)}")
        print(f"  unread arguments: {unread_arguments(package)}, local imports: {local_imports(package)}")
    for package in FLOORS:
        print(f"{package}, arrows up: {len(arrows_up(package))}")
        for one, other in arrows_up(package):
            print(f"  {one} -> {other}")
    print(f"storage, arrows between its rooms: {len(arrows_of_storage())}, up: {len(arrows_up_in_storage())}")
    largest = Counter({name: count for package in PACKAGES for name, count in folders(package).items()})
    print("largest folders: " + ", ".join(f"{name} {count}" for name, count in largest.most_common(5)))
    fields = fields_of("fakeserver/request/context.py", "RequestContext")
    print(f"RequestContext: {len(fields)} fields")
    for package, names in modules_of_a_retried_insert().items():
        print(f"a rate-limited, retried insert: {len(names)} modules of {package}")
        print("  " + " ".join(name.partition(".")[2] for name in names))


if __name__ == "__main__":
    if "--modules" in sys.argv:
        print(json.dumps(modules_of_a_retried_insert()))
    else:
        main()
