"""Projections and updates, by the table of the operators."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fakeserver.storage.updates import update_operators
from statements.filters import Filters
from statements.values import SMALL

if TYPE_CHECKING:
    from statements.expressions import Makers


UPDATES = tuple(update_operators.OPERATORS)


class Updates(Filters):
    """Draws projections and updates by operators."""

    def projection(self) -> dict[str, Any]:
        """Return a projection."""

        def what() -> Any:
            return self.one_of(
                lambda: 1,
                lambda: 0,
                lambda: {"$slice": self.one_of(self.small, lambda: [self.small(), self.small()])},
                lambda: {"$elemMatch": self.filter(1)},
                lambda: {"$meta": self.pick(("textScore", "indexKey", "recordId", "x"))},
                self.expression,
            )

        names = [self.pick((self.path(), f"{self.path()}.$")) for _ in range(self.rng.randint(0, 3))]
        return {name: self.or_wrong(what) for name in names}

    def operators(self) -> dict[str, Any]:
        """Return an update by operators."""
        names = [self.say("update", self.pick(UPDATES)) for _ in range(self.rng.randint(1, 2))]
        return {name: self.or_wrong(partial(self._fields, name)) for name in names}

    def _fields(self, name: str) -> Any:
        def path() -> str:
            if name == "$bit" and self.chance(0.4):
                return "n"
            if self.chance(0.7):
                return self.path()
            return str(self.pick(("a.$", "a.$[]", "a.$[e]", "a.$[].b", "a..b", "", "$x", "x")))

        return {path(): self.or_wrong(lambda: self._changed(name)) for _ in range(self.rng.randint(1, 2))}

    def _changed(self, name: str) -> Any:
        def each() -> Any:
            return {"$each": self.or_wrong(lambda: self.several(self.value))}

        def pushed() -> Any:
            more: Makers = {
                "$slice": self.small,
                "$position": self.small,
                "$sort": lambda: self.one_of(lambda: self.pick((1, -1)), self.sort),
            }
            return each() | {key: self.or_wrong(make) for key, make in more.items() if self.chance(0.4)}

        made: Makers = {
            "$inc": self.number,
            "$mul": self.number,
            "$pop": lambda: self.pick((1, -1)),
            "$push": lambda: self.one_of(self.value, pushed),
            "$addToSet": lambda: self.one_of(self.value, each),
            "$pull": lambda: self.one_of(self.value, self.condition, lambda: self.filter(1)),
            "$pullAll": lambda: self.several(self.value),
            "$bit": lambda: {
                self.pick(("and", "or", "xor")): self.one_of(self.number, lambda: self.pick(SMALL))
            },
            "$currentDate": lambda: self.one_of(
                lambda: True, lambda: {"$type": self.pick(("date", "timestamp"))}
            ),
            "$rename": self.path,
            "$unset": lambda: "",
        }
        return made.get(name, self.value)()
