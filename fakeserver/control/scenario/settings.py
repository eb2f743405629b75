"""The fields of a scenario file: their names, kinds, defaults and lines of help.

The builder reads a file by these lists, and the schema for editors is written from them.
"""

from __future__ import annotations

from typing import Final

from fakeserver.deployment.spec import STORAGES, TlsMode, Topology
from fakeserver.profile import DEFAULT_PROFILE, PROFILES
from mongowire.documents.arguments import Argument, Kind

VERSION: Final = "1.0"
"""The version of the form, which a file names in its field `pushbackd`."""

FIELDS: Final = {
    "pushbackd": f'the version of the form: "{VERSION}"',
    "description": "what the scenario shows, in one sentence",
    "seed": "seed of every random choice of the servers",
    "deployment": "the servers",
    "users": "users that exist from the start",
    "data": "documents that are there from the start, by namespace",
    "parameters": "server parameters, as at the start of every server",
    "rules": "what happens to requests; in force from the start",
    "faults": "what happens to bytes of connections; in force from the start",
    "timeline": "verbs, and when they are performed",
}

DEPLOYMENT: Final = (
    Argument("topology", Kind.TEXT, "kind of deployment", "replicaset", known=tuple(map(str, Topology))),
    Argument("mongos", Kind.COUNT, "number of mongos of a sharded cluster", 2),
    Argument("shards", Kind.COUNT, "number of shards of a sharded cluster", 1),
    Argument("setName", Kind.TEXT, "name of the replica set", "rs0"),
    Argument("profile", Kind.TEXT, "MongoDB release to imitate", DEFAULT_PROFILE, known=tuple(PROFILES)),
    Argument("electionDelay", Kind.DURATION, "time without a primary after a step-down or an outage", "10ms"),
    Argument(
        "electionTimeout", Kind.DURATION, "time for which a primary without a majority goes on as one", None
    ),
    Argument("auth", Kind.FLAG, "access control", False),  # noqa: FBT003 - a default
    Argument("javascript", Kind.FLAG, "server-side JavaScript", True),  # noqa: FBT003 - a default
    Argument("compressors", Kind.NAMES, "compressors to offer", None),
    Argument("journalRecords", Kind.COUNT, "records that the journal keeps", None),
    Argument("journalBytes", Kind.COUNT, "bytes of requests and replies that it keeps beside them", None),
    Argument("storage", Kind.TEXT, "storage engine", STORAGES[0], known=STORAGES),
)

MEMBERS: Final = "members"
"""The field of a deployment that is a number, or a list of the members."""

MEMBERS_HELP: Final = "number of members of each replica set, or a mapping for each"

MEMBER: Final = (
    Argument("arbiter", Kind.FLAG, "it has a vote and no data", False),  # noqa: FBT003 - a default
    Argument("hidden", Kind.FLAG, "hello does not list it", False),  # noqa: FBT003 - a default
    Argument("priority", Kind.NUMBER, "its priority in elections", None),
    Argument("votes", Kind.COUNT, "1, or 0 for a member without a vote", 1),
    Argument("tags", Kind.DOCUMENT, "tags for read preferences", {}),
    Argument("delay", Kind.COUNT, "seconds that it stays behind on purpose", 0),
)

TLS: Final = "tls"
TLS_HELP: Final = "TLS of every server; throw-away certificates are made where no file is named"

TLS_FIELDS: Final = (
    Argument(
        "mode",
        Kind.TEXT,
        "whether clients may or must use TLS",
        str(TlsMode.REQUIRE),
        known=tuple(map(str, TlsMode)),
    ),
    Argument("certificateKeyFile", Kind.TEXT, "file with key and certificate of the servers", None),
    Argument("caFile", Kind.TEXT, "file with the authority of the certificates", None),
)

USER: Final = (
    Argument("name", Kind.TEXT, "its name"),
    Argument("password", Kind.TEXT, "its password", None),
    Argument("db", Kind.TEXT, "the database that it belongs to", "admin"),
    Argument("roles", Kind.NAMES, "its roles", "root"),
)

WHEN: Final = {
    "at": "time from the start of the scenario: 5s",
    "after": "number of requests since the start: 100 requests, or 3 insert requests",
    "when": "condition, at the first moment at which it is true: connections > 50",
}
"""The fields that begin a step; a step has one of them at most."""

ENTRY: Final = {
    **WHEN,
    "every": "period of repetition, a time or a number of requests: 2s",
    "for": "time, or number of requests, after which the verb is undone: 10s",
    "until": "end of the repetition, or of the effect: 30s, 500 requests, connections < 10",
    "times": "number of performances, with every",
    "jitter": "longest random delay of each performance",
}
"""The fields of a step besides its verb."""
