"""Output that commands share: documents, errors, expansions."""
