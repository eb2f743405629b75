"""The fields of commands, declared as in a server's interface definition language, and their validation."""
