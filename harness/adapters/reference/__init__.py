"""The reference driver behind the runner.

`adapter` has the life of clients and entities, `operations` the table from the format's operations to
methods, `results` the way back for results, errors and events, `pools` the pool without a client around it.
`spans` alone needs OpenTelemetry, and is imported when a scenario observes spans.

This is the one driver that runs in virtual time: `adapter` gives it the clock, the network and the random
numbers of its deployment. `harness.formats` and the swarm use `results` and `pools` by themselves.
"""
