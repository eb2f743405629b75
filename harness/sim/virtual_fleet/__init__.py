"""The virtual tier of a fleet: clients and server as coroutines in virtual time, over the real objects.

The columns of `harness.sim.fleet` hold the decisions of driver and server once more, as arithmetic on rows of
numbers. Here the same scenario is played by what they stand for: a coroutine for each client, which asks,
waits and gives up, with `driver.policy` for its retries; a task for each request at the server, with the
fake's own `RateLimiter` and `ServiceModel`. The dice are the same, so the course is the same, event by event.
"""
