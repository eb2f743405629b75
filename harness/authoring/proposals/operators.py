"""Operators: one thing that is new in the driver, done wrong.

Each changes a number, a comparison, the name of a command, a label, a code, a condition, or what retries are
counted by, and says in words what the driver does then, and which case would tell it from the rule.

An operator is a function from a `Place` to `Variant`s. It changes new nodes alone (`place.new`), one at a
time, and may yield what is no Python or the same driver: `neighbours.py` drops these. Names and advice are
sentences for somebody who has not read the patch, so operators look for the meaning of a number or a
comparison first (how often it retries, which command) and quote code only where they find none.
"""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from driver.operations.base import Kind, MaxTime
from driver.operations.options import TimeoutMode
from driver.sdam.description import ServerType, TopologyType
from fakeserver.commands.default_table import default_table
from mongowire.codes import Category, ErrorCode, Label, is_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from harness.authoring.proposals.place import Function, Place


class Variant(NamedTuple):
    """One file of a neighbour: what it does in words, its text, and the case that would tell it."""

    name: str
    text: str
    advice: str


# --- numbers and comparisons ---

_NEAR: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ONE_MORE: Final = "add a case in which the error comes once more than the rule bears"
_BOUNDARY: Final = "add a case at the boundary, and one on each side of it"


def _numbers(place: Place) -> Iterator[Variant]:
    """Yield each number off by one; one that is no whole number, halved and doubled."""
    for node in place.new():
        if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
            continue
        value = node.value
        if isinstance(value, int) and not _is_code(place, node):
            others: tuple[float, ...] = (value + 1, value - 1)
        elif isinstance(value, float):
            others = (value * 2, value / 2)
        else:
            continue
        for other in others:
            if other < 0 <= value:
                continue  # a count or a time below zero is no near miss
            text = place.with_(node, repr(other))
            above = place.above(node)
            name = f"{other} in place of {value}: {_quoted(place.text(above), repr(value), repr(other))}"
            if isinstance(above, ast.Compare) and isinstance(other, int):
                name = _retries_of(place, above, number=other) or name
            yield Variant(name, text, _ONE_MORE if name.startswith(("retries", "never")) else _BOUNDARY)


def _comparisons(place: Place) -> Iterator[Variant]:
    for node in place.new():
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            continue
        other = _NEAR[type(node.ops[0])]()
        changed = ast.Compare(node.left, [other], node.comparators)
        text = place.with_(node, f"({ast.unparse(changed)})")
        name = _retries_of(place, node, operator=type(other))
        if name:
            yield Variant(name, text, _ONE_MORE)
        elif isinstance(other, ast.Eq | ast.NotEq | ast.Is | ast.IsNot | ast.In | ast.NotIn):
            yield Variant(
                f"where not `{place.text(node)}`",
                text,
                f"add a case in which `{place.text(node)}` does not hold",
            )
        else:
            yield Variant(f"`{ast.unparse(changed)}` in place of `{place.text(node)}`", text, _BOUNDARY)


_TIMES: Final = ("never retries", "retries once", "retries twice")


def _retries_of(
    place: Place, node: ast.Compare, *, number: int | None = None, operator: type[ast.cmpop] | None = None
) -> str:
    """Return how often a driver retries that compares attempts so, in words; empty if nobody can tell."""
    if len(node.ops) != 1 or not _counts_attempts(node.left):
        return ""
    (right,) = node.comparators
    if not isinstance(right, ast.Constant) or not isinstance(right.value, int):
        return ""
    value = right.value if number is None else number
    stops = _stops(place, node)
    if stops is None:
        return ""
    allowed = {
        (True, ast.GtE): value,
        (True, ast.Gt): value + 1,
        (True, ast.Eq): value,
        (False, ast.Lt): value,
        (False, ast.LtE): value + 1,
    }.get((stops, operator or type(node.ops[0])))
    if allowed is None:
        return ""
    return _TIMES[allowed] if 0 <= allowed < len(_TIMES) else f"retries {allowed} times"


def _counts_attempts(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "attempt"


def _stops(place: Place, node: ast.expr) -> bool | None:
    """Return whether an operation ends where a condition holds; None if nobody can tell."""
    negated = False
    for each in place.around(node):
        if isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.Not):
            negated = not negated
        elif isinstance(each, ast.Return):
            return negated  # what returns a condition here says whether a retry is allowed
        elif isinstance(each, ast.If):
            return _gives_up(each.body[-1]) != negated
        elif isinstance(each, ast.stmt | ast.IfExp):
            return None
    return None


