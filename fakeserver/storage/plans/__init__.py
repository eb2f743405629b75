"""Plans: indexes, their keys, and the choice between them."""
