"""Which cases run, with which drivers and deployments, what is expected of them, and what they came to."""
