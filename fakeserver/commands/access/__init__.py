"""The commands by which clients come in, and for users and roles."""
