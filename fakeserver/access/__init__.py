"""Who a client is, and what it may do: users, roles, and the conversations that prove a password."""
