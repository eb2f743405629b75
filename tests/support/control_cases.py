"""What each verb of the control does, and which arguments it refuses: the table that every door is tested by.

A new family adds its cases to `CASES`; what is wrong by its kind (`WRONG_OF_KIND`) is tested without a row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from mongowire.documents.arguments import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Document = dict[str, Any]
Earlier = tuple[str, dict[str, Any]]

NS: Final = "shop.orders"
ORDERS: Final = [{"_id": 1}, {"_id": 2}]


@dataclass(frozen=True)
class Case:
    """A verb on a replica set of three, after some others; `seen` looks at the document of `state`."""

    verb: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    after: tuple[Earlier, ...] = ()
    result: Mapping[str, Any] = field(default_factory=dict)
    """A part of the verb's document."""
    seen: Callable[[Document], Any] = bool
    documents: int | None = None
    """The documents in `shop.orders` afterwards."""
    ends_connections: bool = False


@dataclass(frozen=True)
class Wrong:
    """A verb that is refused, and the words that say so."""

    verb: str
    arguments: Mapping[str, Any]
    complaint: str
    after: tuple[Earlier, ...] = ()


def process(name: str, state: str) -> Callable[[Document], Any]:
    return lambda servers: servers[name]["process"] == state


def role(name: str, wanted: str) -> Callable[[Document], Any]:
    return lambda servers: servers[name]["role"] == wanted


RULE: Final = {"name": "slow finds", "when": {"command": "find"}, "then": [{"delay": "1ms"}]}
RULE_LISTED: Final = {"id": "slow finds", "rule": RULE, "hits": 0, "over": False}
FAULT: Final = {"name": "cut", "at": "reply", "appName": "nobody", "do": {"cut": 1}}
FIND_FAILS: Final = {"failCommands": ["find"], "errorCode": 91}

PAUSED: Final = ("pause", {"node": "node1"})

CASES: Final = (
    Case("kill", {"node": "node1"}, result={"node": "node1"}, seen=process("node1", "stopped")),
    Case("start", {"node": "node1"}, (("kill", {"node": "node1"}),), seen=process("node1", "running")),
    Case("restart", {"node": "node1", "down": "1ms"}, seen=process("node1", "running")),
    Case("pause", {"node": "node1"}, seen=process("node1", "paused")),
    Case("resume", {"node": "node1"}, (("pause", {"node": "node1"}),), seen=process("node1", "running")),
    Case("slow", {"node": "node1", "seconds": "1ms", "jitter": "1ms"}, seen=lambda s: s["node1"]["slow"]),
    Case("lag", {"node": "node1", "seconds": "5s"}, seen=lambda s: s["node1"]["lag"] == 5),
    Case("freeze", {"node": "node1", "seconds": "5s"}, seen=lambda s: s["node1"]["frozen"] > 4),
    Case("stepDown", {"seconds": "5s"}, result={"node": "node0"}, seen=role("node0", "SECONDARY")),
    Case("elect", {"node": "node2"}, seen=role("node2", "PRIMARY")),
    Case("rollBack", {"seconds": "1m"}, result={"node": "node0"}, seen=lambda s: s["node0"]["island"]),
    Case("addMember", {"priority": 0}, result={"node": "node3"}, seen=role("node3", "SECONDARY")),
    Case("removeMember", {"node": "node2"}, seen=role("node2", "REMOVED")),
    Case("partition", {"groups": [["node2"]], "reset": True}, seen=lambda s: s["node2"]["island"]),
    Case("heal", {}, (("partition", {"groups": [["node2"]]}),), seen=lambda s: s["node2"]["island"] == 0),
    Case("state", seen=lambda s: len(s) == 3),
    Case("limits", {"requests": "1000/s"}, seen=lambda s: s["node0"]["limits"] == {"requests": 1000}),
    Case("tickets", {"read": 4, "nodes": "node0"}, result={"nodes": ["node0"]}),
    Case("serviceTime", {"seconds": "1ms"}, result={"nodes": ["node0", "node1", "node2"]}),
    Case("shed", {"share": "2%", "seed": 7}, result={"share": 0.02}),
    Case(
        "setFailPoint",
        {"name": "failCommand", "mode": {"times": 2}, "data": FIND_FAILS},
        seen=lambda s: s["node2"]["failPoints"] == ["failCommand"],
    ),
    Case("listFailPoints", {"nodes": ["node0"]}),
    Case(
        "failPointsOff",
        {},
        (("setFailPoint", {"name": "failCommand", "data": FIND_FAILS}),),
        result={"off": 3},
        seen=lambda s: s["node0"]["failPoints"] == [],
    ),
    Case("addRule", {"rule": RULE}, result={"id": "slow finds"}),
    Case("listRules", {}, (("addRule", {"rule": RULE}),), result={"rules": [RULE_LISTED]}),
    Case("removeRule", {"id": "slow finds"}, (("addRule", {"rule": RULE}),), result={"removed": 1}),
    Case("removeRule", {"id": "all"}, (("addRule", {"rule": {"expect": 1}}),), result={"removed": 1}),
    Case("addFault", {"fault": FAULT}, result={"id": "cut"}),
    Case("listFaults", {}, (("addFault", {"fault": FAULT}),)),
    Case("removeFault", {"id": "cut"}, (("addFault", {"fault": FAULT}),), result={"id": "cut"}),
    Case("readJournal", {"kind": "verbPerformed"}, (("heal", {}),), result={"dropped": 0}),
    Case("countJournal", {"kind": "serverChanged"}, (PAUSED,), result={"count": 1}),
    Case("verify", {"command": "insert", "count": 0}, result={"count": 0, "records": []}),
    Case("attempts", {"command": "find"}, result={"operations": []}),
    Case("verdict", result={"steps": {"of": 0, "performed": 0, "failed": [], "waiting": []}}),
    Case("clearJournal", {}, (PAUSED,)),
    Case("seed", {"namespace": NS, "documents": ORDERS}, result={"inserted": 2}, documents=2),
    Case("drop", {"namespace": NS}, (("seed", {"namespace": NS, "documents": ORDERS}),), documents=0),
    Case(
        "rename",
        {"namespace": NS, "to": "shop.old"},
        (("seed", {"namespace": NS, "documents": ORDERS}),),
        result={"namespace": "shop.old"},
        documents=0,
    ),
    Case("snapshot", {"name": "empty"}, result={"name": "empty"}),
    Case(
        "restore",
        {"name": "empty"},
        (("snapshot", {"name": "empty"}), ("seed", {"namespace": NS, "documents": ORDERS})),
        documents=0,
    ),
    Case(
        "reset",
        {},
        (("pause", {"node": "node1"}), ("seed", {"namespace": NS, "documents": ORDERS})),
        seen=process("node1", "running"),
        documents=0,
    ),
    Case("reset", {"connections": "close"}, ends_connections=True),
)

