"""Server Discovery and Monitoring, and Server Selection: pure knowledge, and the monitors that feed it."""
