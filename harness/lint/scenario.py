"""A scenario as rules see it: its operations in order, with what their names mean where they stand.

Unified Test Format: Entity Map, Executing a Test.

The rules of a run are followed without running. Entities of the file are made first, then each case begins
with a copy of them and adds those that its operations make, in order: a name may be used only after that. An
operation within another one (a loop, a thread, a callback) comes right after the one that holds it. Where
nobody can know what an operation returns, its entity has no kind, and rules are silent about it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import EntityKind
from harness.unified.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from mongowire.documents.marks import Location, Marked
    from mongowire.documents.reader import Anchor

_CASE = re.compile(r"tests\[(\d+)\]")

_ARGUMENTS: Final[Mapping[str, EntityKind]] = {
    "client": EntityKind.CLIENT,
    "thread": EntityKind.THREAD,
    "topologyDescription": EntityKind.TOPOLOGY_DESCRIPTION,
    "priorTopologyDescription": EntityKind.TOPOLOGY_DESCRIPTION,
}
"""Arguments of the runner's own operations that name entities; `session` does in all operations."""

_STORED: Final = (
    *("storeErrorsAsEntity", "storeFailuresAsEntity", "storeSuccessesAsEntity", "storeIterationsAsEntity"),
)
_PARENTS: Final[Mapping[EntityKind, tuple[str, EntityKind]]] = {
    EntityKind.DATABASE: ("client", EntityKind.CLIENT),
    EntityKind.SESSION: ("client", EntityKind.CLIENT),
    EntityKind.COLLECTION: ("database", EntityKind.DATABASE),
    EntityKind.BUCKET: ("database", EntityKind.DATABASE),
}
_NAMING: Final = {"$$matchesEntity": EntityKind.DOCUMENT, "$$sessionLsid": EntityKind.SESSION}
"""Special operators whose argument is the name of an entity."""


@dataclass(slots=True)
class NamedEntity:
    """A name that a file gives to something; `kind` is None when nobody can know. `client` is its own."""

    name: str
    kind: EntityKind | None
    item: Marked
    client: str = ""
    used: bool = False
    created: bool = False
    """Whether `createEntities` made it, not an operation's result."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A name that is used; `wanted` is what must bear it (None: anything), `found` what does, if anything.

    `known` is empty where something bears the name: it is for the hint, which only a missing one needs.
    """

    name: str
    item: Marked
    wanted: EntityKind | None
    found: NamedEntity | None
    known: tuple[str, ...]
    """The names that stood there."""


