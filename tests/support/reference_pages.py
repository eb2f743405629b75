"""The parts of reference pages that are made of the code: commands, server parameters, the Python interface.

A page is written by hand but for what stands between `<!-- made of the code: NAME -->` and `<!-- end -->`.
Run as a program, this writes those parts anew; tests/tidy/test_reference_pages.py compares them.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from wishes import SPELLINGS, WISHES, spelled

import driver
import fakeserver
from driver.collection import Collection
from driver.database import Database
from fakeserver import rules
from fakeserver.assembly.background import BackgroundCluster
from fakeserver.cli.options import OPTIONS, Section
from fakeserver.control.verbs.form import Applies
from fakeserver.control.verbs.table import VERBS
from fakeserver.profile import PROFILES
from fakeserver.rules.holding import HeldRequest
from fakeserver.settings.declaration import INT32_MAX, INT64_MAX, Parameter
from fakeserver.settings.failpoints import NAMES
from fakeserver.settings.server_parameters import TABLE
from fakeserver.settings.without_effect import TABLE as WITHOUT_EFFECT
from harness.cli import SUBCOMMANDS, cli
from harness.planning.result import ExitCode
from harness.unified.server_side.oracles import ORACLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mongowire.documents.arguments import Argument

DOCS: Final = Path(__file__).parents[2] / "docs"
MADE = re.compile(r"(<!-- made of the code: ([\w -]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
PAGE_NAME = re.compile(r"\bdocs/([A-Z-]+\.md)")

# --- the command line ---

CODES: Final[Mapping[ExitCode, str]] = {
    ExitCode.PASSED: "`conform`, `explain`: every case that applies passed, or failed as expected. `lint`: no"
    " finding. `record`: something was recorded. Others: done",
    ExitCode.FAILED: "not as expected. `conform`, `explain`, `record`: a case failed. `lint`: there are"
    " warnings (`--errors-only` leaves them out). `exec`, `drill`: something that was to happen never did."
    " `journal verify`: other requests came. `hunt`: a bug was found. `swarm`, `simulate swarm`: a schedule"
    " failed. `report A B`: something got worse. `check-adapter`: a rule is broken. `mutants --least`: too"
    " few are found. `propose`: the rule is not proved. `to-json --check`: a file would change",
    ExitCode.BAD_INPUT: "the command line is wrong, a file or a case cannot be used, a file cannot be written"
    " (a full disk), or servers do not answer",
    ExitCode.INTERNAL_ERROR: "a defect of `pushbackd`",
    ExitCode.NOTHING_RAN: "`conform`, `explain`: no case ran. `record`: there is nothing to record",
    ExitCode.UNEXPECTED_PASS: "`conform`: a case passed that is known to fail",
    ExitCode.HUNG_UP: "the command was ended by SIGHUP",
    ExitCode.INTERRUPTED: "by Ctrl-C (SIGINT)",
    ExitCode.NOBODY_READS: "the reader of standard output has closed it, as in `pushbackd … | head`",
    ExitCode.TERMINATED: "by SIGTERM",
}
CANNOT_LISTEN: Final = 48
OF_VERBS: Final = {"--id", "--json"}
"""Options of every command that talks to a running server, which are not listed with each."""


def exit_codes() -> Iterator[str]:
    """Yield the table of exit codes, the server's own among them."""
    yield "| code | meaning |"
    yield "|---|---|"
    rows = {int(code): CODES[code] for code in ExitCode}
    rows[CANNOT_LISTEN] = "`serve`: the server cannot listen (a port is taken), as of a mongod"
    for code, meaning in sorted(rows.items()):
        yield f"| {code} | {meaning} |"


def commands() -> Iterator[str]:
    """Yield a chapter for each command."""
    for name in SUBCOMMANDS:
        yield f"### `pushbackd {name}`"
        yield ""
        if name == "serve":
            yield from _served()
            continue
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        yield from _command(name, command)


