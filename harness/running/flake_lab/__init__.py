"""Runs a case many times, disturbed each time in another way, and finds the least that makes it fail.

`lab` arranges the runs and counts, `shrink` looks for the smallest schedule that fails, `report` prints, and
`page` draws. A schedule and the network that obeys it are `harness.world.schedule` and `.disturbed`.
"""
