"""How much the stateful tests do: little, and more than 50,000 steps each with HYPOTHESIS_PROFILE=ci."""

from __future__ import annotations

from hypothesis import settings

STEPS = 60


def thorough() -> settings:
    """Return the settings of a state machine in the profile that is loaded."""
    examples = settings().max_examples
    return settings(
        max_examples=examples if examples >= 1000 else examples // 4,
        stateful_step_count=STEPS,
    )
