"""Privileges of the commands that explain, list, watch and kill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeserver.access.ask import is_set
from fakeserver.access.privileges import CLUSTER, Resource
from fakeserver.idl.fields import check_inner_db, whole
from fakeserver.storage.port.engine import Namespace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.access.ask import Ask, Rule

_SETTINGS: Final = Resource("config", "settings")


def explaining(rules: Mapping[str, Rule]) -> Rule:
    """Return the rule of a command that explains others: it needs what to run them would.

    It raises `CommandError` 73 for a command of another database.
    """

    def rule(ask: Ask) -> bool:
        inner = ask.target
        check_inner_db(inner, ask.db)
        spec = ask.node.commands.get(next(iter(inner), ""))
        if spec is None:
            return True  # the answer is that there is no such command
        if spec.fields is not None:
            spec.fields.check_command(inner)
        rule_of_inner = rules.get(spec.name)
        return rule_of_inner is not None and rule_of_inner(ask.of(inner))

    return rule


def may_read(ask: Ask) -> bool:
    """Permit a find; a `term` is for the members of a set among themselves."""
    return _without_term(ask) and ask.may(ask.collection, "find")


def may_get_more(ask: Ask) -> bool:
    """Permit it to all: whose the cursor is, is seen when it is found."""
    return _without_term(ask)


def _without_term(ask: Ask) -> bool:
    return "term" not in ask.command or ask.may(CLUSTER, "internal")


def may_list_collections(ask: Ask) -> bool:
    """Permit the names of what a client may use to all who may do anything in the database."""
    names = is_set(ask.command, "nameOnly") and is_set(ask.command, "authorizedCollections")
    database = Resource(ask.db)
    return (names and ask.privileges.reach(database)) or ask.may(database, "listCollections")


def may_measure(ask: Ask) -> bool:
    """Permit to read the collection, which is named with its database."""
    target = ask.target
    ns = Namespace.parse(target) if type(target) is str else Namespace(ask.db, "")
    return ask.may(Resource(*ns), "find")


def may_profile(ask: Ask) -> bool:
    """Permit to set what is recorded; the present setting shows itself to those who may read the records."""
    asks = ask.target == -1 and not {"slowms", "sampleRate", "filter"} & ask.command.keys()
    if asks and ask.may(Resource(ask.db, "system.profile"), "find"):
        return True
    return ask.may(Resource(ask.db), "enableProfiler")


def may_see_operations(ask: Ask) -> bool:
    """Permit clients to see their own operations on this very server, others by privilege."""
    own = is_set(ask.command, "$ownOps") and not ask.node.is_mongos
    return own or ask.may(CLUSTER, "inprog")


def may_kill_operation(ask: Ask) -> bool:
    """Permit clients to kill their own operations, others by privilege."""
    if ask.may(CLUSTER, "killop"):
        return True
    number, mine = ask.command["op"], ask.identity.names
    return not isinstance(number, str) and any(
        request.execution.operation_id == whole(number) and mine & request.connection.identity.names
        for _, request in ask.node.waiting()
    )


def on_settings(action: str) -> Rule:
    """Return the rule of a command that reads or writes the settings of a sharded cluster."""
    return lambda ask: ask.may(_SETTINGS, action)


def may_shard_database(ask: Ask) -> bool:
    """Permit to shard the collections of the database that the command names."""
    target = ask.target
    return ask.may(Resource(target if type(target) is str else ""), "enableSharding")


def may_shard_collection(ask: Ask) -> bool:
    """Permit to shard the collection, which is named with its database."""
    target = ask.target
    ns = Namespace.parse(target) if type(target) is str else Namespace("", "")
    return ask.may(Resource(*ns), "enableSharding")


def may_check_metadata(ask: Ask) -> bool:
    """Permit it by the cluster, or by what is checked: the database or the collection."""
    action = "checkMetadataConsistency"
    return ask.may(CLUSTER, action) or ask.may(ask.collection, action)


def may_control(ask: Ask) -> bool:
    """Permit the verbs of the control."""
    return ask.may_control
