"""The world of a run: this process and its signals, virtual time, networks in memory, disturbed or not.

The lowest floor of the harness; nothing here knows a scenario or a driver. Two halves have little to do with
each other.

Virtual time: `virtual.run_virtual` makes a `World` (clock, random numbers, network) from a seed and runs one
coroutine in it to its end. `clock` is the event loop that jumps from timer to timer, `network` carries bytes
in memory with modelled latency. `schedule` is the text that says which packets and tasks are late, and
`disturbed` obeys it, in virtual and in real time.

This process: `immediate_exit` ends it on the spot before its work has begun and after it; while it works,
`interruption` notes signals, and `cancelling` turns them into the end of a coroutine. `processes` has
processors, garbage collection and pools, `cache_folder` the files that a later run may use again.

Clocks, networks and random numbers keep the protocols of `mongowire.ports`, so all that runs here runs on the
operating system's as well.
"""
