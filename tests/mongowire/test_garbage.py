"""What is frozen for a while is looked at again afterwards, unless somebody had frozen it before."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc
from mongowire.garbage import frozen

def counts():
    yield gc.get_freeze_count()
    with frozen():
        yield gc.get_freeze_count()
    yield gc.get_freeze_count()

before, inside, after = counts()
assert before == 0 < inside and after == 0, (before, inside, after)
first, second = frozen(), frozen()
first.__enter__(), second.__enter__(), first.__exit__(None, None, None)
assert gc.get_freeze_count() > 0, "the second has not ended"
second.__exit__(None, None, None)
assert gc.get_freeze_count() == 0
for _ in range(1000):
    with frozen():
        cycle = []
        cycle.append(cycle)
left = sum(1 for each in gc.get_objects() if type(each) is list and each and each[0] is each)
assert left < 100, f"{left} cycles are left"
gc.freeze()
before, inside, after = counts()
assert 0 < before and before >= inside >= after > 0, (before, inside, after)
for _ in range(100):
    with frozen():
        cycle = []
        cycle.append(cycle)
del cycle
assert gc.collect() >= 100, "what a block leaves behind is garbage"
gc.get_freeze_count = None  # a walk through all that is frozen, which is done once
with frozen():
    pass
"""


def test_the_collector_looks_again_afterwards_at_what_only_this_had_frozen() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