def _gives_up(last: ast.stmt) -> bool:
    if isinstance(last, ast.Return):
        return last.value is None or ast.unparse(last.value).startswith(("False", "None", "GiveUp"))
    return isinstance(last, ast.Raise)


# --- commands, labels, codes ---

COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "cursors": ("getMore", "killCursors"),
    "reads": ("find", "aggregate", "distinct"),
    "writes": ("insert", "update", "delete"),
    "ends of transactions": ("commitTransaction", "abortTransaction"),
    "what the driver does not look into": ("ping",),
}
"""Commands of each kind that drivers send for their users, the most common first."""


def _others(command: str) -> list[str]:
    """Return commands that a wrong driver may take for one: of its kind, and the first of each other kind."""
    own = next((names for names in COMMANDS.values() if command in names), ())
    firsts = (names[0] for names in COMMANDS.values() if names != own)
    return [name for name in (*own, *firsts) if name != command]


@cache
def _known_commands() -> frozenset[str]:
    return frozenset(default_table().commands)


def _commands(place: Place) -> Iterator[Variant]:
    for node in place.new():
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        name, above = node.value, place.above(node)
        if name not in _known_commands():
            continue
        others = _others(name)
        if isinstance(above, ast.Compare) and isinstance(above.ops[0], ast.Eq | ast.NotEq):
            operator = "in" if isinstance(above.ops[0], ast.Eq) else "not in"
            for other in others:
                text = f"({ast.unparse(above.left)} {operator} {(name, other)!r})"
                yield Variant(f"also for {other}", place.with_(above, text), meets(other))
        elif isinstance(above, ast.Tuple | ast.Set | ast.List):
            listed = {each.value for each in above.elts if isinstance(each, ast.Constant)}
            for other in others:
                if other not in listed:
                    yield Variant(
                        f"also for {other}", place.with_(node, f"{name!r}, {other!r}"), meets(other)
                    )
            # The empty text is no command; taking the element out could leave a tuple that is none any more.
            yield Variant(f"not for {name}", place.with_(node, "''"), meets(name))
        else:
            continue
        yield Variant(f"for {others[0]} in place of {name}", place.with_(node, repr(others[0])), meets(name))


def meets(command: str) -> str:
    """Return the advice for a driver that treats a command as the rule's."""
    return f"add a case in which {command} meets the same"


_ENUMS: Final = frozenset(
    {"Label", "ErrorCode", "Kind", "TopologyType", "ServerType", "MaxTime", "TimeoutMode"}
)
_LABELS: Final = (
    Label.SYSTEM_OVERLOADED,
    Label.RETRYABLE,
    Label.RETRYABLE_WRITE,
    Label.TRANSIENT_TRANSACTION,
)
_MOST_CODES: Final = 3
"""Other codes for each one: of more, a scenario would need a case each and learn little."""


def _labels_and_codes(place: Place) -> Iterator[Variant]:
    """Yield another label or code for each, as a member of its enumeration or as text or number."""
    for node in place.new():
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "Label" and node.attr in Label.__members__:
                for label in _other_labels(Label[node.attr]):
                    yield _label(place, node, Label[node.attr], label, f"Label.{label.name}")
            elif node.value.id == "ErrorCode" and node.attr in ErrorCode.__members__:
                for code in _other_codes(ErrorCode[node.attr]):
                    yield _code(place, node, ErrorCode[node.attr], code, f"ErrorCode.{code.name}")
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and node.value in list(Label):
                for label in _other_labels(Label(node.value)):
                    yield _label(place, node, Label(node.value), label, repr(str(label)))
            elif isinstance(node.value, int) and _is_code(place, node):
                for code in _other_codes(ErrorCode(node.value)):
                    yield _code(place, node, ErrorCode(node.value), code, str(int(code)))


def _other_labels(label: Label) -> list[Label]:
    return [each for each in _LABELS if each is not label]


def _label(place: Place, node: ast.expr, label: Label, other: Label, text: str) -> Variant:
    return Variant(
        f"by the label {other} in place of {label}",
        place.with_(node, text),
        f"add a case whose error has {label} and not {other}, and one the other way round",
    )


def _is_code(place: Place, node: ast.Constant) -> bool:
    """Return whether a number is compared with a code."""
    above = place.above(node)
    return (
        isinstance(node.value, int)
        and any(node.value == code for code in ErrorCode)
        and isinstance(above, ast.Compare)
        and "code" in ast.unparse(above.left).rpartition(".")[2]
    )


def _other_codes(code: ErrorCode) -> list[ErrorCode]:
    """Return codes that a wrong driver may take for one: of the same categories first."""
    own = [category for category in Category if is_in(code, category)]
    near = [each for each in ErrorCode if each is not code and any(is_in(each, category) for category in own)]
    return [*near, *(each for each in ErrorCode if each is not code and each not in near)][:_MOST_CODES]


