"""Commands that start a fake deployment, run a program with it, list and end those that run."""
