"""Connection Monitoring and Pooling: a pure state machine, and the shell that does what it says."""
