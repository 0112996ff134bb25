"""The owner's page: what users ask, what is missing, and changes of the entries."""
