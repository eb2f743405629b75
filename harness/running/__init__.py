"""A run: a plan of items in, the processes and deployments that run them, and their results.

From the outside in: `conformance` is one run of `pushbackd conform`, which hands results to every report and
ends with an exit code. `run` decides how many processes there are, in which order items go to them, and which
run again. `worker_pool` has the processes of this machine, `cluster` those of a Dask cluster. `executor` runs
an item within one process: it keeps deployments and adapters, makes the world of a case in virtual time,
calls `harness.unified.runner` and has the outcome explained.

`flake_lab` is another kind of run, of the same items again and again under disturbances. `watch` calls a run
again when files are saved.

An item gives the same result in this process, in a worker and on a cluster; whatever would differ belongs
into `Settings`, which travel along.
"""
