"""Runs a case many times, disturbed each time in another way, and finds the least that makes it fail.

`schedule` is the language of disturbances and draws them at random, `disturbance` decides how late a packet
or a task is, `link` and `network` delay them, `shrink` looks for the smallest schedule that fails,
`pass_rate` counts, `lab` arranges all runs, `report` prints them, and `run` is a run from the command line.
"""