def _code(place: Place, node: ast.expr, code: ErrorCode, other: ErrorCode, text: str) -> Variant:
    return Variant(
        f"on {int(other)} ({other.code_name}) in place of {int(code)}",
        place.with_(node, text),
        f"add a case with the code {int(other)}",
    )


@cache
def _members(name: str) -> tuple[str, ...]:
    """Return the members of one of the driver's enumerations."""
    by_name = {each.__name__: each for each in (Kind, MaxTime, TimeoutMode, ServerType, TopologyType)}
    return tuple(by_name[name].__members__) if name in by_name else ()


def _members_of_enums(place: Place) -> Iterator[Variant]:
    for node in place.new():
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        members = _members(node.value.id) if node.value.id in _ENUMS else ()
        if node.attr in members:
            for other in members:
                if other != node.attr:
                    name = f"`{node.value.id}.{other}` in place of `{place.text(node)}`"
                    advice = f"add a case that tells {other} from {node.attr}"
                    yield Variant(name, place.with_(node, f"{node.value.id}.{other}"), advice)


_PREDICATES: Final[Mapping[str, tuple[str, str]]] = {
    "is_retryable_overload": ("is_overload", "also after an overload error that is not retryable"),
    "is_overload": ("is_retryable_overload", "only after an overload error that is retryable"),
}
"""Questions about an error, with the nearest wrong one; both are of one module."""


def _predicates(place: Place) -> Iterator[Variant]:
    for node in place.new():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _PREDICATES:
            other, name = _PREDICATES[node.func.id]
            text = place.with_(node.func, other)
            yield Variant(
                name,
                _importing(text, other, node.func.id),
                f"add a case whose error has {Label.SYSTEM_OVERLOADED} and not {Label.RETRYABLE}",
            )


def _importing(text: str, name: str, beside: str) -> str:
    """Return a text that imports a name from where it imports another; both are used as they are."""
    tree = ast.parse(text)
    for each in tree.body:
        if isinstance(each, ast.ImportFrom) and beside in (names := [alias.name for alias in each.names]):
            if name in names:
                return text
            lines = text.splitlines()
            lines[each.end_lineno or 0 : 0] = [f"from {each.module} import {name}"]
            return "\n".join(lines) + "\n"
    return text


# --- conditions ---