WRONGS: Final = (
    Wrong("stpeDown", {}, "unknown verb 'stpeDown'; did you mean 'stepDown'?"),
    Wrong("stepDown", {"secs": 1}, "unknown argument 'secs'; did you mean 'seconds'?"),
    Wrong("heal", {"now": True}, "now: heal takes no argument"),
    Wrong("resume", {}, "resume needs node: the server, by its name, address or role"),
    Wrong("kill", {"node": "nodeX"}, "there is no 'nodeX' now; there are node0, node1, node2"),
    Wrong("kill", {"node": "node1"}, "node1 does not run", after=(("kill", {"node": "node1"}),)),
    Wrong("start", {"node": "node1"}, "node1 runs already"),
    Wrong("pause", {"node": "node1"}, "node1 does not run", after=(("kill", {"node": "node1"}),)),
    Wrong("resume", {"node": "node1"}, "node1 is not paused"),
    Wrong("stepDown", {"node": "node1"}, "node1 is SECONDARY, and only a PRIMARY steps down"),
    Wrong("elect", {"node": "node1"}, "node1 does not reach a majority of its set", after=(PAUSED,)),
    Wrong("rollBack", {"node": "node1"}, "node1 is SECONDARY, and only the PRIMARY of a set can be left"),
    Wrong("addMember", {"votes": 2}, "votes must be 0 or 1, not 2"),
    Wrong(
        "removeMember",
        {"node": "node1"},
        "node1 is no member of a replica set",
        after=(("removeMember", {"node": "node1"}),),
    ),
    Wrong("partition", {"groups": [["node0"], ["node0"]]}, "node0 is in two groups"),
    Wrong("limits", {}, "limits takes either requests, connections or both, or off"),
    Wrong("limits", {"requests": 0}, "requests: 0/s is no whole number of at least 1 a second"),
    Wrong(
        "limits",
        {"requests": "1/s", "requestsBurst": "10ms"},
        "requestsBurst: with a burst of 0.01 s there is",
    ),
    Wrong("tickets", {"read": 4, "off": True}, "tickets takes either read, write or both, or off"),
    Wrong("serviceTime", {"seconds": 1, "factor": 0}, "Invalid value for parameter serviceTimeFactor"),
    Wrong("shed", {"share": 0.5, "codes": []}, "codes: there is no code"),
    Wrong(
        "setFailPoint", {"name": "failComand"}, "unknown fail point 'failComand'; did you mean 'failCommand'?"
    ),
    Wrong(
        "setFailPoint",
        {"name": "failCommand", "data": {"failCommands": ["fnid"], "errorCode": 91}},
        "data.failCommands[0]: unknown command 'fnid'; did you mean 'find'?",
    ),
    Wrong(
        "setFailPoint",
        {"name": "failCommand", "data": {"failCommands": ["find"], "errorcode": 91}},
        "data: unknown field 'errorcode'; did you mean 'errorCode'?",
    ),
    Wrong(
        "setFailPoint",
        {"name": "failCommand", "data": {"failCommands": ["find"]}},
        "data: it does nothing; write one of errorCode, closeConnection",
    ),
    Wrong(
        "setFailPoint",
        {"name": "failCommand", "mode": {"time": 1}},
        "mode: unknown mode 'time'; did you mean",
    ),
    Wrong("addRule", {"rule": {"when": {"comand": "find"}}}, "did you mean 'command'?"),
    Wrong("addRule", {"rule": RULE}, "rule.name: there is a rule", (("addRule", {"rule": RULE}),)),
    Wrong("removeRule", {"id": "slow find"}, "id: unknown rule", (("addRule", {"rule": RULE}),)),
    Wrong("removeRule", {"id": "rule7"}, "there is no rule 'rule7'; there are none"),
    Wrong("addFault", {"fault": {"at": "replay", "do": {"cut": 1}}}, "did you mean 'reply'?"),
    Wrong("removeFault", {"id": "fault7"}, "there is no fault 'fault7', and no other"),
    Wrong(
        "readJournal",
        {"kind": "ruleHits"},
        "kind: unknown kind of record 'ruleHits'; did you mean 'ruleHit'?",
    ),
    Wrong("verify", {"command": "fidn"}, "command: unknown command 'fidn'; did you mean 'find'?"),
    Wrong("verify", {"count": 1, "atMost": 2}, "count: give count, or atLeast and atMost"),
    Wrong("verify", {"atLeast": 2, "atMost": 1}, "atLeast: atLeast is 2, and atMost only 1"),
    Wrong("verify", {"command": "insert"}, "1 or more insert requests expected, 0 came; nothing came near"),
    Wrong("verify", {"document": {"$no": 1}}, "document: unknown top level operator: $no"),
    Wrong(
        "countJournal",
        {"outcome": "Interuppted"},
        "unknown outcome 'Interuppted'; did you mean 'Interrupted'?",
    ),
    Wrong("seed", {"namespace": "orders", "documents": []}, "namespace: 'orders' is no namespace"),
    Wrong(
        "seed", {"namespace": NS, "documents": [{"_id": 1}, {"_id": 1}]}, "documents: E11000 duplicate key"
    ),
    Wrong("drop", {"namespace": "shop.ordres"}, "namespace: unknown namespace 'shop.ordres'"),
    Wrong("rename", {"namespace": "shop.ordres", "to": "shop.old"}, "namespace: unknown namespace"),
    Wrong("restore", {"name": "full"}, "name: unknown snapshot 'full'"),
    Wrong("certificate", {"which": "expird"}, "which: unknown value 'expird'; did you mean 'expired'?"),
    Wrong("certificate", {"which": "expired"}, "this deployment has no TLS"),
    Wrong("reset", {"connections": "kep"}, "connections: unknown value 'kep'; did you mean 'keep'?"),
)

