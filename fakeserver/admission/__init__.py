"""The server's admission control, decided without waiting: every instant is an argument, in seconds."""
