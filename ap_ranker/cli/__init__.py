"""The `ap-ranker` command; thin."""
