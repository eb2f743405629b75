"""Access control: users, roles, privileges, and the conversations that prove a password."""
