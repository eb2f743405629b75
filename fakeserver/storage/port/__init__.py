"""The port of storage: an engine, the surroundings of a query, and the order of writes."""
