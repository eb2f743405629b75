"""Every command by every role on every database: who may run what, on a mongod and on a mongos.

The commands are the server's own table; what each of them needs, and what each role permits, is said twice:
by the server, and apart from it in `needed_privileges` and `manual_roles`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from access import ADMIN, log_in_as
from manual_roles import ADMIN_ROLES, DATABASE_ROLES, permits
from needed_privileges import NEEDED, OPEN, Shape, about
from talking import Deployment, Talker, play

from fakeserver import ClusterSpec, UserSpec
from fakeserver.access.roles import built_in_roles
from fakeserver.commands.default_table import default_table
from fakeserver.request.stage import Action, Respond, Stage, Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeserver.deployment.node import Node
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.context import RequestContext

DATABASES = {
    "mongod": ("db", "other", "admin", "config", "local"),
    "mongos": ("db", "other", "admin", "config"),
}
"""The databases by kind of server; a mongos has no `local`, whoever asks."""
KINDS = tuple(DATABASES)
ROLES = ("nobody", *DATABASE_ROLES, *ADMIN_ROLES, "__system")


class Permitted(Stage):
    """Answers what was permitted, so that it is not run."""

    step = Step.AUTHORIZATION

    def enter(self, request: RequestContext, now: float) -> Action:
        request.response.body = {"permitted": request.spec.name}
        return Respond.RESPOND


@contextmanager
def nothing_runs(node: Node) -> Iterator[None]:
    with node.pipeline.installed(Permitted()):
        yield


def spec_of(kind: str, role: str) -> ClusterSpec:
    """Return a deployment with a user `x@db` of one role: of `db`, or of `admin` where only that has it."""
    roles = () if role == "nobody" else ({"role": role, "db": home_of(role)},)
    users = (ADMIN, UserSpec("x", "x", db="db", roles=roles))
    if kind == "mongos":
        return ClusterSpec.sharded(mongos=1, auth=True, users=users)
    return ClusterSpec.replica_set(1, auth=True, users=users)


def home_of(role: str) -> str:
    return "db" if role in DATABASE_ROLES else "admin"


def is_due(needs: str, role: str, db: str) -> bool:
    """Say whether a role permits what is needed for a command about a database."""
    return any(
        all(_holds(need, role, db) for need in alternative.split()) for alternative in needs.split(" | ")
    )


def _holds(need: str, role: str, db: str) -> bool:
    action, _, place = need.removeprefix("!").partition("@")
    if place == ".":
        place = db
    elif place.startswith("system.") or place in {"c", "d", "e"}:
        place = f"{db}.{place}"
    return permits(role, home_of(role), place, action) is not need.startswith("!")


def forms(spec: CommandSpec, kind: str, db: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Iterate over the forms of a command about a database, under all its names, with what they need."""
    for shape in NEEDED[spec.name]:
        needs = shape.needs if kind == "mongod" or shape.on_mongos is None else shape.on_mongos
        for name in spec.names:
            command = about(shape.command, db)
            target = command.pop(spec.name)
            yield (
                {name: target, **command, "$db": "admin" if spec.admin_only else db},
                _special(shape, db, needs),
            )


def _special(shape: Shape, db: str, needs: str) -> str:
    """Return what is needed where a database is special: a change stream on `admin` is of the cluster."""
    if db == "admin" and "changeStream@." in needs:
        return needs.replace("@.", "@*")
    return needs


def commands_of(node: Node) -> list[CommandSpec]:
    return [spec for spec in default_table() if node.commands.get(spec.name) is not None]


def test_every_command_has_a_row_and_every_row_a_command() -> None:
    assert set(NEEDED) == {spec.name for spec in default_table()}
    assert {spec.name for spec in default_table() if not spec.requires_auth} == OPEN
    assert all(next(iter(shape.command)) == name for name, shapes in NEEDED.items() for shape in shapes)


def test_every_role_has_a_row() -> None:
    assert {role.name for role in built_in_roles("db")} == set(DATABASE_ROLES)
    assert {role.name for role in built_in_roles("admin")} == {*DATABASE_ROLES, *ADMIN_ROLES, "__system"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("role", ROLES)
def test_a_role_permits_of_every_command_what_the_manual_says(role: str, kind: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        node, talker = deployment.cluster.nodes[0], await deployment.connect()
        assert node.is_mongos is (kind == "mongos")
        await log_in_as(talker, "x", "x", "db")
        with nothing_runs(node):
            wrong = [
                (command, needs, reply)
                for spec in commands_of(node)
                for db in DATABASES[kind]
                for command, needs in forms(spec, kind, db)
                if not _is_as_due(reply := await _answer(talker, command), due=is_due(needs, role, db))
            ]
        assert wrong == []

    play(scenario, spec_of(kind, role))


async def _answer(talker: Talker, command: dict[str, Any]) -> dict[str, Any]:
    reply = await talker.command(command)
    assert reply is not None
    return reply


def _is_as_due(reply: dict[str, Any], *, due: bool) -> bool:
    if due:
        return "permitted" in reply
    return reply.get("code") == 13 and " to execute command { " in reply["errmsg"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stranger_runs_what_needs_no_authentication(kind: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        node, talker = deployment.cluster.nodes[0], await deployment.connect()
        with nothing_runs(node):
            for spec in commands_of(node):
                for command, _needs in forms(spec, kind, "db"):
                    reply = await _answer(talker, command)
                    if spec.name in OPEN:
                        assert "permitted" in reply
                    else:
                        assert reply["errmsg"] == f"Command {spec.name} requires authentication"

    play(scenario, spec_of(kind, "nobody"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_command_of_admin_runs_nowhere_else(kind: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        node, talker = deployment.cluster.nodes[0], await deployment.connect()
        await log_in_as(talker, "x", "x", "db")
        with nothing_runs(node):
            for spec in commands_of(node):
                for command, _needs in forms(spec, kind, "db") if spec.admin_only else ():
                    reply = await _answer(talker, {**command, "$db": "db"})
                    assert reply["code"] == 13
                    assert reply["errmsg"] == f"{spec.name} may only be run against the admin database."

    play(scenario, spec_of(kind, "__system"))
