"""Runs a case many times, disturbed each time in another way, and finds the least that makes it fail.

`schedule` says what can be disturbed and draws it from dice, `disturbance` decides what becomes of a packet
or a task, `line` and `network` carry that out, `shrink` looks for the smallest schedule that fails,
`pass_rate` counts, `lab` runs it all, and `report` tells.
"""
