"""Options that commands share, and the types of their values."""
