"""The commands, one module per family, each with its own table; `default_table` merges them."""
