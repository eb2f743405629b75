"""What runs stand on: this process and its signals, virtual time, networks in memory, disturbed or not."""
