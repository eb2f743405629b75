"""The swarm: many small deployments under seeded faults, each judged by what it left behind.

`judging.py` leads: for each seed it draws a `Schedule` (`drawing.py`, `schedule.py`), runs it (`run.py`),
and holds the history against the checkers. A run has clients that work (`workload.py`, by the reference
driver), faults that come and go (`deeds.py`, on the network of `network.py`), and notes of everything.
`timeline.py` shows one run.

`history.py` is the contract between the two halves: workloads write a `RunHistory` and judge nothing,
`checkers` read it and know no workload. So a new kind of work is added to the history first, and a checker
is tested with histories written by hand. All is in virtual time: seconds of the world's clock, the same for
the same schedule on any machine. A schedule that fails is shrunk, and printed as the text that repeats it.

`harness.authoring.swarm` is the swarm for drivers of others, which need adapters, scenarios and real time.
"""
