"""The entity map: the named things of one case.

Unified Test Format: Entity Map. Names are written once and read by kind; what belongs to a driver is an
opaque handle, what belongs to the scenario is a document or a thread of ours.

The map is the memory of one case and dies with it. `creation` fills it from the file and `createEntities`,
operations add results that are saved, loops their counts. Reading is by name and kind: an entity of another
kind than an operation needs is an error that names both, before the driver sees it. Nothing is ever removed:
`_undo` of the runner closes what is here, also what the scenario has closed already.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bson import DBRef, Decimal128, MaxKey, MinKey, ObjectId, Regex, Timestamp

from harness.adapters.base import EntityKind
from harness.unified.errors import EntityError
from mongowire.documents.errors import did_you_mean

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from harness.adapters.base import Event, Handle

# A result of any other type is a driver's object, with which nothing in a scenario could be compared.
BSON_TYPES: Final = (
    dict,
    list,
    str,
    int,
    float,
    bytes,
    type(None),
    ObjectId,
    Decimal128,
    Regex,
    Timestamp,
    DBRef,
    MinKey,
    MaxKey,
)
BSON_PACKAGES: Final = ("bson", "datetime")
"""Where the rest of what BSON can hold comes from."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A named thing. `client` is the name of the client that a driver's object was made from."""

    kind: EntityKind
    id: str
    value: Any
    client: str = ""


@dataclass(slots=True)
class ClientEntity:
    """A client, and which of the events that its adapter collected the scenario wants to see.

    Events before `skipped` were dropped because the client was still filling its pools.

    `read` returns all events since the client was made, each time anew. Filtering them is `observation`'s
    part, since reports and oracles want those that the scenario ignores as well.
    """

    handle: Handle
    observed: frozenset[str]
    ignored_commands: frozenset[str]
    observe_sensitive: bool
    read: Callable[[], Sequence[Event]]
    skipped: int = 0
    observed_logs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SessionEntity:
    """A session, and its `lsid`, which assertions may need after the session has ended."""

    handle: Handle
    lsid: Mapping[str, Any]


@dataclass(slots=True)
class ThreadEntity:
    """A "thread": operations that run one after the other beside the case's own. Failures are kept."""

    last: asyncio.Task[None] | None = None
    ended: bool = False
    """Whether `waitForThread` has said that no more operations are coming."""

    def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Start `work` after what was started before; it does not start if that failed."""
        import asyncio  # noqa: PLC0415 - half of what the operations take to import, and only runs need it

        self.last = asyncio.get_running_loop().create_task(self._after(self.last, work))

    @staticmethod
    async def _after(previous: asyncio.Task[None] | None, work: Callable[[], Awaitable[None]]) -> None:
        # Raises what the previous one raised: the rest of a thread makes no sense after a failure.
        if previous is not None:
            await previous
        await work()

    @property
    def idle(self) -> bool:
        """Return whether all that was started has ended."""
        return self.last is None or self.last.done()

    @property
    def failure(self) -> BaseException | None:
        """The exception that ended the thread, if there is one and nobody has waited for it yet."""
        if self.last is None or not self.last.done() or self.last.cancelled():
            return None
        return self.last.exception()

    async def join(self) -> None:
        """Wait for all that was started; raises what it raised."""
        if self.last is not None:
            # Forgotten before it is awaited: a failure that was raised here is not raised again at the end of
            # the case.
            last, self.last = self.last, None
            await last

    async def cancel(self) -> None:
        """Stop what is still running; nothing is raised."""
        if self.last is not None:
            self.last.cancel()
            import asyncio  # noqa: PLC0415 - see above

            await asyncio.gather(self.last, return_exceptions=True)


@dataclass(slots=True)
class EntityMap:
    """Names to entities, in order of creation."""

    _entities: dict[str, Entity] = field(default_factory=dict)

    def add(self, kind: EntityKind, name: str, value: Any, *, client: str = "") -> None:
        """Store an entity. Raises `EntityError` when the name is taken."""
        if name in self._entities:
            taken = self._entities[name].kind.value
            raise EntityError(
                f"entity {name!r} already exists ({taken})", fix="entity names are written once"
            )
        self._entities[name] = Entity(kind, name, value, client)

    def add_document(self, name: str, value: Any) -> None:
        """Store an operation's result. Raises `EntityError` when it is no BSON value or the name is taken."""
        if not isinstance(value, BSON_TYPES) and type(value).__module__.split(".")[0] not in BSON_PACKAGES:
            raise EntityError(f"result {value!r} cannot be saved as entity {name!r}: it is not a BSON value")
        self.add(EntityKind.DOCUMENT, name, value)

    def replace_document(self, name: str, value: Any) -> None:
        """Store another value under the name of a document.

        Only loops do this, with counters of their own; a name in a scenario is written once.
        """
        assert self.find(name).kind is EntityKind.DOCUMENT
        self._entities[name] = Entity(EntityKind.DOCUMENT, name, value)

    def array(self, name: str) -> list[Any]:
        """Return the array of a name, a new one if there is none. Raises `EntityError` for anything else."""
        if name not in self._entities:
            self.add_document(name, [])
        value = self.get(EntityKind.DOCUMENT, name)
        if not isinstance(value, list):
            raise EntityError(f"entity {name!r} is not an array")
        return value

    def find(self, name: Any) -> Entity:
        """Return an entity of any kind. Raises `EntityError` when there is none."""
        if not isinstance(name, str):
            raise EntityError(f"{name!r} is not the name of an entity")
        if name not in self._entities:
            known = ", ".join(self._entities) or "none"
            fix = did_you_mean(name, self._entities, f"entities so far: {known}")
            raise EntityError(f"there is no entity {name!r}", fix=fix)
        return self._entities[name]

    def get(self, kind: EntityKind, name: str) -> Any:
        """Return the value of an entity of one kind. Raises `EntityError` for another kind or none."""
        entity = self.find(name)
        if entity.kind is not kind:
            raise EntityError(f"entity {name!r} is a {entity.kind.value}, not a {kind.value}")
        return entity.value

    def client(self, name: str) -> ClientEntity:
        """Return a client."""
        value: ClientEntity = self.get(EntityKind.CLIENT, name)
        return value

    def session(self, name: str) -> SessionEntity:
        """Return a session."""
        value: SessionEntity = self.get(EntityKind.SESSION, name)
        return value

    def thread(self, name: str) -> ThreadEntity:
        """Return a thread."""
        value: ThreadEntity = self.get(EntityKind.THREAD, name)
        return value

    def document(self, name: str) -> Any:
        """Return a saved result, or the events that a client has stored so far."""
        entity = self.find(name)
        if entity.kind is EntityKind.EVENT_LIST:
            return entity.value.documents()
        return self.get(EntityKind.DOCUMENT, name)

    def documents(self) -> dict[str, Any]:
        """Return everything that is a value and no object of a driver, by name."""
        kinds = (EntityKind.DOCUMENT, EntityKind.EVENT_LIST)
        return {entity.id: self.document(entity.id) for entity in self.of(*kinds)}

    def of(self, *kinds: EntityKind) -> Iterator[Entity]:
        """Iterate over entities of some kinds, oldest first."""
        # A copy: closing and ending entities may add others, and threads run meanwhile.
        return (entity for entity in tuple(self._entities.values()) if entity.kind in kinds)
