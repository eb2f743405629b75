"""Mutation testing: wrong drivers and wrong servers, and which scenarios and tests find them."""
