"""A swarm for any driver: drawn cases, run through its adapter, judged by the oracles of `expectRules`."""
