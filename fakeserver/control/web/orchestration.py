"""The routes of mongo-orchestration, for the deployment that runs, with or without the prefix `/v1`.

They are a layer over the verbs: `{"action": "stop"}` for a server is the verb `kill`. The id of a server is
its name (`shard01-node0` in a shard), that of a replica set or a shard the set's name, that of a sharded
cluster `sharded`. A deployment cannot be created or deleted here, which answers 501: `pushbackd start` does
that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from starlette.routing import Route

from fakeserver.control.web.door import answer, failure, parsed
from fakeserver.deployment.replication.state import Role
from mongowire.documents.arguments import document, flag
from mongowire.documents.errors import ControlError, unknown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.node import Node
    from fakeserver.deployment.shard import Shard

Document = dict[str, Any]

PREFIXES: Final = ("/v1", "")
SHARDED: Final = "sharded"
"""The id of a sharded cluster."""
_PROCESSES: Final = {"start": "start", "stop": "kill", "restart": "restart"}
_ELECTIONS: Final = {"freeze": "freeze", "stepdown": "stepDown"}
_ACTIONS: Final = (*_PROCESSES, "reset", *_ELECTIONS)
_SECONDS: Final = 60.0
_MEMBER_FIELDS: Final = ("priority", "votes", "hidden", "tags")
_WHY_NOT: Final = "there is one deployment, the one that runs: `pushbackd start` starts others"


class Absent(LookupError):  # noqa: N818 - what the thing is
    """There is no such thing in this deployment."""


class Orchestration:
    """Answers for one deployment."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def routes(self) -> list[Route]:
        """Return the routes, under both prefixes."""
        clusters = [{"id": SHARDED}] if self._cluster.spec.is_sharded else []
        reading: dict[str, Callable[[Mapping[str, str]], Document]] = {
            "/releases": lambda _: {"releases": {self._cluster.spec.profile: self._cluster.profile.version}},
            "/servers": lambda _: {"servers": [{"id": _id(node)} for node in self._cluster.servers]},
            "/servers/{id}": lambda ids: self._server(self._node(ids["id"])),
            "/replica_sets": lambda _: {"replica_sets": [{"id": shard.name} for shard in self._sets()]},
            "/replica_sets/{id}": lambda ids: self._set(self._shard(ids["id"])),
            "/replica_sets/{id}/members/{number}": lambda ids: self._member(self._of(ids)),
            "/replica_sets/{id}/primary": lambda ids: self._member(self._primary(ids["id"])),
            "/replica_sets/{id}/{kind}": lambda ids: self._kind(ids["id"], ids["kind"]),
            "/sharded_clusters": lambda _: {"sharded_clusters": clusters},
            "/sharded_clusters/{id}": lambda ids: self._whole(ids["id"]),
            "/sharded_clusters/{id}/{kind}": lambda ids: {ids["kind"]: self._parts(ids["id"], ids["kind"])},
            "/sharded_clusters/{id}/{kind}/{part}": self._one_part,
        }
        acting: dict[tuple[str, str], Callable[[Request], Awaitable[Document]]] = {
            ("/servers/{id}", "POST"): self._act_on_server,
            ("/replica_sets/{id}", "POST"): self._act_on_set,
            ("/replica_sets/{id}/members", "POST"): self._add_member,
            ("/replica_sets/{id}/members/{number}", "PATCH"): self._change_member,
            ("/replica_sets/{id}/members/{number}", "DELETE"): self._remove_member,
        }
        refused = [
            *((f"/{kind}", ["POST"]) for kind in _COLLECTIONS),
            *((f"/{kind}/{{id}}", ["PUT", "DELETE"]) for kind in _COLLECTIONS),
            *((f"/sharded_clusters/{{id}}/{kind}", ["POST"]) for kind in ("shards", "routers")),
        ]
        found = [
            *(
                Route(prefix + path, _acting(act), methods=[method])
                for prefix in PREFIXES
                for (path, method), act in acting.items()
            ),
            *(
                Route(prefix + path, _refusing, methods=methods)
                for prefix in PREFIXES
                for path, methods in refused
            ),
            *(
                Route(prefix + path, _reading(read), methods=["GET"])
                for prefix in PREFIXES
                for path, read in reading.items()
            ),
        ]
        about = {"service": "mongo-orchestration", "version": "0.0", "by": "pushbackd"}
        return [*found, Route("/v1/", _reading(lambda _: about), methods=["GET"])]

    # What there is.

    def _node(self, which: str) -> Node:
        found = next((node for node in self._cluster.servers if which in {_id(node), node.name}), None)
        if found is None:
            raise Absent(f"there is no server {which!r}")
        return found

    def _sets(self) -> Sequence[Shard]:
        return self._cluster.shards

    def _shard(self, which: str) -> Shard:
        found = next((shard for shard in self._sets() if shard.name == which), None)
        if found is None:
            raise Absent(f"there is no replica set {which!r}")
        return found

    def _of(self, ids: Mapping[str, str]) -> Node:
        nodes = self._shard(ids["id"]).nodes
        found = next((node for node in nodes if str(node.member.id) == ids["number"]), None)
        if found is None:
            raise Absent(f"there is no member {ids['number']} in {ids['id']}")
        return found

    def _primary(self, which: str) -> Node:
        primary = self._shard(which).primary
        if primary is None:
            raise Absent(f"{which} has no primary now")
        return primary

    def _server(self, node: Node) -> Document:
        running = not node.stopped
        return {
            "id": _id(node),
            "mongodb_uri": f"mongodb://{node.address}",
            "orchestration": "servers",
            "procInfo": {"alive": running, "name": "mongos" if node.is_mongos else "mongod"},
            "serverInfo": {"version": node.profile.version} if running else {},
            "statuses": {"mongos": node.is_mongos, "primary": node.is_primary, "locked": False}
            if running
            else {},
        }

    def _set(self, shard: Shard) -> Document:
        members = [_short(node) for node in shard.nodes]
        hosts = ",".join(node.address for node in shard.nodes)
        uri = f"mongodb://{hosts}/?replicaSet={shard.name}"
        return {"id": shard.name, "orchestration": "replica_sets", "mongodb_uri": uri, "members": members}

    def _member(self, node: Node) -> Document:
        spec = node.member.spec
        facts = {
            "primary": node.role is Role.PRIMARY,
            "secondary": node.role is Role.SECONDARY,
            "arbiterOnly": spec.arbiter,
            "hidden": spec.hidden,
            "priority": spec.rank,
            "votes": spec.votes,
            "tags": dict(spec.tags),
        }
        return {**self._server(node), **_short(node), "rsInfo": facts}

    def _kind(self, which: str, kind: str) -> Document:
        nodes = self._shard(which).nodes
        if kind not in _MEMBERS:
            raise unknown("route", kind, (*_MEMBERS, "primary"))
        return {kind: [_short(node) for node in nodes if _MEMBERS[kind](node)]}

    def _parts(self, which: str, kind: str) -> list[Document]:
        if which != SHARDED or not self._cluster.spec.is_sharded:
            raise Absent(f"there is no sharded cluster {which!r}")
        parts: dict[str, list[Document]] = {
            "shards": [{"id": each.name, "_id": each.name, "isReplicaSet": True} for each in self._sets()],
            "routers": [{"id": _id(each), "hostname": each.address} for each in self._cluster.routers],
            "configsvrs": [],
        }
        if kind not in parts:
            raise unknown("route", kind, parts)
        return parts[kind]

    def _whole(self, which: str) -> Document:
        parts = {kind: self._parts(which, kind) for kind in ("shards", "routers", "configsvrs")}
        uri = self._cluster.uri
        return {"id": which, "orchestration": "sharded_clusters", "mongodb_uri": uri, **parts}

    def _one_part(self, ids: Mapping[str, str]) -> Document:
        parts = self._parts(ids["id"], ids["kind"])
        found = next((part for part in parts if part["id"] == ids["part"]), None)
        if found is None:
            raise Absent(f"there is no {ids['part']!r} among the {ids['kind']}")
        return found

    # What can be done.

    async def _perform(self, verb: str, **arguments: Any) -> Document:
        return dict(await self._cluster.control.perform(verb, arguments))

    async def _act_on_server(self, request: Request) -> Document:
        node = self._node(request.path_params["id"])
        body = parsed(await request.body())
        action = body.get("action")
        if action not in _ACTIONS:
            raise unknown("action", action, _ACTIONS, path=("action",))
        if action == "reset":
            await self._revive(node)
        elif action in _PROCESSES:
            await self._perform(_PROCESSES[action], node=node.name)
        else:
            await self._perform(_ELECTIONS[action], node=node.name, seconds=body.get("timeout", _SECONDS))
        return self._server(node)

    async def _act_on_set(self, request: Request) -> Document:
        shard = self._shard(request.path_params["id"])
        action = parsed(await request.body()).get("action")
        if action != "reset":
            raise unknown("action", action, ("reset",), path=("action",))
        for node in shard.nodes:
            await self._revive(node)
        return self._set(shard)

    async def _revive(self, node: Node) -> None:
        if node.stopped:
            await self._perform("start", node=node.name)
        elif node.outages.is_paused:
            await self._perform("resume", node=node.name)

    async def _add_member(self, request: Request) -> Document:
        shard = self._shard(request.path_params["id"])
        settings = document(parsed(await request.body()).get("rsParams", {}))
        wanted = {"arbiter" if name == "arbiterOnly" else name: value for name, value in settings.items()}
        added = await self._perform("addMember", **wanted)
        return next(self._member(node) for node in shard.nodes if node.name == added["node"])

    async def _change_member(self, request: Request) -> Document:
        node = self._of(request.path_params)
        wanted = document(parsed(await request.body()).get("rsParams", {}))
        for name in wanted:
            if name not in _MEMBER_FIELDS:
                raise unknown("field", name, _MEMBER_FIELDS, path=("rsParams",))
        if "hidden" in wanted:
            wanted["hidden"] = flag(wanted["hidden"])
        shard = self._shard(request.path_params["id"])
        try:
            spec = replace(node.member.spec, **wanted)
        except (TypeError, ValueError) as error:
            raise ControlError(str(error), path=("rsParams",)) from None
        shard.reconfigure({each: each.member.spec for each in shard.nodes} | {node: spec})
        return self._member(node)

    async def _remove_member(self, request: Request) -> Document:
        return await self._perform("removeMember", node=self._of(request.path_params).name)


