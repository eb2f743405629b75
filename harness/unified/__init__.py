"""The unified test format: load, check and run scenarios.

A file goes through this room from left to right, and every stop hands on a value:

1. `loader` reads YAML or JSON (a `Marked` document that knows its lines), `schema` refuses what the format
   does not allow, and `build` makes the frozen cases of `model`. Nothing after `build` looks at a raw
   document.
2. `runner` drives the rest. It asks `requirements` whether a case applies, has `state` write the data,
   `creation` make what `entities` holds, and looks each operation up in `operations`.
3. `account` keeps which operations ran and what clients said, while the case runs. `observation` says which
   of a client's events a scenario may see; `matching` compares, and knows neither driver nor servers.
4. `server_side` is the key `pushbackd`: the same case as the servers saw it. Its `oracles` judge any case by
   the rules of the specifications.
5. Whatever happens becomes one `outcome`. `errors` are the mistakes of the scenario; those of the driver
   arrive as `OperationFailed` of the adapter.

A change of the format begins in `schema/grammar`. A new operation is a row of a table in `operations`, a new
operator a row of `matching/matcher`, a new rule about servers a row of `server_side/oracles`.
"""

from __future__ import annotations
