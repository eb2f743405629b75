"""Contracts: what every implementation of an interface does, as checks that its author can run.

| module | holds to its contract |
|---|---|
| `adapter` | a `DriverAdapter`, in this process or behind `cmd:` |
| `clock`, `rng`, `network`, `listener`, `stream` | the ports of `mongowire.ports` |
| `storage_engine` | a `StorageEngine` of the fake server |

A contract is a function that takes what makes the subject and raises `AssertionError` where a promise is
broken; no test framework is needed. `adapter` needs a deployment and starts one for each check. Contracts of
ports take a `Run` (`worlds`): a function that runs a scenario with the clock and the network to be checked.

The assertions are bare. With pytest, a line in `conftest.py` has it explain them:

    pytest.register_assert_rewrite("harness.testing")

Five files are about adapters. `adapter` is the way in: it starts servers and one adapter for each check.
The checks are in `adapter_basics` (of every adapter), `adapter_features` (of a declared feature) and
`adapter_pools` (pools, and retries under overload). `adapter_protocol` asks a `cmd:` program over its pipes
instead (`program`) and gives a `Verdict` on each part of the protocol; `pushbackd check-adapter` prints
those, then runs the checks and makes verdicts of their assertions (`verdict`).

The name of a check is the promise, and its docstring is printed where it is broken, so that both speak to
the author of the subject. `peers` and `worlds` are what the contracts of ports share.
"""