_COLLECTIONS: Final = ("servers", "replica_sets", "sharded_clusters")
_MEMBERS: Final[Mapping[str, Callable[[Node], bool]]] = {
    "members": lambda _: True,
    "servers": lambda node: not node.member.spec.arbiter,
    "secondaries": lambda node: node.role is Role.SECONDARY,
    "arbiters": lambda node: node.member.spec.arbiter,
    "hidden": lambda node: node.member.spec.hidden,
    "passives": lambda node: not node.member.spec.is_electable and not node.member.spec.arbiter,
}
"""The members that a route lists."""


def _id(node: Node) -> str:
    return node.name.replace("/", "-")


def _short(node: Node) -> Document:
    return {"_id": node.member.id, "host": node.address, "server_id": _id(node)}


def _reading(read: Callable[[Mapping[str, str]], Document]) -> Callable[[Request], Awaitable[Response]]:
    async def act(request: Request) -> Document:
        return read(request.path_params)

    return _acting(act)


def _acting(act: Callable[[Request], Awaitable[Document]]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return answer(await act(request))
        except Absent as error:
            return failure(ControlError(str(error)), status=404)
        except ControlError as error:
            return failure(error)

    return endpoint


async def _refusing(_request: Request) -> Response:
    return failure(ControlError(_WHY_NOT), status=501)
