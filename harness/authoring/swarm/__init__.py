"""A swarm for any driver: drawn cases, run through its adapter, judged by the oracles of `expectRules`.

`session.py` leads: it draws, runs, shrinks what failed, and prints (docs/SWARM.md, "Any driver").

* `drawing.py` makes a `SwarmSchedule` of a seed. Operations come from the tables of `work.py`, faults from
  those of `faults.py`, and sequences of answers from `answers.py`.
* `schedule.py` is that value: steps as JSON text, and the smaller schedules that a search tries.
* `scenario.py` writes a schedule as a file of the unified test format, without what an adapter lacks.
* `running.py` has `harness.running` run such files, and takes out of a schedule what a driver said it cannot
  do.

A seed draws the same schedule for every driver of an edition on the same deployments, whatever its features;
what these do not allow is cut when the file is written. So a seed can be compared between drivers, and a new
feature does not change the seeds. `harness.sim.swarm` is another thing: it drives the reference driver
directly and checks histories.
"""
