"""The wrong neighbours of a rule: drivers that do nearly what its patch does, made of the patch's own lines.

A neighbour has a name that says what it does, and the advice which case would tell it from the rule. Besides
what the operators make of the new lines there are drivers that keep the rule in some places only, that keep
it for other commands too, and that have a part of the patch. What is the same driver by construction is left
out: the same tree as the rule, as the driver of today, or as another neighbour.

Of two that are the same the first is kept, so the order of `_candidates` decides the name and the advice
that a user reads: operators, facts, the same argument elsewhere, parts left out. A name also identifies its
neighbour in a patch (`survives`), so another wording breaks the proofs that use it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from difflib import unified_diff
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from harness.authoring.mutants.mutant import Change, Mutant, original, path_of
from harness.authoring.proposals.operators import OPERATORS, in_scope, meets
from harness.authoring.proposals.place import Place
from mongowire.documents.marks import Location

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from harness.authoring.proposals.rule import Patch


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A wrong driver beside the rule: the texts of all files that differ from the driver of today."""

    name: str
    advice: str
    sources: Mapping[str, str] = field(repr=False)

    def as_mutant(self) -> Mutant:
        """Return it as the engine of the mutants takes it."""
        changes = tuple(Change(file, original(file), text) for file, text in self.sources.items())
        return Mutant(self.name, "driver", "", "", "", changes, Location(path_of("driver")))

    def diff(self, patch: Patch) -> str:
        """Return its difference from the rule, as a unified diff."""
        lines: list[str] = []
        for file in dict.fromkeys((*patch.after, *self.sources)):
            rule = patch.after.get(file) or original(file)
            wrong = self.sources.get(file) or original(file)
            lines += unified_diff(
                rule.splitlines(),
                wrong.splitlines(),
                f"{file} (the rule)",
                f"{file} ({self.name})",
                lineterm="",
                n=2,
            )
        return "\n".join(lines)


def neighbours(patch: Patch, codes: Collection[int] = ()) -> tuple[Neighbour, ...]:
    """Return the wrong neighbours of a patch; `codes` are those of the errors in the scenario."""
    found: dict[str, Neighbour] = {}
    seen = {_tree(patch.before), _tree(patch.after)}
    for name, sources, advice in _candidates(patch, codes):
        try:
            tree = _tree(sources)
        except (SyntaxError, ValueError):
            continue
        if tree not in seen and name not in found:
            seen.add(tree)
            differing = {file: text for file, text in sources.items() if text != original(file)}
            found[name] = Neighbour(name, advice, differing)
    return tuple(found.values())


def _tree(sources: Mapping[str, str]) -> str:
    """Return what two drivers share that are the same: the trees of the files that are not today's.

    Raises SyntaxError or ValueError for a text that is no Python, which an operator may make of odd lines.
    """
    trees = ((file, _dumped(text)) for file, text in sorted(sources.items()))
    return repr([(file, tree) for file, tree in trees if tree != _dumped(original(file))])


@lru_cache(maxsize=64)
def _dumped(text: str) -> str:
    return ast.dump(ast.parse(text))


def _candidates(patch: Patch, codes: Collection[int]) -> Iterator[tuple[str, Mapping[str, str], str]]:
    places = [Place(file, patch.before[file], patch.after[file]) for file in patch.after]
    for place in places:
        for operator in OPERATORS:
            for variant in operator(place):
                yield variant.name, {**patch.after, place.file: variant.text}, variant.advice
    new = "\n".join(change.new for change in patch.changes)
    for fact in (*FACTS, *(_after_code(code) for code in sorted(codes))):
        if fact.unless and fact.unless in new:
            continue
        chosen = {place.file: place.only_where(_conditions(place, fact)) for place in places}
        if chosen != dict(patch.after):
            yield fact.name, chosen, fact.advice
    for place in places:
        for name, sources, advice in _elsewhere(place):
            yield name, {**patch.after, **sources}, advice
    if len(patch.changes) > 1:
        yield from _without_parts(patch)


# --- where the rule holds ---


class Fact(NamedTuple):
    """Something that is known where the rule stands: a condition for each class that knows it.

    The keys of `known_by` are classes as arguments are annotated; `{0}` in a condition is the argument's
    name. A function without an argument of such a class cannot ask, and gets no neighbour by this fact.
    """

    name: str
    known_by: Mapping[str, str]
    advice: str
    unless: str = ""
    """Text that new lines of a patch have if they decide the same already."""


def _of_topology(test: str) -> dict[str, str]:
    return {
        "Executor": f"{{0}}.topology.description.type.name{test}",
        "Cursor": f"{{0}}._executor.topology.description.type.name{test}",
        "TopologyDescription": f"{{0}}.type.name{test}",
    }


_TRANSACTION: Final = {
    "Run": "{0}.transaction is not None",
    "Cursor": "{0}.session.in_transaction",
    "ClientSession": "{0}.in_transaction",
}
_TIMEOUT: Final = {"Run": "{0}.deadline.is_set", "Cursor": "{0}._deadline.is_set", "Deadline": "{0}.is_set"}
_WRITE: Final = {"Run": "{0}.operation.kind.name == 'WRITE'", "Operation": "{0}.kind.name == 'WRITE'"}
_DEFERRED: Final = {"Run": "{0}.state.attempt > 0", "RetryState": "{0}.attempt > 0"}