def _command(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=click.Context(cli, info_name="pushbackd"))
    yield "```text"
    yield " ".join(["pushbackd", name, *command.collect_usage_pieces(context)])
    yield "```"
    yield ""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        yield _linked(" ".join(paragraph.split()))
        yield ""
    is_verb = SUBCOMMANDS[name.split(" ", maxsplit=1)[0]].module == "control"
    hidden = {"--help", *(OF_VERBS if is_verb else ())}
    for option in command.get_params(context):
        record = option.get_help_record(context)
        if record is not None and not hidden & set(option.opts) and record[1]:
            yield _item(*record)
    yield ""
    if isinstance(command, click.Group):
        # In the order of the code; a group that imports its commands late has only their names.
        for below in list(command.commands) or command.list_commands(context):
            each = command.get_command(context, below)
            assert each is not None
            yield f"#### `pushbackd {name} {below}`"
            yield ""
            yield from _command(f"{name} {below}", each)


def _served() -> Iterator[str]:
    """Yield the chapter of the server: its options by sections, with their keys in the file of --config."""
    command = cli.get_command(click.Context(cli), "serve")
    assert command is not None
    context = click.Context(command, info_name="serve", parent=click.Context(cli, info_name="pushbackd"))
    declared = {each.name: each for each in command.params}
    yield "```text"
    yield "pushbackd serve [OPTIONS]"
    yield "```"
    yield ""
    yield "Behind an option stand its keys in the file of `--config`."
    for section in Section:
        yield ""
        yield f"{section.value}:"
        yield ""
        for row in OPTIONS:
            record = declared[row.name].get_help_record(context)
            if row.section is section and record is not None:
                names, meaning = record
                keys = ", ".join(f"`{key.path}`" for key in row.keys)
                yield _item(names, meaning) + (f" {keys}" if keys else "")
    yield ""
    listed = ", ".join(f"`{row.option}`" for row in OPTIONS if row.ignored)
    yield f"Accepted without effect, and noted in the log: {listed}."
    yield ""


def _item(names: str, meaning: str) -> str:
    return f"- `{names}`: {_linked(' '.join(meaning.split()))}"


def _linked(text: str) -> str:
    """Make links of names of documents, and plain text of what Markdown would take for something else."""
    plain = re.sub(r"([*_<\[\]])", r"\\\1", text) if "`" not in text else text
    return PAGE_NAME.sub(r"[\1](\1)", plain)


# --- server parameters ---

OTHERS: Final[Mapping[str, str]] = {
    "acceptApiVersion2": "accepts API version 2",
    "authSchemaVersion": "form in which users are kept; read only",
    "authenticationMechanisms": "mechanisms that clients may use",
    "cursorTimeoutMillis": "an idle cursor is closed after this time",
    "enableTestCommands": "allows `configureFailPoint`",
    "featureCompatibilityVersion": "read only; `setFeatureCompatibilityVersion` sets it",
    "internalQueryExecYieldPeriodMS": "a command that works for longer gives way to others",
    "localLogicalSessionTimeoutMinutes": "lifetime of an idle session",
    "logComponentVerbosity": "verbosity of the log by component; sets logLevel too",
    "logLevel": "verbosity of the log",
    "maxTransactionLockRequestTimeoutMillis": "wait for a lock within a transaction",
    "preAuthMaximumMessageSizeBytes": "longest message before authentication",
    "enableLocalhostAuthBypass": "the first user may be created from this machine without authentication",
    "quiet": "fewer log messages",
    "scramIterationCount": "iterations of SCRAM-SHA-1 for new users; a mongod takes 10,000",
    "scramSHA256IterationCount": "iterations of SCRAM-SHA-256 for new users; a mongod takes 15,000",
    "requireApiVersion": "refuses commands without `apiVersion`",
    "transactionLifetimeLimitSeconds": "a transaction that lasts longer is aborted",
    "ttlMonitorEnabled": "deletes expired documents",
    "ttlMonitorSleepSecs": "time between two passes of the TTL monitor",
}
ACTS_ON = re.compile(r"^\| `(\w+)` \| (.+) \| `test_\w+` \|$", re.MULTILINE)
LARGEST: Final = {INT32_MAX: "INT_MAX", INT64_MAX: "LLONG_MAX", sys.float_info.max: "DBL_MAX"}


