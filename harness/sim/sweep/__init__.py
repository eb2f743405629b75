"""Sweeps: a grid of scenarios in, a line of results for each out, on all cores or on a cluster.

`build` makes dataclasses of YAML and refuses what they do not have, `grid` multiplies a scenario by lists of
values, `results` is the file that a sweep goes on from, and `run` is the sweep itself.
"""
