"""The commands for parameters: getParameter and setParameter of a server, and those of the deployment.

Behaviour: getParameter returns the parameters that the command names, or all for `*`, and 72 if it knows none
of them. `setAt` and `showDetails` select and describe. Fail points are shown as `failpoint.<name>` where test
commands are on. setParameter changes all of its parameters or none: an unknown name is 72, one that only
start-up sets 20, a bad value 2. It returns in `was` the earlier value of the first. setClusterParameter
changes one parameter of the deployment (72 for more, 4 for an unknown one), which `config.clusterParameters`
keeps; getClusterParameter returns those that it names, or all for `*`.

Versions: A parameter begins with its release; before that its name is unknown (docs/ADMISSION.md names the
release of those of admission control). Those of the deployment are there since 6.0.

Not modelled: Parameters that nothing here would obey are without effect: those that tools and hosting scripts
set (docs/PARAMETERS.md). A server has hundreds more, which are unknown. Parameters of the deployment are
without effect; a server has more of them too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import Int64

from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import GENERIC, Field, Fields, first_argument, type_name, whole
from fakeserver.profile import WIRE_60, WIRE_80, WIRE_82
from fakeserver.settings.server_parameters import FAIL_POINT_PREFIX
from fakeserver.storage.port.engine import Namespace, Query, Update
from fakeserver.storage.values.types import is_number
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fakeserver.commands.context import CommandContext
    from fakeserver.deployment.node import Node

table = CommandTable()

_OPTIONS: Final = Fields.of(
    Field("showDetails", "bool"),
    Field("allParameters", "bool"),
    Field("setAt", "string", choices=("startup", "runtime")),
)


@table.command("getParameter", kind="internal", admin_only=True)
def get_parameter(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return the values of server parameters: those named, or all."""
    first = first_argument(command)
    options = first if isinstance(first, dict) else {}
    _OPTIONS.check(options, "getParameter")
    wants_all = first == "*" or bool(options.get("allParameters"))
    reply: Reply = {}
    for name, value, startup, runtime in values(ctx.node):
        settable = {"startup": startup, "runtime": runtime}.get(options.get("setAt", ""), True)
        if not (wants_all or name in command) or not settable:
            continue
        if options.get("showDetails"):
            reply[name] = {"value": value, "settableAtRuntime": runtime, "settableAtStartup": startup}
        else:
            reply[name] = value
    fcv = "featureCompatibilityVersion"
    wants_fcv = wants_all or fcv in command
    if wants_fcv and not ctx.node.is_mongos and "setAt" not in options:
        version = {"version": ctx.node.cluster.feature_compatibility_version}
        details = {"value": version, "settableAtRuntime": False, "settableAtStartup": False}
        reply[fcv] = details if options.get("showDetails") else version
    # Unknown names are passed over as long as one is known, as a server does.
    if not reply and not wants_all:
        raise CommandError(ErrorCode.INVALID_OPTIONS, "no option found to get")
    return reply


def values(node: Node) -> Iterator[tuple[str, Any, bool, bool]]:
    """Return the parameters of a server: name, value, whether they are set at start-up and at run time."""
    parameters = node.parameters
    for parameter in parameters:
        yield parameter.name, parameters[parameter.name], parameter.at_startup, parameter.at_runtime
    if parameters["enableTestCommands"]:
        for point in node.fail_points:
            yield FAIL_POINT_PREFIX + point.name, point.document(), True, False


