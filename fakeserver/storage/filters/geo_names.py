"""Names of the geographic operators, for those who only recognise them."""

from __future__ import annotations

from typing import Final

NEAR: Final = frozenset({"$near", "$nearSphere", "$geoNear"})
DISTANCES: Final = frozenset({"$maxDistance", "$minDistance"})
WITHIN: Final = frozenset({"$geoWithin", "$within"})
OPERATORS: Final = NEAR | WITHIN | {"$geoIntersects"}
