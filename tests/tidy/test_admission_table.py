"""docs/ADMISSION.md names every parameter and metric of admission control, and what it says is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from rows import each_row
from talking import Deployment, Talker, play

from fakeserver import ClusterSpec
from fakeserver.admission.parameters import TABLE

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "ADMISSION.md").read_text()
ROW = re.compile(r"^\| `([\w.]+)` \| (.*) \| `(test_\w+)` \|$", re.MULTILINE)
ROWS = {name: (told, test) for name, told, test in ROW.findall(DOCUMENT)}
TESTS = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))

PREFIX = "ingressConnectionEstablishment"
SPECIFIED_PARAMETERS = (
    *(f"storageEngineConcurrent{pool}Transactions" for pool in ("Read", "Write")),
    *(
        f"throughputProbing{name}"
        for name in (
            *("InitialConcurrency", "MinConcurrency", "MaxConcurrency", "ReadWriteRatio"),
            *("ConcurrencyMovingAverageWeight", "StepMultiple"),
        )
    ),
    *(f"{PREFIX}{name}" for name in ("RateLimiterEnabled", "RatePerSec", "BurstCapacitySecs")),
    *(f"{PREFIX}{name}" for name in ("MaxQueueDepth", "RateLimiterBypass")),
    *("ingressRequestRateLimiterEnabled", "ingressRequestAdmissionRatePerSec"),
    *("ingressRequestAdmissionBurstCapacitySecs", "ingressRequestRateLimiterExemptions"),
    "ingressAdmissionControlEnabled",
)
QUEUE_STATS = ("addedToQueue", "removedFromQueue", "interruptedInQueue", "averageTimeQueuedMicros")
LIMITER_STATS = (
    *("rejectedAdmissions", "exemptedAdmissions", "successfulAdmissions", "attemptedAdmissions"),
    "totalAvailableTokens",
)
SPECIFIED_METRICS = (
    *(f"queues.ingressSessionEstablishment.{name}" for name in (*QUEUE_STATS, *LIMITER_STATS)),
    *(f"network.ingressRequestRateLimiter.{name}" for name in LIMITER_STATS),
    *(f"metrics.network.averageTimeToCompleted{part}Micros" for part in ("TLSHandshake", "Hello", "Auth")),
    "connections.queuedForEstablishment",
    *(
        f"connections.establishmentRateLimit.{name}"
        for name in ("rejected", "exempted", "interruptedDueToClientDisconnect")
    ),
)
METRICS = [name for name in ROWS if "." in name]


@each_row([*SPECIFIED_PARAMETERS, *SPECIFIED_METRICS])
def test_every_name_of_the_specification_is_in_the_table(name: str) -> None:
    assert name in ROWS


@each_row(SPECIFIED_PARAMETERS)
def test_every_parameter_of_the_specification_is_on_the_server(name: str) -> None:
    assert name in {parameter.name for parameter in TABLE}


def test_the_table_has_the_parameters_that_the_server_has_and_no_other() -> None:
    assert [name for name in ROWS if "." not in name] == [parameter.name for parameter in TABLE]


@each_row(ROWS)
def test_a_row_names_a_test_that_is_there(name: str) -> None:
    assert f"def {ROWS[name][1]}(" in TESTS


def test_every_metric_of_the_table_is_on_the_server() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"ping": 1})
        status = await talker.ok({"serverStatus": 1})
        missing = [name for name in METRICS if not _has(status, name.split("."))]
        assert not missing

    enabled = {f"{PREFIX}RateLimiterEnabled": True, "ingressRequestRateLimiterEnabled": True}
    play(scenario, ClusterSpec.replica_set(1, profile="9.0", priority_ports=(0,), parameters=enabled))


def _has(document: Any, path: list[str]) -> bool:
    for name in path:
        if not isinstance(document, dict) or name not in document:
            return False
        document = document[name]
    return True


def test_every_parameter_of_admission_control_can_be_set() -> None:
    async def set_all(talker: Talker, values: dict[str, Any], name: str) -> None:
        await talker.ok({"setParameter": 1, name: values[name]})
        assert (await talker.ok({"getParameter": 1, name: 1}))[name] == values[name]

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        values = await talker.ok({"getParameter": "*"})
        for parameter in TABLE:
            if parameter.at_runtime and values[parameter.name] is not None:
                await set_all(talker, values, parameter.name)

    play(scenario, ClusterSpec.replica_set(1, profile="9.0"))
