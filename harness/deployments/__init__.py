"""The deployments that cases run on: embedded fake servers, and servers behind a connection string."""