def _conditions_of(place: Place) -> Iterator[Variant]:
    """Yield conditions negated, left out, and joined the other way."""
    for node in place.new():
        if isinstance(node, ast.BoolOp):
            yield from _clauses(place, node)
        if isinstance(node, ast.If | ast.IfExp | ast.While) and place.is_new(node.test):
            yield _negated(place, node.test)
            if not isinstance(node.test, ast.BoolOp):
                yield Variant(
                    f"whether or not `{place.text(node.test)}`",
                    place.with_(node.test, "True"),
                    f"add a case in which `{place.text(node.test)}` does not hold",
                )
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Compare | ast.BoolOp | ast.UnaryOp):
            # A new `return` may carry a condition that the patch has only moved.
            if place.is_new(node.value):
                yield _negated(place, node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            said = place.text(place.above(node))
            yield Variant(
                f"{_quoted(said, repr(node.value), repr(not node.value))} in place of `{said}`",
                place.with_(node, repr(not node.value)),
                "add a case in which it makes a difference",
            )


def _negated(place: Place, test: ast.expr) -> Variant:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        text = ast.unparse(test.operand)
    else:
        text = f"not ({ast.unparse(test)})"
    return Variant(
        f"the contrary: where not `{place.text(test)}`",
        place.with_(test, text),
        f"add a case in which `{place.text(test)}` does not hold",
    )


def _clauses(place: Place, node: ast.BoolOp) -> Iterator[Variant]:
    joined = "and" if isinstance(node.op, ast.And) else "or"
    for clause in node.values:
        if not place.is_new(clause):
            continue
        rest = [each for each in node.values if each is not clause]
        left: ast.expr = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        name, advice = _without(place, clause, joined)
        yield Variant(name, place.with_(node, f"({ast.unparse(left)})"), advice)
        opposite = f"not ({ast.unparse(clause)})"
        if isinstance(clause, ast.UnaryOp) and isinstance(clause.op, ast.Not):
            opposite = ast.unparse(clause.operand)
        yield Variant(
            f"where not `{place.text(clause)}`",
            place.with_(clause, f"({opposite})"),
            f"add a case in which `{place.text(clause)}` does not hold",
        )
    other = ast.Or() if joined == "and" else ast.And()
    instead = "one of the conditions is enough" if joined == "and" else "only if all of the conditions hold"
    yield Variant(
        f"{instead}: `{place.text(node)}`",
        place.with_(node, f"({ast.unparse(ast.BoolOp(other, node.values))})"),
        "add a case in which only one of the conditions holds",
    )


def _without(place: Place, clause: ast.expr, joined: str) -> tuple[str, str]:
    """Return what a driver does that does not ask for a clause, and which case tells it."""
    if joined == "and" and isinstance(clause, ast.Compare) and len(clause.ops) == 1:
        (right,) = clause.comparators
        if (
            isinstance(right, ast.Constant)
            and right.value in _known_commands()
            and isinstance(clause.ops[0], ast.Eq)
        ):
            return "for every command", meets(_others(str(right.value))[-1])
        if _counts_attempts(clause.left) and (stops := _stops(place, clause)) is not None:
            return (_TIMES[0] if stops else "retries as often as the error comes"), _ONE_MORE
    return (
        f"without the condition `{place.text(clause)}`",
        f"add a case in which `{place.text(clause)}` does not hold",
    )


# --- statements and arithmetic ---

_ARITHMETIC: Final[Mapping[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
_OTHER_CALLS: Final = {"min": "max", "max": "min"}


def _statements(place: Place) -> Iterator[Variant]:
    """Yield the file without each new statement that stands among others, and with other arithmetic."""
    for node in place.new():
        if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.Raise | ast.Delete) and _on_its_own(
            place, node
        ):
            if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                yield Variant(
                    f"without `{place.text(node)}`",
                    place.with_(node, "pass"),
                    "add a case in which it makes a difference",
                )
        elif isinstance(node, ast.BinOp) and (other := _ARITHMETIC.get(type(node.op))):
            changed = ast.unparse(ast.BinOp(node.left, other(), node.right))
            yield Variant(
                f"`{changed}` in place of `{place.text(node)}`", place.with_(node, f"({changed})"), _BOUNDARY
            )
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _OTHER_CALLS:
            other_name = _OTHER_CALLS[node.func.id]
            name = f"`{other_name}` in place of `{node.func.id}`: `{place.text(node)}`"
            yield Variant(name, place.with_(node.func, other_name), _BOUNDARY)


def _on_its_own(place: Place, node: ast.stmt) -> bool:
    """Return whether a whole statement is new, and stands in a function."""
    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return all(line in place.changed for line in lines) and place.function_of(node) is not None


# --- what is counted ---

_COUNTERS: Final[Mapping[str, str]] = {
    "client": "{Executor}, None",
    "session": "{Run}.session, None",
    "connection": "{Run}.connection, None",
    "server": "{Executor}, {Run}.server and {Run}.server.address",
}
"""What a wrong driver may count by, of the classes that know it: who keeps the count, and its key there."""

_COUNTING: Final = '''

def _counted_by(owner, key, counts={}):
    """Return how often this was asked before of a key of an owner, which stays in memory."""
    _, own = counts.setdefault(id(owner), (owner, {}))
    own[key] = own.get(key, -1) + 1
    return own[key]
'''


def _counts(place: Place) -> Iterator[Variant]:
    """Yield retries counted by what outlives an operation, where the rule counts those of one."""
    for node in place.new():
        function = place.function_of(node)
        if not isinstance(node, ast.expr) or not _counts_attempts(node) or function is None:
            continue
        known = {kind: name for name, kind in in_scope(place, function).items()}
        for what, template in _COUNTERS.items():
            try:
                asked = template.format_map(known)
            except KeyError:
                continue
            text = place.with_(node, f"_counted_by({asked})") + _COUNTING
            advice = f"add a case in which two operations of one {what} meet the error one after the other"
            yield Variant(f"counted by {what}, not by operation", text, advice)


def in_scope(place: Place, function: Function) -> dict[str, str]:
    """Return the arguments of a function with their classes, as they are annotated."""
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    found = {each.arg: ast.unparse(each.annotation) for each in arguments if each.annotation is not None}
    if arguments and arguments[0].arg == "self":
        found["self"] = place.class_of(function)
    return found


def _quoted(text: str, old: str, new: str) -> str:
    return f"`{text.replace(old, new, 1)}`"


# In the order in which they name a neighbour that several of them can make.
OPERATORS: Final[tuple[Callable[[Place], Iterator[Variant]], ...]] = (
    _numbers,
    _comparisons,
    _commands,
    _labels_and_codes,
    _members_of_enums,
    _predicates,
    _conditions_of,
    _statements,
    _counts,
)
