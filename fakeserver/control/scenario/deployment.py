"""The deployment of a scenario file: its mapping to a `ClusterSpec`."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fakeserver.access.user_spec import UserSpec
from fakeserver.control.scenario import settings
from fakeserver.control.scenario.forms import filled, mapping, sequence
from fakeserver.control.verbs.form import snake
from fakeserver.deployment.spec import ClusterSpec, MemberSpec, Topology, topology_name
from fakeserver.deployment.tls_spec import TlsSpec
from fakeserver.errors import CommandError
from fakeserver.network.certificates import MissingExtraError, make_certificates
from fakeserver.profile import Profile
from fakeserver.settings.server_parameters import ServerParameters
from mongowire.documents.errors import unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeserver.control.scenario.places import PlacedValue, ProblemReport

_DEFAULT_MEMBERS: Final = 3


def spec_of(root: PlacedValue, report: ProblemReport, *, seed: int) -> ClusterSpec:
    """Return the deployment of a file, as far as it is right; what is wrong is reported."""
    facts: dict[str, Any] = {"seed": seed, "users": _users(root, report)}
    deployment = root.members.get("deployment")
    if deployment is not None and mapping(deployment, "deployment", report):
        facts |= _facts(deployment, report)
        if settings.TLS in deployment.members:
            facts["tls"] = _tls(deployment.members[settings.TLS], report)
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
    others = (settings.MEMBERS, settings.TLS)
    values = filled(_spelled(deployment), "deployment", settings.DEPLOYMENT, report, others=others)
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
    facts["members"] = _members(deployment.members.get(settings.MEMBERS), default, report)
    if "compressors" in facts:
        facts["compressors"] = tuple(facts["compressors"])
    return facts


def _spelled(deployment: PlacedValue) -> PlacedValue:
    """Return the deployment with our spelling of its topology."""
    topology = deployment.members.get("topology")
    if topology is None or not isinstance(topology.value, str):
        return deployment
    spelled = replace(topology, value=topology_name(topology.value))
    return replace(deployment, members={**deployment.members, "topology": spelled})


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
            members.append(MemberSpec(**filled(each, "a member", settings.MEMBER, report)))
        except ValueError as error:
            report.add(each, str(error))
    return members or default


def _users(root: PlacedValue, report: ProblemReport) -> Sequence[UserSpec]:
    users = []
    given = root.members.get("users")
    for each in sequence(given, "users", report) if given is not None else ():
        if not mapping(each, "a user", report):
            continue
        values = filled(each, "a user", settings.USER, report)
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
    values = filled(given, "tls", settings.TLS_FIELDS, report)
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