@table.command("setParameter", kind="internal", admin_only=True)
def set_parameter(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Change server parameters; the reply has the earlier value of the first."""
    names = [name for name in list(command)[1:] if name not in GENERIC]
    if not names:
        raise CommandError(ErrorCode.INVALID_OPTIONS, "no option found to set, use help:true to see options ")
    return {"was": ctx.node.parameters.set({name: command[name] for name in names})}


# The parameters of the deployment, which all its members have in common.


class _ClusterParameter(NamedTuple):
    """A parameter of the deployment: its value as it is at first, and the check of another one."""

    since: int
    default: Mapping[str, Any]
    check: Callable[[dict[str, Any]], None]


_CHANGE_STREAMS: Final = Fields.of(Field("expireAfterSeconds", "long", minimum=1))
_DISABLED: Final = Fields.of(Field("disabled", "strictBool"))
_SWITCH: Final = Fields.of(Field("enabled", "strictBool"))
_TIMES: Final = Fields.of(Field("readOperations", "long", minimum=0))


def _check_images(value: dict[str, Any]) -> None:
    """Refuse another value than `off` or a number of seconds. Raises `CommandError` 2."""
    images = value.get("preAndPostImages")
    images = images if isinstance(images, dict) else {}
    known = list(value) == ["preAndPostImages"] and list(images) == ["expireAfterSeconds"]
    seconds = images.get("expireAfterSeconds")
    if known and seconds == "off":
        return
    if not known or not is_number(seconds) or whole(seconds) <= 0:
        raise CommandError(
            ErrorCode.BAD_VALUE, "Expected 'preAndPostImages.expireAfterSeconds' to be 'off' or positive"
        )
    images["expireAfterSeconds"] = Int64(whole(seconds))


def _by(fields: Fields, name: str) -> Callable[[dict[str, Any]], None]:
    return lambda value: fields.check(value, name)


_CLUSTER: Final[Mapping[str, _ClusterParameter]] = {
    "changeStreamOptions": _ClusterParameter(
        WIRE_60, {"preAndPostImages": {"expireAfterSeconds": "off"}}, _check_images
    ),
    "changeStreams": _ClusterParameter(
        WIRE_60, {"expireAfterSeconds": Int64(3600)}, _by(_CHANGE_STREAMS, "changeStreams")
    ),
    "fleDisableSubstringPreviewParameterLimits": _ClusterParameter(
        WIRE_82, {"disabled": False}, _by(_DISABLED, "fleDisableSubstringPreviewParameterLimits")
    ),
    "defaultMaxTimeMS": _ClusterParameter(
        WIRE_80, {"readOperations": Int64(0)}, _by(_TIMES, "defaultMaxTimeMS")
    ),
    "pauseMigrationsDuringMultiUpdates": _ClusterParameter(
        WIRE_80, {"enabled": False}, _by(_SWITCH, "pauseMigrationsDuringMultiUpdates")
    ),
}
_KEPT: Final = Namespace("config", "clusterParameters")


def _cluster_parameter(ctx: CommandContext, name: str) -> _ClusterParameter:
    parameter = _CLUSTER.get(name)
    if parameter is None or parameter.since > ctx.node.profile.max_wire_version:
        raise CommandError(ErrorCode.NO_SUCH_KEY, f"Unknown server parameter: {name}")
    return parameter


@table.command("getClusterParameter", kind="internal", admin_only=True, since=WIRE_60)
def get_cluster_parameter(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return parameters of the deployment: one, several, or all."""
    asked = first_argument(command)
    release = ctx.node.profile.max_wire_version
    names = asked if isinstance(asked, list) else [asked]
    for each in names:
        if type(each) is not str:
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                f"BSON field 'getClusterParameter' is the wrong type '{type_name(each)}', expected a string",
            )
    if not names:
        raise CommandError(ErrorCode.BAD_VALUE, "Must supply at least one cluster parameter name")
    if asked == "*":
        names = [name for name, each in _CLUSTER.items() if each.since <= release]
    kept = {each["_id"]: each for each in ctx.catalog.engine.find(_KEPT, Query())}
    shown = []
    for name in names:
        default = _cluster_parameter(ctx, name).default
        shown.append({"_id": name, **default, **kept.get(name, {})})
    return {"clusterParameters": shown}


@table.command(
    "setClusterParameter",
    kind="write",
    admin_only=True,
    since=WIRE_60,
    fields=Fields.of(Field("setClusterParameter", "object"), strict=False),
)
def set_cluster_parameter(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Change one parameter of the deployment."""
    wanted = command["setClusterParameter"]
    if len(wanted) > 1:
        raise CommandError(ErrorCode.INVALID_OPTIONS, "setClusterParameter sets one parameter only")
    name, value = next(iter(wanted.items()), ("", {}))
    parameter = _cluster_parameter(ctx, name)
    if not isinstance(value, dict):
        raise CommandError(ErrorCode.BAD_VALUE, f"Cluster parameter value must be an object: {name}")
    for field in value:
        if field.startswith("$"):
            raise CommandError(
                ErrorCode.DOLLAR_PREFIXED_FIELD_NAME,
                f"The dollar ($) prefixed field '{field}' is not allowed",
            )
    parameter.check(value)
    numbers = {each: Int64(number) for each, number in value.items() if type(number) is int}
    document = {"_id": name, "clusterParameterTime": ctx.timestamp(), **value, **numbers}
    ctx.ensure(_KEPT)
    ctx.catalog.engine.update(
        _KEPT,
        Update(Query({"_id": name}), document, upsert=True),
        accept=lambda change: ctx.applied(_KEPT, change),
    )
    return {}
