"""mongosh against served deployments: what one types first."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from served import DEPLOYMENTS, served, told

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS = os.environ.get("PUSHBACKD_NODE_MODULES", "").split(os.pathsep)
MONGOSH = shutil.which("mongosh") or shutil.which(
    "mongosh", path=os.pathsep.join(f"{folder}/.bin" for folder in FOLDERS if folder)
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        MONGOSH is None,
        reason="no mongosh on the path, or in a folder of PUSHBACKD_NODE_MODULES (npm install mongosh)",
    ),
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder for what mongosh remembers, with its telemetry off."""
    settings = tmp_path / ".mongodb" / "mongosh" / "config"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"enableTelemetry": False}))
    return tmp_path


def evaluated(uri: str, home: Path, expression: str) -> Any:
    """Return what mongosh makes of an expression."""
    assert MONGOSH is not None
    (line,) = told(
        [MONGOSH, "--quiet", uri, "--eval", f"print(JSON.stringify({expression}))"], {"HOME": str(home)}
    )
    return line


@pytest.mark.parametrize("topology", DEPLOYMENTS)
def test_documents_go_in_and_come_out(home: Path, topology: str) -> None:
    work = "(db.things.insertOne({_id: 1}), {found: db.things.find().toArray(), ok: db.hello().ok})"
    with served(*DEPLOYMENTS[topology]) as uri:
        assert evaluated(uri, home, work) == {"found": [{"_id": 1}], "ok": 1}


def test_a_replica_set_shows_its_members(home: Path) -> None:
    with served(*DEPLOYMENTS["replica_set"]) as uri:
        states = evaluated(uri, home, "rs.status().members.map(member => member.stateStr)")
        assert states == ["PRIMARY", "SECONDARY", "SECONDARY"]


def test_a_sharded_cluster_shows_its_shards(home: Path) -> None:
    shard = 'sh.shardCollection("shop.orders", {_id: 1})'
    with served(*DEPLOYMENTS["sharded"]) as uri:
        status = evaluated(uri, home, f"({shard}, sh.status().value)")
        assert [each["_id"] for each in status["shards"]] == ["shard01"]
        assert status["active mongoses"] == [{"8.2.3": 1}]
        assert "shop.orders" in status["databases"][1]["collections"]