def _not(known: Mapping[str, str]) -> dict[str, str]:
    return {name: f"not ({condition})" for name, condition in known.items()}


FACTS: Final = (
    Fact(
        "only on sharded clusters",
        _of_topology(" == 'SHARDED'"),
        "prove it on a replica set too (deployments)",
    ),
    Fact(
        "only on replica sets",
        _of_topology(".startswith('REPLICA_SET')"),
        "prove it on a sharded cluster too (deployments)",
    ),
    Fact("only in transactions", _TRANSACTION, "add a case outside of a transaction"),
    Fact("not in transactions", _not(_TRANSACTION), "add a case in a transaction"),
    Fact("only with timeoutMS", _TIMEOUT, "add a case without timeoutMS"),
    Fact("not with timeoutMS", _not(_TIMEOUT), "add a case with timeoutMS"),
    Fact("only for writes", _WRITE, "add a case with a command that is no write", ".name"),
    Fact("not for writes", _not(_WRITE), "add a case with a write", ".name"),
    Fact(
        "only after the first attempt", _not(_DEFERRED), "add a case in which a retry fails too", ".attempt"
    ),
    Fact("only after a retry", _DEFERRED, "add a case in which the first attempt decides", ".attempt"),
)
"""Where a wrong driver may keep a rule, and break it elsewhere."""


def _after_code(code: int) -> Fact:
    return Fact(
        f"only after the code {code}",
        {"DriverError": f"getattr({{0}}, 'code', None) == {code}"},
        f"add a case with another code than {code}",
    )


def _conditions(place: Place, fact: Fact) -> dict[str, str]:
    """Return the condition of a fact in each changed function that knows it."""
    found = {}
    for _, function in place.functions:
        for name, kind in in_scope(place, function).items():
            if kind in fact.known_by:
                found[function.name] = fact.known_by[kind].format(name)
                break
    return found


# --- the same elsewhere ---


def _elsewhere(place: Place) -> Iterator[tuple[str, Mapping[str, str], str]]:
    """Yield the argument that the patch adds to a call, added to other calls of the same function too.

    Those in the same file come first; only where there are none, those in the files beside it do.
    """
    for node in place.new():
        keyword = place.above(node)
        call = place.above(keyword)
        if not isinstance(node, ast.Constant) or not isinstance(keyword, ast.keyword) or keyword.arg is None:
            continue
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        folder = path_of(place.file).parent
        beside = (f"{place.file.rpartition('/')[0]}/{path.name}" for path in sorted(folder.glob("*.py")))
        texts = [(file, original(file)) for file in beside if file != place.file]
        here = list(_other_calls(place.file, place.after, call, keyword))
        others = here or [each for file, text in texts for each in _other_calls(file, text, call, keyword)]
        for name, file, text in others[:_MOST_ELSEWHERE]:
            yield f"also for {name}", {file: text}, meets(name)
        for file, text in ((place.file, place.after), *texts):
            if default := _default_of(file, text, call.func.id, keyword):
                yield "for every command", {file: default}, meets("another command")


_MOST_ELSEWHERE: Final = 3
"""Other calls that get the argument, one at a time: each neighbour asks for a case of its own."""


def _other_calls(
    file: str, text: str, call: ast.Call, keyword: ast.keyword
) -> Iterator[tuple[str, str, str]]:
    """Yield the names of the commands of other calls, with their file and its text."""
    here = Place(file, text, text)
    for each in ast.walk(here.tree):
        if not isinstance(each, ast.Call) or ast.unparse(each.func) != ast.unparse(call.func):
            continue
        arguments = {own.arg: own.value for own in each.keywords}
        name = arguments.get("name")
        if keyword.arg not in arguments and isinstance(name, ast.Constant):
            # Before the closing bracket, and behind a last argument that may have a comma of its own.
            head = here.source_of(each)[:-1].rstrip().removesuffix(",")
            yield str(name.value), file, here.with_(each, f"{head}, {ast.unparse(keyword)})")


def _default_of(file: str, text: str, called: str, keyword: ast.keyword) -> str:
    """Return a file with an argument as the default of a class's field; empty if it has no such class."""
    here = Place(file, text, text)
    for each in here.tree.body:
        if isinstance(each, ast.ClassDef) and each.name == called:
            for field_of in each.body:
                if isinstance(field_of, ast.AnnAssign) and ast.unparse(field_of.target) == keyword.arg:
                    return here.with_(field_of.value, ast.unparse(keyword.value)) if field_of.value else ""
    return ""


def _without_parts(patch: Patch) -> Iterator[tuple[str, Mapping[str, str], str]]:
    """Yield the patch without each of its changes, but those of imports, which alone are no behaviour."""
    for left_out in patch.changes:
        if all(line.lstrip().startswith(("from ", "import ")) for line in left_out.new.strip().splitlines()):
            continue
        sources = dict(patch.before)
        try:
            for change in patch.changes:
                if change is not left_out:
                    sources[change.file] = change.apply(sources[change.file])
        except ValueError:
            continue  # one of the others replaces lines of it
        first = left_out.old.strip().partition("\n")[0].strip()
        yield (
            f"without its change of `{first}` ({left_out.file})",
            sources,
            "add a case in which this part of the patch makes a difference",
        )
