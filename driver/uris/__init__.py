"""Connection strings: their parts, and the values of their options."""
