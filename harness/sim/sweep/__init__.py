"""Sweeps: a grid of scenarios in, a line of results for each out, on all cores or on a cluster.

`build` makes dataclasses of YAML and refuses what they do not have, `grid` multiplies a scenario by lists of
values, `results` is the file that a sweep goes on from, and `run` is the sweep itself.

All in all: `grid.read_grid` makes points, `results.results_in` says which of them are done, `run.run_points`
hands the others to an executor with `results.measure`, and each that ends is appended. `summary` then reads
rows, and no scenario. Only `measure` knows the fleet; `grid` builds any frozen dataclass with a `seed`.
"""