@dataclass(frozen=True, slots=True)
class OperationUse:
    """An operation. `target` is what it is run on: None for the runner, and when nobody can know."""

    item: Marked
    name: str
    target: NamedEntity | None
    thread: str = ""

    @property
    def on_runner(self) -> bool:
        """Return whether the runner itself does it."""
        return bool(self.item.value["object"] == EntityKind.TEST_RUNNER.value)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Return the arguments as they stand."""
        arguments: Mapping[str, Any] = self.item.value.get("arguments", {})
        return arguments

    def place_of(self, *steps: str) -> Location:
        """Return the place of an argument."""
        return self.item.locate(("arguments", *steps))

    def place_of_name(self, name: str) -> Location:
        """Return the place of the name of an argument."""
        return self.item.locate_key(("arguments", name))


@dataclass(frozen=True, slots=True)
class Operator:
    """A use of a special operator: its name, its argument, and all keys that stand beside it."""

    name: str
    argument: Any
    beside: tuple[str, ...]
    root: Marked
    steps: tuple[str | int, ...]

    @property
    def place(self) -> Location:
        """Return the place of the operator itself."""
        return self.root.locate_key((*self.steps, self.name))

    @property
    def item(self) -> Marked:
        """Return the argument with its place."""
        found = self.root
        for step in (*self.steps, self.name):
            found = found[step]
        return found


@dataclass(slots=True)
class Test:
    """One case: its operations in order, the inner ones after those that hold them, and its names."""

    __test__ = False

    item: Marked
    steps: list[OperationUse] = field(default_factory=list)
    entities: dict[str, NamedEntity] = field(default_factory=dict)
    """All names of the case at its end."""
    operators: list[Operator] = field(default_factory=list)


class LintedScenario:
    """A valid file, whose parts inside arguments are valid too, read once for all rules."""

    def __init__(self, document: Marked, anchors: Sequence[Anchor] = ()) -> None:
        self.document = document
        self.anchors = anchors
        self.references: list[Reference] = []
        self.repeated: list[NamedEntity] = []
        """Entities whose name is taken already."""
        self.every_entity: list[NamedEntity] = []
        """All that has a name, in the order of the file."""
        self.entities: dict[str, NamedEntity] = {}
        """What the file's own `createEntities` makes."""
        for entity in _items(document.get("createEntities")):
            self._create(entity, self.entities)
        self.tests = [self._test(case) for case in document["tests"].items()]

    @property
    def path(self) -> Path:
        """The file."""
        return self.document.path

    @cached_property
    def steps(self) -> list[OperationUse]:
        """All operations of all cases."""
        return [step for test in self.tests for step in test.steps]

    def case_of(self, place: Location) -> int | None:
        """Return the index of the case in which a place is, None outside of the cases."""
        case = _CASE.match(place.field)
        return int(case[1]) if case else None

    def runs(self, place: Location) -> bool:
        """Return whether what stands at a place can take part in a run: a case may say that it is skipped.

        A skipped case may hold what no version has, as public files do: there, what would refuse a case is a
        warning.
        """
        case = self.case_of(place)
        return case is None or "skipReason" not in self.tests[case].item.value

    def _create(self, item: Marked, scope: dict[str, NamedEntity]) -> None:
        """Take in an element of `createEntities`: what it refers to stands before it."""
        (name,) = item.value
        kind, body = EntityKind(name), item[name]
        client = ""
        if kind in _PARENTS:
            field_name, wanted = _PARENTS[kind]
            parent = self._refer(body[field_name], wanted, scope)
            # The client at the top, through any number of steps: rules about events ask which client an
            # operation is of.
            client = (parent.client or parent.name) if parent else ""
        # Two entities name others by fields of their own, beside the parents of the table.
        if kind is EntityKind.CLIENT_ENCRYPTION:
            self._refer(body["clientEncryptionOpts"]["keyVaultClient"], EntityKind.CLIENT, scope)
        if kind is EntityKind.SESSION and isinstance(
            body.value.get("sessionOptions", {}).get("snapshotTime"), str
        ):
            self._refer(body["sessionOptions"]["snapshotTime"], EntityKind.DOCUMENT, scope)
        self._define(NamedEntity(body.value["id"], kind, body, client, created=True), scope)
        for stored in _items(body.get("storeEventsAsEntities")):
            self._define(NamedEntity(stored.value["id"], EntityKind.EVENT_LIST, stored), scope)

    def _define(self, entity: NamedEntity, scope: dict[str, NamedEntity]) -> None:
        # Also one whose name is taken: it is a mistake of its own, and its options are checked like others'.
        self.every_entity.append(entity)
        if entity.name in scope:
            self.repeated.append(entity)
        scope[entity.name] = entity

    def _refer(
        self, item: Marked, wanted: EntityKind | None, scope: dict[str, NamedEntity]
    ) -> NamedEntity | None:
        """Take in the use of a name, and return what bears it; None for a name that nothing bears yet."""
        name = item.value
        found = scope.get(name) if isinstance(name, str) else None
        self.references.append(Reference(str(name), item, wanted, found, () if found else tuple(scope)))
        if found is not None:
            found.used = True
        return found

    def _test(self, item: Marked) -> Test:
        test = Test(item, entities=dict(self.entities))
        for operation in item["operations"].items():
            self._step(operation, test, "")
        # After the operations, as these are compared at the end: they may name what operations made.
        for name in ("expectEvents", "expectLogMessages", "expectTracingMessages"):
            for expected in _items(item.get(name)):
                self._refer(expected["client"], EntityKind.CLIENT, test.entities)
                self._operators(expected, test)
        own = item.get("pushbackd")
        if own is not None:
            for element in _items(own.get("expectAttempts")):
                if "session" in element.value:
                    self._refer(element["session"], EntityKind.SESSION, test.entities)
            self._operators(own, test)
        return test

    def _step(self, item: Marked, test: Test, thread: str) -> None:
        """Take in an operation with all within it; its own result has a name only after those."""
        name, target = item.value["name"], None
        if item.value["object"] != EntityKind.TEST_RUNNER.value:
            target = self._refer(item["object"], None, test.entities)
        step = OperationUse(item, name, target, thread)
        test.steps.append(step)
        arguments = item.get("arguments")
        if arguments is not None:
            self._arguments(step, arguments, test)
        for expectation in ("expectResult", "expectError"):
            expected = item.get(expectation)
            if expected is not None:
                self._operators(expected, test)
        self._define_results(step, test)

    def _arguments(self, step: OperationUse, arguments: Marked, test: Test) -> None:
        for name in arguments.value:
            if name == "session" or (step.on_runner and name in _ARGUMENTS):
                self._refer(arguments[name], _ARGUMENTS.get(name, EntityKind.SESSION), test.entities)
        for inner in ("operations", "callback"):
            for operation in _items(arguments.get(inner)):
                self._step(operation, test, step.thread)
        # The operation of `runOnThread`.
        if "operation" in arguments.value:
            self._step(arguments["operation"], test, str(arguments.value.get("thread", "")))
        if step.name == "createEntities":
            for entity in _items(arguments.get("entities")):
                self._create(entity, test.entities)
        if "event" in arguments.value:
            self._operators(arguments["event"], test)

    def _define_results(self, step: OperationUse, test: Test) -> None:
        """Take in what an operation leaves behind under a name."""
        arguments = step.item.get("arguments")
        if step.on_runner and arguments is not None:
            for name in (*_STORED, *(("id",) if step.name == "recordTopologyDescription" else ())):
                if name in arguments.value and not _appends(name, arguments[name], test):
                    kind = EntityKind.TOPOLOGY_DESCRIPTION if name == "id" else EntityKind.DOCUMENT
                    self._define(
                        NamedEntity(str(arguments.value[name]), kind, arguments[name]), test.entities
                    )
        saved = step.item.get("saveResultAsEntity")
        if saved is not None:
            owner = (step.target.client or step.target.name) if step.target else ""
            on = step.target.kind if step.target else None
            spec = OPERATIONS.get((on, step.name)) if on is not None else None
            made = (spec.creates or EntityKind.DOCUMENT) if spec else None
            self._define(NamedEntity(saved.value, made, saved, owner), test.entities)

    def _operators(self, root: Marked, test: Test) -> None:
        for steps, value in _documents(root.value, ()):
            for name in value:
                if name.startswith("$$"):
                    operator = Operator(name, value[name], tuple(value), root, steps)
                    test.operators.append(operator)
                    if name in _NAMING:
                        # Anything may be compared with, whatever its kind.
                        wanted = None if name == "$$matchesEntity" else _NAMING[name]
                        self._refer(operator.item, wanted, test.entities)


def _appends(name: str, item: Marked, test: Test) -> bool:
    """Return whether a loop appends to an array that is there, as it does with what goes wrong."""
    there = test.entities.get(str(item.value))
    return (
        name in ("storeErrorsAsEntity", "storeFailuresAsEntity")
        and there is not None
        and there.kind in (EntityKind.DOCUMENT, None)
    )


def _items(item: Marked | None) -> Sequence[Marked]:
    return item.items() if item is not None and isinstance(item.value, list) else ()


def _documents(
    value: Any, steps: tuple[str | int, ...]
) -> Iterable[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
    """Yield every document below a value that has special operators, with the path to it."""
    if isinstance(value, dict):
        if any(name.startswith("$$") for name in value):
            yield steps, value
        for name, member in value.items():
            if isinstance(member, (dict, list)):
                yield from _documents(member, (*steps, name))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            if isinstance(member, (dict, list)):
                yield from _documents(member, (*steps, index))
