"""The servers' side of a case: the key `pushbackd`, which expects attempts, connections and metrics.

The key is our own; a plain unified test file does not have it. The fake servers' record of the wire is what
it is judged by, so that one expectation holds for every driver.

The way of a case, with the values that pass from file to file:

1. `build` reads the key into `model` (`ServerSide`), before any run.
2. `sections` is what the runner calls: `begin` turns the record on and `metrics` takes its first snapshot;
   `settle` waits for connections to close; `end` turns the record off; `check` judges.
3. `seen` makes connections and requests of the record's entries. `grouping` says which operation of the
   account sent each request, `attempt` which request is a retry of which and how long after it.
4. `attempts`, `connection_judge` and `metrics` judge the three sections against what was expected, by the
   numbers in `rules` and the statistics in `jitter`. `comparison` lays both side by side for a reader.
5. `oracles` judge `expectRules`: rules that hold for every case, whatever it expects.

Apart from the snapshots of `metrics` and the waiting of `connection_judge`, all after `sections` is pure, and
works on values of tests as on those of a run. The numbers of the specifications stand in `rules` once more
than in the driver: who judges must not ask who is judged.
"""
