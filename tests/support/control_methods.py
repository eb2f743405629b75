"""Writes `methods.py` and `server_methods.py` of `fakeserver/control`: a typed method of each verb.

Run it after a change of the table: `python tests/support/control_methods.py`.
"""

from __future__ import annotations

import keyword
from pathlib import Path
from typing import Final

from fakeserver.control.verbs import admission_verbs, deployment_verbs
from fakeserver.control.verbs.form import Verb, snake
from fakeserver.control.verbs.table import VERBS
from mongowire.documents.arguments import Argument, Kind

FOLDER: Final = Path(__file__).parents[2] / "fakeserver" / "control"
WIDTH: Final = 110

TYPES: Final = {
    Kind.SERVER: "str",
    Kind.SERVERS: "str | Sequence[str]",
    Kind.DURATION: "str",
    Kind.SECONDS: "float | str",
    Kind.RATE: "str",
    Kind.COUNT: "int",
    Kind.NUMBER: "float",
    Kind.SHARE: "float | str",
    Kind.SIZE: "int | str",
    Kind.FLAG: "bool",
    Kind.TEXT: "str",
    Kind.NAMES: "str | Sequence[str]",
    Kind.GROUPS: "str | Sequence[Sequence[str]]",
    Kind.CODES: "int | str | Sequence[int | str]",
    Kind.OUTCOME: "int | str",
    Kind.MODE: "str | int | Mapping[str, Any]",
    Kind.DOCUMENT: "Mapping[str, Any]",
    Kind.DOCUMENTS: "Mapping[str, Any] | Sequence[Mapping[str, Any]]",
}

OF_SERVERS: Final = {verb.name for verb in (*deployment_verbs.VERBS, *admission_verbs.VERBS)}
"""The verbs of the first module; the class of the others, in the second, inherits from its class."""

SERVERS: Final = '''"""Methods of deployment and admission, written by `tests/support/control_methods.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.waiting.outcome import VerbOutcome


class ServerMethods(ABC):
    """The verbs of deployment and admission as methods. Each raises `ControlError`."""

    @abstractmethod
    def perform(self, name: str, arguments: Mapping[str, Any] | None = None) -> VerbOutcome:
        """Perform a verb by its name in the table. Raises `ControlError`."""
'''

OTHERS: Final = '''"""A method of each verb of the table, written by `tests/support/control_methods.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.control.server_methods import ServerMethods

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.waiting.outcome import VerbOutcome


class Methods(ServerMethods):
    """The verbs as methods. Each raises `ControlError`."""
'''


def texts() -> dict[str, str]:
    """Return the modules as they should be, by name."""
    of_servers = [method(verb) for verb in VERBS if verb.name in OF_SERVERS]
    others = [method(verb) for verb in VERBS if verb.name not in OF_SERVERS]
    return {"server_methods": SERVERS + "".join(of_servers), "methods": OTHERS + "".join(others)}


def method(verb: Verb) -> str:
    """Return the method of a verb."""
    required = [argument for argument in verb.arguments if argument.is_required]
    optional = [argument for argument in verb.arguments if not argument.is_required]
    assert verb.arguments == (*required, *optional), f"{verb.name}: what is required comes first"
    parameters = ["self", *map(parameter, required)]
    flags = [number for number, each in enumerate(optional) if each.kind is Kind.FLAG]
    by_name = flags[0] if flags else len(optional)
    parameters += [parameter(each) for each in optional[:by_name]]
    parameters += ["*", *map(parameter, optional[by_name:])] if flags else []
    names = {argument.name: snake(argument.name) for argument in verb.arguments}
    assert not any(keyword.iskeyword(name) for name in names.values()), verb.name
    passed = "{" + ", ".join(f'"{name}": {variable}' for name, variable in names.items()) + "}"
    call = f'return self.perform("{verb.name}"' + (f", {passed})" if names else ")")
    return "\n" + "\n".join(
        (
            *signature(verb.python, parameters),
            *documentation(verb),
            *wrapped(call, names),
            "",
        )
    )


def signature(name: str, parameters: list[str]) -> list[str]:
    line = f"    def {name}({', '.join(parameters)}) -> VerbOutcome:"
    if len(line) <= WIDTH:
        return [line]
    inner = f"        {', '.join(parameters)}"
    if len(inner) <= WIDTH:
        return [f"    def {name}(", inner, "    ) -> VerbOutcome:"]
    return [f"    def {name}(", *(f"        {each}," for each in parameters), "    ) -> VerbOutcome:"]


def parameter(argument: Argument) -> str:
    kind = TYPES[argument.kind]
    if argument.is_required:
        return f"{snake(argument.name)}: {kind}"
    default = repr(argument.default) if not isinstance(argument.default, str) else f'"{argument.default}"'
    if isinstance(argument.default, list | dict):  # a mutable default is the table's matter
        default = "None"
    return f"{snake(argument.name)}: {kind}{' | None' if default == 'None' else ''} = {default}"


def documentation(verb: Verb) -> list[str]:
    undo = f" `{snake(verb.undone_by)}` undoes it." if verb.undone_by not in {"", verb.name} else ""
    first = f'        """{verb.help}{undo}'
    lines = [
        f"        {snake(argument.name)}: {argument.help}{_default(argument)}" for argument in verb.arguments
    ]
    if not lines:
        return [f'{first}"""']
    return [first, "", *(piece for line in lines for piece in folded(line)), '        """']


def _default(argument: Argument) -> str:
    return f" (default {argument.default!r})" if isinstance(argument.default, list | dict) else ""


def folded(line: str) -> list[str]:
    """Return a line of a docstring as lines that fit."""
    lines, rest = [], line
    while len(rest) > WIDTH:
        cut = rest.rindex(" ", 0, WIDTH)
        lines.append(rest[:cut])
        rest = " " * 12 + rest[cut + 1 :]
    return [*lines, rest]


def wrapped(call: str, names: dict[str, str]) -> list[str]:
    line = f"        {call}"
    if len(line) <= WIDTH:
        return [line]
    head = call[: call.index(", {")]
    name = head.partition("(")[2]
    inner = "{" + ", ".join(f'"{name}": {variable}' for name, variable in names.items()) + "}"
    short = f"            {name}, {inner}"
    if len(short) <= WIDTH:
        return ["        return self.perform(", short, "        )"]
    items = [f'                "{each}": {variable},' for each, variable in names.items()]
    return [
        *("        return self.perform(", f"            {name},", "            {"),
        *items,
        *("            },", "        )"),
    ]


if __name__ == "__main__":
    for name, text in texts().items():
        (FOLDER / f"{name}.py").write_text(text, encoding="utf-8")
