"""Tools for those who write scenarios: a file to start from, the JSON twin, the schema for editors.

Each tool is one command of `harness.commands`, which reads the options and prints; nothing here knows click
but `swarm.session`, which prints while it runs.

* `template.py`: the text that `pushbackd new` writes. `skeletons`: the adapters that it writes.
* `editor_schema.py`: what `pushbackd schema` prints. It is stricter than the schema that runs check by, in
  names and arguments, so that an editor says while typing what `pushbackd lint` would say later.
* `recording`: `pushbackd record` runs a scenario and writes what it saw as expectations.
* `swarm`: `pushbackd swarm` draws scenarios from seeds, for drivers with an adapter.
* `mutants`: `pushbackd mutants` tries scenarios with wrong drivers and servers. It is the engine below
  `proposals`, where `pushbackd propose` makes wrong drivers of the lines of a patch.

Everything ends in scenarios that `harness.planning` plans and `harness.running` runs; there is no second
runner.
"""