def parameters() -> Iterator[str]:
    """Yield the table of all server parameters."""
    acts_on = dict(ACTS_ON.findall((DOCS / "ADMISSION.md").read_text()))
    yield "| parameter | type | default | range | set at | since | effect |"
    yield "|---|---|---|---|---|---|---|"
    for name, parameter in sorted(TABLE.items(), key=lambda item: item[0].lower()):
        if parameter in WITHOUT_EFFECT:
            continue
        effect = OTHERS.get(name) or acts_on[name]
        own = (
            (parameter.kind, _default(parameter), _range(parameter))
            if parameter.alias_of is None
            else [""] * 3
        )
        yield f"| `{name}` | {' | '.join((*own, _when(parameter), _since(parameter), effect))} |"


def parameters_without_effect() -> Iterator[str]:
    """Yield the table of the server parameters that nothing obeys."""
    yield "| parameter | type | default | range | set at | since | effect |"
    yield "|---|---|---|---|---|---|---|"
    for each in sorted(WITHOUT_EFFECT, key=lambda parameter: parameter.name.lower()):
        facts = (each.kind, _default(each), _range(each), _when(each), _since(each), "without effect")
        yield f"| `{each.name}` | {' | '.join(facts)} |"


def _default(parameter: Parameter) -> str:
    if callable(parameter.default):
        return "that of the release"
    value = parameter.default
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int | float):
        return f"`{LARGEST.get(value, value)}`"
    return f"`{', '.join(value) if parameter.kind == 'strings' else value}`".replace("'", '"')


def _range(parameter: Parameter) -> str:
    if parameter.choices:
        return ", ".join(f"`{choice}`" for choice in parameter.choices)
    limits = (("> ", parameter.above), ("≥ ", parameter.minimum), ("≤ ", parameter.maximum))
    return ", ".join(f"{sign}{limit}" for sign, limit in limits if limit is not None)


def _when(parameter: Parameter) -> str:
    times = (("start", parameter.at_startup), ("runtime", parameter.at_runtime))
    return ", ".join(name for name, possible in times if possible) or "never"


def _since(parameter: Parameter) -> str:
    oldest_first = sorted(PROFILES.values(), key=lambda profile: profile.max_wire_version)
    first = next(profile for profile in oldest_first if profile.max_wire_version >= parameter.since)
    name = next(name for name, profile in PROFILES.items() if profile is first)
    return f"{name}{'' if parameter.on_mongos else ', not on mongos'}"


def fail_points() -> Iterator[str]:
    """Yield the names of all fail points."""
    for name in NAMES:
        yield f"- `{name}`"


# --- the Python interface ---

CLIENT: Final = (
    *("database", "command", "list_databases", "list_database_names", "bulk_write", "watch"),
    *("start_session", "append_metadata", "open", "aclose", "topology"),
)
SPEC: Final = ("standalone", "replica_set", "sharded", "load_balanced")
HELD: Final = (
    *("name", "command", "namespace", "app_name", "node", "connection", "attempt"),
    *("reply", "fail", "close", "silence", "go_on"),
)
CLASSES: Final[Mapping[str, tuple[type, Sequence[str] | None]]] = {
    "ClusterSpec": (fakeserver.ClusterSpec, SPEC),
    "BackgroundCluster": (BackgroundCluster, None),
    "AsyncClient": (driver.AsyncClient, CLIENT),
    "Database": (Database, None),
    "Collection": (Collection, None),
    "GridFSBucket": (driver.GridFSBucket, None),
    "HeldRequest": (HeldRequest, HELD),
}
"""The classes whose methods are listed, all or those named."""


def names_of(package: Any) -> Iterator[str]:
    """Yield what a package gives, each name with the first sentence that is said of it."""
    for name in package.__all__:
        value = getattr(package, name)
        told = _sentence(value) if callable(value) else "An edition of the rules, as a value."
        yield f"- `{package.__name__}.{name}`: {told}"


