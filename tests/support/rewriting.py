"""The asserts of the tests, rewritten once for all workers.

pytest keeps a module whose asserts it has rewritten. In a fresh checkout all workers of xdist begin at once
and find nothing, so that each would rewrite every module for itself.
"""

from __future__ import annotations

import os
import sys
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from _pytest.assertion import rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pytest


def rewrite_for_workers(config: pytest.Config) -> None:
    """Rewrite what workers are about to load, on all processors; without workers there is nothing to share.

    A child that fails leaves its modules to the workers, as does a system that cannot fork.
    """
    if not getattr(config.option, "tx", None) or config.option.assertmode != "rewrite":
        return
    if sys.dont_write_bytecode or not hasattr(os, "fork"):
        return
    paths = stale(config.args)
    processes = min(os.cpu_count() or 1, len(paths))
    context = get_context("fork")
    children = [
        context.Process(target=rewrite_all, args=(config, paths[number::processes]))
        for number in range(processes)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()


def stale(arguments: Sequence[str]) -> list[Path]:
    """Return the modules of the arguments of pytest that are newer than what pytest has kept of them."""
    return sorted({path for path in _modules(arguments) if _is_stale(path)})


def kept(path: Path) -> Path:
    """Return the file in which pytest keeps a module."""
    return rewrite.get_cache_dir(path.absolute()) / f"{path.stem}{rewrite.PYC_TAIL}"


def rewrite_all(config: pytest.Config, paths: Sequence[Path]) -> None:
    """Rewrite modules; one that cannot be read is left to who loads it, and says so there."""
    state = config.stash[rewrite.assertstate_key]
    for path in paths:
        try:
            kept(path).parent.mkdir(parents=True, exist_ok=True)
            version, code = rewrite._rewrite_test(path.absolute(), config)
        except (SyntaxError, ValueError, OSError):
            continue
        rewrite._write_pyc(state, code, version, kept(path))


def _modules(arguments: Sequence[str]) -> Iterator[Path]:
    for argument in arguments:
        path = Path(argument.partition("::")[0])
        yield from path.rglob("test_*.py") if path.is_dir() else [path] if path.suffix == ".py" else []


def _is_stale(path: Path) -> bool:
    try:
        return kept(path).stat().st_mtime < path.stat().st_mtime
    except OSError:
        return path.exists()
