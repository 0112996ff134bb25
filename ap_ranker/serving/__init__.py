"""A pipeline behind a page: the search, its HTTP interface, the feedback that comes back."""
