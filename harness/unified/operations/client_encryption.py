"""Operations on a ClientEncryption: data keys, and values that are encrypted by hand.

Unified Test Format: ClientEncryption Operations.
"""

from __future__ import annotations

from harness.adapters.base import EntityKind, Feature
from harness.unified.operations.spec import ResultComparison, family

_ENCRYPTION = frozenset({Feature.ENCRYPTION})

TABLE = (
    *family(
        EntityKind.CLIENT_ENCRYPTION,
        {
            "createDataKey": ("kmsProvider", "opts"),
            "rewrapManyDataKey": ("filter", "opts"),
            "deleteKey": ("id", ""),
            "getKey": ("id", ""),
            "addKeyAltName": ("id keyAltName", ""),
            "removeKeyAltName": ("id keyAltName", ""),
            "getKeyByAltName": ("keyAltName", ""),
            "encrypt": ("value", "opts"),
            "decrypt": ("value", ""),
        },
        requires=_ENCRYPTION,
    ),
    *family(
        EntityKind.CLIENT_ENCRYPTION,
        {"getKeys": ("", "")},
        requires=_ENCRYPTION,
        result=ResultComparison.EACH,
    ),
)
