"""A scenario file to `model.Scenario`: every part is checked before anything is built.

The deployment becomes a `ClusterSpec`, the steps of the timeline become entries with verbs and triggers.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import weakref
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fakeserver.access import UserSpec
from fakeserver.commands.default_table import default_table
from fakeserver.control.scenario import triggers
from fakeserver.control.scenario.loader import (
    ProblemReport,
    filled,
    known_keys,
    mapping,
    read,
    sequence,
    shown,
)
from fakeserver.control.scenario.model import RuleOrFault, Scenario, Seed, TimelineEntry
from fakeserver.control.scenario.triggers import UNCOUNTED
from fakeserver.control.verbs.form import snake
from fakeserver.control.verbs.table import VERBS, why_not_undone
from fakeserver.deployment.spec import (
    STORAGES,
    ClusterSpec,
    MemberSpec,
    TlsMode,
    TlsSpec,
    Topology,
    topology_name,
)
from fakeserver.errors import CommandError
from fakeserver.network.certificates import MissingExtraError, make_certificates
from fakeserver.network.faults import parse_fault
from fakeserver.profile import DEFAULT_PROFILE, PROFILES, Profile
from fakeserver.rules.parsing import Known, parse_rule
from fakeserver.settings.server_parameters import ServerParameters
from fakeserver.storage.port.engine import Namespace
from mongowire.documents.arguments import Argument, Kind, count, duration
from mongowire.documents.errors import ControlError, did_you_mean, unknown

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from fakeserver.control.scenario.loader import PlacedValue
    from fakeserver.control.verbs.form import Verb


# Rules and faults, checked as their verbs check them, without a deployment.


ROLES: Final = ("primary", "secondary", "mongos")
"""The words for servers of a role; they mean the role of the moment."""


@dataclass(frozen=True, slots=True)
class ScenarioNames:
    """The names that rules, faults and steps of a file may use: servers, and commands with their aliases."""

    servers: Collection[str]
    commands: Mapping[str, str]

    @classmethod
    def of(cls, servers: Collection[str]) -> ScenarioNames:
        """Return the names of a deployment with these servers."""
        return cls(servers, {name: spec.name for name, spec in default_table().commands.items()})


def check_rule(marked: PlacedValue, names: ScenarioNames, report: ProblemReport) -> None:
    """Report what is wrong with a rule."""
    _check(marked, lambda rule: parse_rule(rule, Known(names.commands, names.servers)), report)


def check_fault(marked: PlacedValue, names: ScenarioNames, report: ProblemReport) -> None:
    """Report what is wrong with a fault of bytes."""
    nodes = (*ROLES, *names.servers)
    _check(
        marked,
        lambda fault: parse_fault(fault, default_id="fault", nodes=nodes, commands=names.commands),
        report,
    )


def _check(marked: PlacedValue, parse: Callable[[Any], object], report: ProblemReport) -> None:
    try:
        parse(marked.value)
    except ControlError as error:
        report.refused(marked, error)


CHECKS: Final[Mapping[tuple[str, str], Callable[[PlacedValue, ScenarioNames, ProblemReport], None]]] = {
    ("addRule", "rule"): check_rule,
    ("addFault", "fault"): check_fault,
}
"""The checks of arguments of verbs, by verb and argument."""


# The steps of the timeline.


_VERIFY: Final = "verify"
_RESET: Final = "reset"


def is_a_step(verb: Verb) -> bool:
    """Return whether a timeline can have a verb: what changes something, and `verify`, which may fail."""
    return not verb.reads or verb.name == _VERIFY


class Reader:
    """Reads the steps of one timeline: it knows the deployment, its servers and commands."""

    def __init__(self, spec: ClusterSpec, names: ScenarioNames, report: ProblemReport) -> None:
        self._spec = spec
        self._names = names
        self._servers = names.servers
        self._commands = frozenset(names.commands) - UNCOUNTED
        self._report = report

    def entry(self, marked: PlacedValue) -> TimelineEntry | None:
        """Return a step, or None for one that is wrong, which is reported."""
        report = self._report
        if not mapping(marked, "a step", report):
            return None
        verb = self._verb(marked)
        if verb is None:
            return None
        before = len(report.problems)
        arguments = self._arguments(marked.members[verb.name], verb)
        facts = self._triggers(marked)
        self._check(marked, verb, facts)
        if len(report.problems) > before:
            return None
        place = marked.keys[next(iter(marked.keys))]
        return TimelineEntry(place=place, verb=verb.name, arguments=arguments, **facts)

    def _verb(self, marked: PlacedValue) -> Verb | None:
        """Return the verb that a step names."""
        by_name = {verb.name: verb for verb in VERBS if is_a_step(verb)}
        named = [name for name in marked.keys if name in by_name]
        before = len(self._report.problems)
        known_keys(marked, "field or verb", [*ENTRY, *by_name], self._report)
        if len(named) > 1:
            message = f"a step has one verb, this one has {' and '.join(named)}; write two steps"
            self._report.add(marked, message, place=marked.keys[named[1]])
            return None
        if not named:
            if len(self._report.problems) == before:
                self._report.add(marked, f"a step names a verb; known are {', '.join(by_name)}")
            return None
        return by_name[named[0]]

    def _arguments(self, marked: PlacedValue, verb: Verb) -> dict[str, Any]:
        if not verb.applies.covers(self._spec):
            message = f"{verb.name} is for {verb.applies.value}; this is of topology {self._spec.topology}"
            self._report.add(marked, message)
            return {}
        if marked.value is None:
            marked = type(marked)({}, marked.place, marked.path)
        if not marked.is_mapping:
            cure = _as_mapping(verb, marked.value)
            self._report.add(marked, f"the arguments are a mapping; write {verb.name}: {cure}")
            return {}
        values = filled(marked, verb.name, verb.arguments, self._report)
        for argument in verb.arguments:
            given = marked.members.get(argument.name)
            if given is not None and argument.name in values:
                self._check_servers(given, argument, values[argument.name])
                check = CHECKS.get((verb.name, argument.name))
                if check is not None and given.is_mapping:
                    check(given, self._names, self._report)
        return dict(marked.value)

    def _check_servers(self, marked: PlacedValue, argument: Argument, value: Any) -> None:
        named: Iterable[str] = ()
        known = [*self._servers, *ROLES]
        if argument.kind is Kind.SERVER:
            named = [value]
        elif argument.kind is Kind.SERVERS:
            named, known = value, [*known, "all"]
        elif argument.kind is Kind.GROUPS:
            named, known = [each for group in value for each in group], [*known, "clients"]
        for name in named:
            if name not in known and ":" not in name:
                self._report.add(marked, unknown("server", name, known).message)

    def _triggers(self, marked: PlacedValue) -> dict[str, Any]:
        commands, servers = self._commands, self._servers
        begins: dict[str, Callable[[Any], Any]] = {
            "at": triggers.instant,
            "after": lambda value: triggers.requests(value, commands),
            "when": lambda value: triggers.condition(value, servers),
        }
        others: dict[str, tuple[str, Callable[[Any], Any]]] = {
            "every": ("every", lambda value: triggers.period(value, commands)),
            "for": ("lasting", lambda value: triggers.period(value, commands)),
            "until": ("until", lambda value: triggers.end(value, commands, servers)),
            "times": ("times", count),
            "jitter": ("jitter", duration),
        }
        facts: dict[str, Any] = {}
        for name, reader in begins.items():
            if name in marked.members:
                if "start" in facts:
                    message = "a step begins with one of at, after and when; write two steps"
                    self._report.add(marked, message, place=marked.keys[name])
                facts["start"] = self._read(marked.members[name], reader)
        for name, (field, reader) in others.items():
            if name in marked.members:
                facts[field] = self._read(marked.members[name], reader)
        return facts

    def _read(self, marked: PlacedValue, reader: Callable[[Any], Any]) -> Any:
        try:
            return reader(marked.value)
        except ControlError as error:
            self._report.refused(marked, error)
            return None

    def _check(self, marked: PlacedValue, verb: Verb, facts: dict[str, Any]) -> None:
        """Report triggers that contradict each other, or the verb."""
        every, lasting, until = (facts.get(name) for name in ("every", "lasting", "until"))
        if verb.name == _RESET and _seconds(facts.get("start", triggers.Instant(0.0))) == 0:
            message = "reset begins the timeline anew, so it cannot stand at its start; write at: 60s"
            self._report.add(marked, message, place=marked.keys[_RESET])
        key = "until" if lasting is None else "for"
        if (lasting is not None or (until is not None and every is None)) and (why := why_not_undone(verb)):
            self._add(marked, key, why)
        if every is None and facts.get("times") is not None:
            self._add(marked, "times", "nothing repeats this step; add every")
        if every is None and lasting is not None and until is not None:
            self._add(marked, "until", "for and until both end the effect; leave one of them out")
        if _seconds(lasting) >= _seconds(every):
            self._add(marked, "for", f"{lasting} is not shorter than the period of every, {every}")
        if _seconds(until) <= _seconds(facts.get("start")):
            message = f"{until} is not later than at, {facts['start']}; both count from the start"
            self._add(marked, "until", message)

    def _add(self, marked: PlacedValue, key: str, message: str) -> None:
        self._report.add(marked, message, place=marked.keys[key])


def _as_mapping(verb: Verb, value: Any) -> str:
    """Return the arguments that were meant by a value alone: of the first argument that it fits."""
    for argument in verb.arguments:
        try:
            argument.parse(value)
        except ControlError:
            continue
        return f"{{{argument.name}: {value}}}"
    return "{}"


def _seconds(trigger: Any) -> float:
    """Return the seconds of a time; of anything else a number that compares as false."""
    return trigger.seconds if isinstance(trigger, triggers.Instant) else math.nan


# The deployment.


_DEFAULT_MEMBERS: Final = 3


def spec_of(root: PlacedValue, report: ProblemReport, *, seed: int) -> ClusterSpec:
    """Return the deployment of a file, as far as it is right; what is wrong is reported."""
    facts: dict[str, Any] = {"seed": seed, "users": _users(root, report)}
    deployment = root.members.get("deployment")
    if deployment is not None and mapping(deployment, "deployment", report):
        facts |= _facts(deployment, report)
        if TLS in deployment.members:
            facts["tls"] = _tls(deployment.members[TLS], report)
    else:
        facts |= {"topology": Topology.REPLICA_SET, "members": _DEFAULT_MEMBERS}
    facts["parameters"] = _parameters(root, report, facts.get("profile"))
    try:
        return ClusterSpec(**facts)
    except ValueError as error:
        where = deployment or root
        field = str(error).split(" ", 1)[0].rstrip(":")
        report.add(where.members.get(field, where), str(error))
        return ClusterSpec.replica_set(_DEFAULT_MEMBERS)


def server_names(spec: ClusterSpec) -> tuple[str, ...]:
    """Return the names of the servers that a deployment starts with."""
    routers = tuple(f"mongos{number}" for number in range(spec.mongos))
    return (*routers, *(name for names in spec.member_names for name in names))


def _facts(deployment: PlacedValue, report: ProblemReport) -> dict[str, Any]:
    others = (MEMBERS, TLS)
    topology = deployment.members.get("topology")
    if topology is not None and isinstance(topology.value, str):
        spelled = replace(topology, value=topology_name(topology.value))  # as we spell it
        deployment = replace(deployment, members={**deployment.members, "topology": spelled})
    values = filled(deployment, "deployment", DEPLOYMENT, report, others=others)
    facts = {snake(name): value for name, value in values.items()}
    facts["topology"] = Topology(facts.get("topology", Topology.REPLICA_SET))
    sharded = facts["topology"] in {Topology.SHARDED, Topology.LOAD_BALANCED}
    for name in ("mongos", "shards"):
        given = deployment.members.get(name)
        if given is not None and not sharded:
            report.add(given, f"{name} is for a sharded cluster; write topology: sharded")
        if not sharded:
            facts.pop(name, None)
    default = 1 if facts["topology"] is Topology.SINGLE else _DEFAULT_MEMBERS
    facts["members"] = _members(deployment.members.get(MEMBERS), default, report)
    if "compressors" in facts:
        facts["compressors"] = tuple(facts["compressors"])
    return facts


def _members(given: PlacedValue | None, default: int, report: ProblemReport) -> int | list[MemberSpec]:
    if given is None:
        return default
    if isinstance(given.value, int) and not isinstance(given.value, bool):
        return given.value
    members = []
    for each in sequence(given, "members, if it is no number,", report):
        if not mapping(each, "a member", report):
            continue
        try:
            members.append(MemberSpec(**filled(each, "a member", MEMBER, report)))
        except ValueError as error:
            report.add(each, str(error))
    return members or default


def _users(root: PlacedValue, report: ProblemReport) -> Sequence[UserSpec]:
    users = []
    given = root.members.get("users")
    for each in sequence(given, "users", report) if given is not None else ():
        if not mapping(each, "a user", report):
            continue
        values = filled(each, "a user", USER, report)
        if {"name", "roles"} <= values.keys():
            try:
                users.append(UserSpec(**{**values, "roles": tuple(values["roles"])}))
            except ValueError as error:
                report.add(each, str(error))
    return users


def _parameters(root: PlacedValue, report: ProblemReport, profile: str | None) -> dict[str, Any]:
    given = root.members.get("parameters")
    if given is None or not mapping(given, "parameters", report):
        return {}
    release = Profile.named(profile or "8.2")
    known = [each.name for each in ServerParameters(release, {}, is_mongos=False)]
    for name, marked in given.members.items():
        try:
            ServerParameters(release, {str(name): marked.value}, is_mongos=False)
        except CommandError as error:
            if "unrecognized" in error.message:
                report.add(given, unknown("parameter", name, known).message, place=given.keys[str(name)])
            else:
                report.add(marked, error.message)
    return dict(given.value)


def _tls(given: PlacedValue, report: ProblemReport) -> TlsSpec | None:
    if not mapping(given, "tls", report):
        return None
    values = filled(given, "tls", TLS_FIELDS, report)
    folder = Path(given.place.file).parent
    try:
        if values.get("certificateKeyFile") is None:
            made = ThrowAway().files
            return TlsSpec(
                mode=values.get("mode", "requireTLS"),
                certificate_key_file=str(made.server_file),
                ca_file=str(made.ca_file),
                allow_connections_without_certificates=True,
            )
        spec = TlsSpec(
            mode=values.get("mode", "requireTLS"),
            certificate_key_file=str(folder / values["certificateKeyFile"]),
            ca_file=str(folder / values["caFile"]) if values.get("caFile") else None,
            allow_connections_without_certificates=True,
        )
        spec.context()
    except (MissingExtraError, OSError, ValueError) as error:
        report.add(given, f"the certificate cannot be used: {error}")
        return None
    return spec


class ThrowAway:
    """Certificates in a folder of their own, which is removed at the end of the process."""

    _all: Final[list[ThrowAway]] = []

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="pushbackd-tls-")
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._all.append(self)
        self.files = make_certificates(self._folder)


_MEMBERS_MAX: Final = 50
"""The members that a replica set may come to have."""


def load(path: Path | str, *, shown: str = "", spec: ClusterSpec | None = None) -> Scenario:
    """Read, check and build a scenario file; with `spec` it is for that deployment instead of its own.

    Errors and logs call the file `shown`, by default by its path.
    Raises `ScenarioFileError`, which has every problem of the file.
    """
    return build(read(path, shown=shown), spec=spec)


def build(root: PlacedValue, *, spec: ClusterSpec | None = None) -> Scenario:
    """Check a file that was read, and build what it describes. Raises `ScenarioFileError`."""
    report = ProblemReport()
    if not mapping(root, "a scenario", report):
        report.end()
    known_keys(root, "field", FIELDS, report)
    _check_version(root, report)
    own = spec_of(root, report, seed=_seed(root, report))
    if spec is None:
        spec = own
    else:
        parameters, users = {**spec.parameters, **own.parameters}, (*spec.users, *own.users)
        spec = replace(spec, parameters=parameters, users=users, seed=own.seed)
    servers = server_names(spec)
    names = ScenarioNames.of(servers)
    data = _data(root, report)
    rules = _items(root, "rules", "a rule", lambda each: check_rule(each, names, report), report)
    faults = _items(root, "faults", "a fault", lambda each: check_fault(each, names, report), report)
    if any("addMember" in each.keys for each in _steps(root, ProblemReport())):
        added = (f"node{number}" for number in range(len(servers), _MEMBERS_MAX))
        names = ScenarioNames((*servers, *added), names.commands)
    reader = Reader(spec, names, report)
    timeline = [entry for each in _steps(root, report) if (entry := reader.entry(each)) is not None]
    report.end()
    return Scenario(
        file=root.place.file,
        description=_description(root, report),
        spec=spec,
        data=data,
        rules=rules,
        faults=faults,
        timeline=tuple(timeline),
    )


def _check_version(root: PlacedValue, report: ProblemReport) -> None:
    given = root.members.get("pushbackd")
    if given is None:
        report.add(root, f'the field pushbackd is missing; begin with `pushbackd: "{VERSION}"`')
    elif str(given.value) != VERSION:
        message = f'version {shown(given.value)} is not known; write "{VERSION}"'
        report.add(given, message)


def _seed(root: PlacedValue, report: ProblemReport) -> int:
    given = root.members.get("seed")
    if given is None:
        return 0
    if not isinstance(given.value, int) or isinstance(given.value, bool):
        report.add(given, f"the seed is a whole number, not {shown(given.value)}")
        return 0
    return given.value


def _description(root: PlacedValue, report: ProblemReport) -> str:
    given = root.members.get("description")
    if given is None:
        return ""
    if not isinstance(given.value, str):
        report.add(given, f"the description is a text, not {shown(given.value)}")
    return " ".join(str(given.value).split())


def _data(root: PlacedValue, report: ProblemReport) -> tuple[Seed, ...]:
    given = root.members.get("data")
    if given is None or not mapping(given, "data", report):
        return ()
    data = []
    for name, marked in given.members.items():
        namespace = Namespace.parse(str(name))
        if not namespace.db or not namespace.collection:
            message = f"{name!r} is no namespace; write database.collection"
            report.add(marked, message, place=given.keys[str(name)])
        documents = sequence(marked, "the documents of a collection", report)
        plain = [each.value for each in documents if mapping(each, "a document", report)]
        data.append(Seed(str(name), plain, marked.place))
    return tuple(data)


def _items(
    root: PlacedValue, name: str, kind: str, check: Callable[[PlacedValue], None], report: ProblemReport
) -> tuple[RuleOrFault, ...]:
    given = root.members.get(name)
    if given is None:
        return ()
    items: list[RuleOrFault] = []
    taken: set[str] = set()
    for each in sequence(given, name, report):
        if not mapping(each, kind, report):
            continue
        check(each)
        own = each.members.get("name")
        if own is not None and str(own.value) in taken:
            report.add(own, f"{kind} has the name {own.value!r} already; choose another one")
        taken |= set() if own is None else {str(own.value)}
        items.append(RuleOrFault(each.value, each.place))
    return tuple(items)


def _steps(root: PlacedValue, report: ProblemReport) -> Sequence[PlacedValue]:
    given = root.members.get("timeline")
    return () if given is None else sequence(given, "the timeline", report)


# The fields of a scenario file: their names, kinds, defaults and lines of help.
#
# The builder reads a file by these lists, and the schema for editors is written from them.


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


# Scenario files by path, and those that are installed with the package by name.


FOLDER: Final = Path(__file__).parent / "bundled"


def bundled() -> dict[str, Path]:
    """Return the scenarios of the package by name, in their order."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.yml"))}


def find(name: str | os.PathLike[str]) -> Path:
    """Return the file of a path, or of a name of the package. Raises `ControlError`."""
    path = Path(name)
    if path.exists() or path.suffix in {".yml", ".yaml"} or len(path.parts) > 1:
        return path
    known = bundled()
    if str(name) not in known:
        hint = f"{did_you_mean(name, known)} scenarios are {', '.join(known)}".lstrip()
        raise ControlError(f"there is no file and no scenario {str(name)!r}; {hint}")
    return known[str(name)]


def load_scenario(path: str | os.PathLike[str], *, spec: ClusterSpec | None = None) -> Scenario:
    """Return the scenario of a file, or of a name among those of the package.

    With `spec` it is for that deployment instead of the file's own; parameters and users of the file come on
    top. Raises `ScenarioFileError`, whose text has a line `FILE:LINE:COLUMN: FIELD: message` for each
    problem, and `ControlError` for a name that does not exist.
    """
    file = find(path)
    return load(file, shown=file.name if file.parent == FOLDER else "", spec=spec)