def methods_of(name: str) -> Iterator[str]:
    """Yield the methods and properties of a class."""
    cls, chosen = CLASSES[name]
    for method in chosen or [each for each in vars(cls) if not each.startswith("_")]:
        member = inspect.getattr_static(cls, method)
        function = getattr(member, "__func__", getattr(member, "fget", member))
        if (inspect.getdoc(function) or "") and callable(function):
            shown = method if isinstance(member, property) else f"{method}({_arguments(function)})"
            shown = f"await {shown}" if inspect.iscoroutinefunction(function) else shown
            yield f"- `{shown}`: {_sentence(function)}"


def effects() -> Iterator[str]:
    """Yield the functions that write the effects of rules."""
    for name in rules.__all__:
        function = getattr(rules, name)
        yield f"- `{name}({_arguments(function, skipped=0)})`: {_sentence(function)}"


def _arguments(function: Callable[..., object], *, skipped: int = 1) -> str:
    """Return the names of a function's arguments, `=` behind those that may be left out."""
    shown = []
    for name, argument in list(inspect.signature(function).parameters.items())[skipped:]:
        stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(argument.kind.name, "")
        shown.append(f"{stars}{name}{'' if argument.default is argument.empty else '=…'}")
    return ", ".join(shown)


def _sentence(value: object) -> str:
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    first = re.match(r".*?\.(?=\s|$)", text)
    return first[0] if first else text


# --- the control ---

NOTHING: Final = "–"  # noqa: RUF001 - as every table has it


def verbs() -> Iterator[str]:
    """Yield the table of verbs."""
    yield "| verb | command line | arguments | effect |"
    yield "|---|---|---|---|"
    for verb in VERBS:
        listed = "<br>".join(map(_argument, verb.arguments)) or NOTHING
        effect = _in_table(verb.help)
        if verb.applies is not Applies.ALL:
            effect += f" For {verb.applies.value}."
        if verb.undone_by and verb.undone_by != verb.name:
            effect += f" `{verb.undone_by}` undoes it."
        yield f"| `{verb.name}` | `{verb.command}` | {listed} | {effect} |"


def _argument(argument: Argument) -> str:
    default = argument.default
    shown = "" if argument.is_required or default is None else f" (`{json.dumps(default)}`)"
    name = f"**`{argument.name}`**" if argument.is_required else f"`{argument.name}`"
    return _in_table(f"{name}: {argument.help}{shown}")


def wishes() -> Iterator[str]:
    """Yield the table of wishes, in the spellings of all doors."""
    yield "| wish | " + " | ".join(SPELLINGS) + " |"
    yield "|---|" + "---|" * len(SPELLINGS)
    for wish in WISHES:
        cells = ["<br>".join(f"`{_in_table(text)}`" for text in spelled(wish, door)) for door in SPELLINGS]
        yield f"| {wish.name} | " + " | ".join(cell or NOTHING for cell in cells) + " |"


def _in_table(text: str) -> str:
    return text.replace("|", "\\|")


# --- pages ---

# --- the swarm ---


def oracles() -> Iterator[str]:
    """Yield the table of the oracles of drawn cases."""
    yield "| oracle | what it asks | rules |"
    yield "|---|---|---|"
    for oracle in ORACLES.values():
        yield f"| `{oracle.name}` | {oracle.sentence} | {', '.join(oracle.rules)} |"


PARTS: Final[Mapping[str, Callable[[], Iterator[str]]]] = {
    "exit codes": exit_codes,
    "commands": commands,
    "parameters": parameters,
    "parameters without effect": parameters_without_effect,
    "fail points": fail_points,
    "verbs": verbs,
    "wishes": wishes,
    "fakeserver": lambda: names_of(fakeserver),
    "driver": lambda: names_of(driver),
    "effects": effects,
    "oracles": oracles,
    **{name: lambda name=name: methods_of(name) for name in CLASSES},  # type: ignore[misc]
}


def pages() -> list[Path]:
    """Find the documents that have such parts."""
    return [path for path in sorted(DOCS.glob("*.md")) if MADE.search(path.read_text())]


def made_anew(text: str) -> str:
    """Return a page with its parts as the code has them now."""
    return MADE.sub(
        lambda found: found[1] + "\n" + "\n".join(PARTS[found[2]]()).strip() + "\n\n" + found[4], text
    )


if __name__ == "__main__":
    for page in pages():
        page.write_text(made_anew(page.read_text()))
