"""Rules that do not exist yet: proved by a patch of the reference driver, and written for a pull request."""
