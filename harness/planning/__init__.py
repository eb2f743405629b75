"""Plans of runs: the cases with their drivers and deployments, what is expected of them, what they came to.

`discovery` turns paths and short names into files. `plan` reads each file once, makes an `Item` of each case
with each driver and deployment, and holds the `Settings` that all items share. `keywords` and `last_failed`
choose among them. `expectations` has the cases that an adapter is known to fail, and judges results by that.
`result` is what an item comes to.

`Item`, `Settings` and `Result` are plain values: they cross processes and a cluster, and stand in files of
results. So they name files, adapters and deployments by text, and each process loads what it needs for
itself.

`harness.commands.conform` puts a plan together, `harness.running` performs it, `harness.report` reads the
results.
"""
