"""The commands for those who run a server: diagnosis, parameters, fail points, maintenance."""
