"""The search page: its settings, its colours and the files that the browser loads."""
