"""Objects that stay to the end, which the garbage collector need not look at."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def frozen() -> Iterator[None]:
    """Leave alone, inside, what is there already; what was frozen before stays so afterwards."""
    was_frozen = gc.get_freeze_count() > 0
    gc.freeze()
    try:
        yield
    finally:
        if not was_frozen:
            gc.unfreeze()
