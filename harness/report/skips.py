"""Reasons of skipped cases, and the options with which most of them would run.

A case that was skipped on five deployments for one reason counts once. What differs from deployment to
deployment ("this is single") and from case to case (which field needs the feature) is no part of a reason.

The reasons are sentences of `harness.unified.requirements`, which is the only one to write them; the patterns
here take them apart again. A reason that no pattern fits counts as it is, and no option is proposed for it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from fakeserver.profile import PROFILES
from harness.deployments.targets import THOROUGH, is_by_uri, our_spelling
from harness.planning.result import ResultStatus
from harness.unified.requirements import version_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.planning.result import Result

_ALTERNATIVE: Final = "; or "
_FACT: Final = re.compile(r"^(needs .+?), (?:this is|it is|the server|the driver|and adapters) .*$")
_FEATURE: Final = re.compile(r"^.*?\b(needs a driver with (\w+): .*)$")
_TOPOLOGY: Final = re.compile(r"^needs topology (.+)$")
_VERSION: Final = re.compile(r"^needs server (\S+) or (newer|older)$")
_AUTH: Final = re.compile(r"^needs authentication (on|off)$")
_EDITION: Final = re.compile(r"^needs edition (.+)$")
_TIME: Final = re.compile(r"^needs (real|virtual) time\b")
_KEYS_SHOWN: Final = 5
_REASONS_SHOWN: Final = 10
"""How many lines a table of reasons has."""
_OF_DEPLOYMENTS: Final = ("--topology", "--profile", "--auth", "no --auth")


def by_reason(results: Iterable[Result]) -> Mapping[str, int]:
    """Return how many cases have each reason, the most frequent first."""
    cases: defaultdict[str, set[str]] = defaultdict(set)
    for result in results:
        cases[reason_of(result)].add(result.id)
    return _counted(cases)


def unlocking(results: Sequence[Result]) -> Mapping[str, int]:
    """Return how many cases that ran nowhere each feature, deployment or option would let run.

    A case may need more than one: the counts are the most that each can bring.
    """
    # A case that ran on any deployment needs nothing more.
    ran = {(each.adapter, each.id) for each in results if each.status is not ResultStatus.SKIPPED}
    # An option that this run had already is no advice.
    tried = {(each.id, _topology_key(each.topology)) for each in results}
    cases: defaultdict[str, set[str]] = defaultdict(set)
    for result in results:
        if (result.adapter, result.id) not in ran:
            for key in _keys(reason_of(result), by_uri=is_by_uri(result.topology)):
                if (result.id, key) not in tried:
                    cases[key].add(result.id)
    return _counted(cases)


def lines(results: Sequence[Result], *, whole: bool = False) -> Iterator[str]:
    """Yield the lines of the table, below its title; all of them, or the first ones."""
    skipped = [result for result in results if result.status is ResultStatus.SKIPPED]
    yield from counted_lines(by_reason(skipped), whole=whole)
    keys = [*unlocking(results).items()][:_KEYS_SHOWN]
    if keys:
        yield "  most would run with"
        yield from (f"  {count:5} x {key}" for key, count in keys)
        if any(key.startswith(_OF_DEPLOYMENTS) for key, _ in keys):
            yield f"  --topology {THOROUGH} has every deployment that bundled scenarios need"


def counted_lines(reasons: Mapping[str, int], *, whole: bool) -> Iterator[str]:
    """Yield a line for each reason and its number of cases; of more than ten, all but the first are one."""
    counts = [*reasons.items()]
    shown = counts if whole or len(counts) <= _REASONS_SHOWN else counts[: _REASONS_SHOWN - 1]
    yield from (f"  {count:5} x {reason}" for reason, count in shown)
    if left := counts[len(shown) :]:
        yield f"  {sum(count for _, count in left):5} x {len(left)} other reasons; -v shows them"


def reason_of(result: Result) -> str:
    """Return the reason of a result without what only its deployment or its own fields explain."""
    first = result.reason.partition("\n")[0]
    parts = (
        found[1] if (found := _FEATURE.match(part)) else _FACT.sub(r"\1", part)
        for part in first.split(_ALTERNATIVE)
    )
    return _ALTERNATIVE.join(dict.fromkeys(parts))


def _keys(reason: str, *, by_uri: bool) -> Iterator[str]:
    """Yield what would meet a reason, any one of them."""
    for part in reason.split(_ALTERNATIVE):
        if found := _FEATURE.match(part):
            yield f"the adapter's feature {found[2]}"
        elif found := _TOPOLOGY.match(part):
            for name in found[1].split(" or "):
                yield f"a deployment that is {name}" if by_uri else _topology_key(our_spelling(name))
        elif found := _VERSION.match(part):
            yield _server(found[1], found[2], by_uri=by_uri)
        elif found := _AUTH.match(part):
            how = "--auth" if found[1] == "on" else "no --auth"
            yield f"authentication {found[1]}" if by_uri else how
        elif found := _EDITION.match(part):
            yield from (f"--edition {name}" for name in found[1].split(" or "))
        elif found := _TIME.match(part):
            yield f"--time {found[1]}"


def _topology_key(target: str) -> str:
    """Return the option for the topology of a deployment, without access control and profile."""
    return f"--topology {target.partition('@')[0].partition('+')[0]}"


def _server(version: str, which: str, *, by_uri: bool) -> str:
    """Return the profile nearest to a limit of the server's version; its words where no profile meets it."""
    limit, newer = version_of(version), which == "newer"
    versions = ((name, version_of(each.version)) for name, each in PROFILES.items())
    met = [name for name, found in versions if (found >= limit if newer else found <= limit)]
    if by_uri or not met:
        return f"a server of {version} or {which}"
    return f"--profile {met[-1] if newer else met[0]}"


def _counted(cases: Mapping[str, set[str]]) -> Mapping[str, int]:
    counts = {name: len(ids) for name, ids in cases.items()}
    return dict(sorted(counts.items(), key=lambda item: -item[1]))
