"""The document that the cases of expressions see, and values that several of them share."""

from __future__ import annotations

import math
from typing import Any, Final

from bson import ObjectId

from operator_examples import day

INFINITY: Final = math.inf
MARCH: Final = day("2024-03-15T13:45:59.678")
LEAP_END: Final = day("2024-02-29T00:00:00")
SOME_ID: Final = ObjectId("65f44d3f0000000000000000")
UUID_TEXT: Final = "4f1c2d3e-5a6b-4c7d-8e9f-0a1b2c3d4e5f"
DOCUMENT: Final[dict[str, Any]] = {
    "_id": 1,
    "n": 7,
    "nothing": None,
    "text": "cafétéria",
    "list": [3, 1, 2],
    "sub": {"a": 1, "b.c": 2, "$d": 3},
    "many": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"b": "z"}],
    "when": MARCH,
    "zone": "Europe/Paris",
}
