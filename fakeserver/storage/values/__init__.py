"""Values of BSON and documents: their types, order, arithmetic, text, size and paths."""
