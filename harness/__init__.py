"""The conformance harness: unified test format scenarios against any driver, in real or virtual time.

`harness.sim` has virtual time, `harness.testing` the contracts of adapters, ports and storage engines,
`harness.adapters` what drivers are driven by, and `harness.pytest_plugin` collects scenarios as tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mongowire.package import face

if TYPE_CHECKING:
    from harness import adapters, overload, pytest_plugin, sim, testing

    __version__: str

__all__ = ["adapters", "overload", "pytest_plugin", "sim", "testing"]

__getattr__, __dir__ = face(__name__, __all__)
