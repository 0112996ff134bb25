"""The search page: the pipeline behind it, the HTTP interface, and users' feedback."""
