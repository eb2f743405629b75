"""Adapters to start from: programs that keep the protocol, and do nothing yet.

Each passes `pushbackd check-adapter` as it is: what it cannot do, it says it cannot.

`python_adapter.py` stands on `harness.adapters.serving`, which speaks the protocol for it.
`protocol_adapter.py` has the whole protocol and no import of ours, to be translated line by line;
`protocol.md` is its README and `protocol_session.txt` a session to compare with. `node_adapter.cjs` speaks
the protocol itself, for drivers in Node. Readers get copies of these files, so their comments speak to the
author of an adapter and not to us.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SKELETONS: Final[Mapping[str, Mapping[str, str]]] = {
    "python": {"adapter.py": "python_adapter.py"},
    "node": {"adapter.cjs": "node_adapter.cjs"},
    "protocol": {
        "README.md": "protocol.md",
        "adapter.py": "protocol_adapter.py",
        "session.txt": "protocol_session.txt",
    },
}
"""The files of each kind, by the names that they get, with those that they have here."""

PROGRAMS: Final[Mapping[str, tuple[str, str]]] = {
    "python": ("python", "adapter.py"),
    "node": ("node", "adapter.cjs"),
    "protocol": ("python", "adapter.py"),
}
"""How each kind is run: an interpreter and a file."""


def files_of(kind: str) -> dict[str, str]:
    """Return the texts of the files of a kind, by their names."""
    here = resources.files(__name__)
    return {name: here.joinpath(source).read_text("utf-8") for name, source in SKELETONS[kind].items()}
