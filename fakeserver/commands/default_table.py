"""The table of all commands, merged from the tables of the families."""

from __future__ import annotations

from functools import cache

from fakeserver.commands import cursors
from fakeserver.commands.access import authentication, handshake, role_grants, roles, users
from fakeserver.commands.administration import (
    api_version,
    control,
    diagnostics,
    failpoint,
    maintenance,
    operations,
    parameters,
    shutdown,
)
from fakeserver.commands.catalog import (
    coll_mod,
    collections,
    databases,
    encrypted_fields,
    indexes,
    statistics,
)
from fakeserver.commands.cluster import (
    default_concerns,
    oplog_entries,
    reconfiguration,
    replication,
    sessions,
    sharding,
    transactions,
)
from fakeserver.commands.queries import aggregate, count, distinct, explain, find, map_reduce, plan_cache
from fakeserver.commands.writes import bulk_write, delete, find_and_modify, insert, update
from fakeserver.idl.command_table import CommandTable


@cache
def default_table() -> CommandTable:
    """Return the table of all families. Raises `ValueError` for a name that two of them hold."""
    return CommandTable.merge(
        handshake.table,
        authentication.table,
        users.table,
        roles.table,
        role_grants.table,
        api_version.table,
        diagnostics.table,
        parameters.table,
        failpoint.table,
        control.table,
        sessions.table,
        transactions.table,
        replication.table,
        reconfiguration.table,
        oplog_entries.table,
        shutdown.table,
        sharding.table,
        insert.table,
        update.table,
        delete.table,
        find.table,
        find_and_modify.table,
        aggregate.table,
        count.table,
        distinct.table,
        bulk_write.table,
        cursors.table,
        collections.table,
        encrypted_fields.table,
        indexes.table,
        databases.table,
        default_concerns.table,
        explain.table,
        coll_mod.table,
        statistics.table,
        operations.table,
        maintenance.table,
        map_reduce.table,
        plan_cache.table,
    )


@cache
def commands_of(wire_version: int, *, is_mongos: bool) -> CommandTable:
    """Return the commands of a server of this release and kind.

    Made once for all servers alike: fitting every command to a release takes longer than all else of a start.
    """
    known = default_table().known_to(wire_version)
    return known.on_mongos() if is_mongos else known.on_mongod()
