"""What each method of CRUD, and of its neighbours, sends: builders of commands, one family per file."""
