"""How fast: our models beside what a user would take otherwise, on the same documents in the same run."""
