"""Authentication: who the client is, and the conversations that prove it (Authentication)."""
