"""mongomock's store without the rest of mongomock, which imports a whole driver.

The store is one small module of the package. So the package is entered as a module whose own code has not
run yet; it runs when somebody asks it for a name, and who imports mongomock for himself notices nothing.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

    from fakeserver.storage.values.stored import Stored

_NAME: Final = "mongomock"
_LOADING: Final = RLock()


class _Package(ModuleType):
    """A package whose code runs when a name is asked for that it does not have yet."""

    _begun = False

    def __getattr__(self, name: str) -> Any:
        with _LOADING:
            if not self._begun:
                self._begun = True
                assert self.__spec__ is not None
                assert self.__spec__.loader is not None
                self.__spec__.loader.exec_module(self)
                self.__class__ = ModuleType  # type: ignore[assignment]
        if name not in self.__dict__:
            raise AttributeError(f"module {_NAME!r} has no attribute {name!r}")
        return self.__dict__[name]


def _enter_package() -> None:
    """Have parts of mongomock be importable while its own code waits, unless it has run already."""
    spec = None if _NAME in sys.modules else find_spec(_NAME)
    if spec is not None:
        package = module_from_spec(spec)
        package.__class__ = _Package
        sys.modules[_NAME] = package


_enter_package()

from mongomock.store import CollectionStore, ServerStore  # noqa: E402 -- of the package as it is by now

NEW_SERVER: Final[Any] = ServerStore


class Store(CollectionStore):
    """A collection's documents by key, in natural order.

    What works on it takes no lock, which one event loop needs not: it reads and writes `by_key`.
    """

    def __init__(self, name: str, documents: dict[Hashable, Stored] | None = None) -> None:
        super().__init__(name)  # type: ignore[no-untyped-call]
        self.by_key: dict[Hashable, Stored] = {} if documents is None else documents
        self._documents: Any = self.by_key
