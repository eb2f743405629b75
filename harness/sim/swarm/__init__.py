"""The swarm: many small deployments under seeded faults, each judged by what it left behind."""