FOR_OTHERS: Final = {
    "stepDown": "stepDown is for replica sets and sharded clusters; this is a deployment of topology single",
    "lag": "lag is for replica sets and sharded clusters; this is a deployment of topology single",
    "addMember": "addMember is for replica sets; this is a deployment of topology single",
}
"""The complaints about verbs that a standalone refuses."""

WRONG_OF_KIND: Final = {
    Kind.SERVER: "",
    Kind.SERVERS: "node0,",
    Kind.GROUPS: "[7]",
    Kind.DURATION: "soon",
    Kind.SECONDS: "soon",
    Kind.RATE: "often",
    Kind.COUNT: "-1",
    Kind.NUMBER: "many",
    Kind.SHARE: "200%",
    Kind.SIZE: "10 miles",
    Kind.FLAG: "perhaps",
    Kind.TEXT: "",
    Kind.NAMES: "a,,b",
    Kind.CODES: "NoSuchCode",
    Kind.OUTCOME: "fine",
    Kind.MODE: "sometimes",
    Kind.DOCUMENT: "{",
    Kind.DOCUMENTS: "[{]",
}
"""A value of each kind that cannot be read, as a text: that is how a command line hands it over."""

RIGHT_OF_KIND: Final = {
    Kind.SERVER: "node0",
    Kind.SERVERS: "all",
    Kind.GROUPS: "node0",
    Kind.DURATION: "1s",
    Kind.SECONDS: "1s",
    Kind.RATE: "100/s",
    Kind.COUNT: "1",
    Kind.NUMBER: "1",
    Kind.SHARE: "1%",
    Kind.SIZE: "1KB",
    Kind.FLAG: "true",
    Kind.TEXT: "a",
    Kind.NAMES: "a",
    Kind.CODES: "91",
    Kind.OUTCOME: "ok",
    Kind.MODE: "off",
    Kind.DOCUMENT: "{}",
    Kind.DOCUMENTS: "[]",
}
"""A value of each kind that can be read."""
