"""How long ranking, searching and training take, beside the alternatives that a user has: `make benchmark`."""
