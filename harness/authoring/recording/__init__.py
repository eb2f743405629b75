"""Recording: a scenario's operations are run, and what came of them is written down as what to expect."""
