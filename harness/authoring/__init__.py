"""Tools for those who write scenarios: a file to start from, the JSON twin, the schema for editors."""
