"""A search as a library: find or build its pipeline, fill its store, ask it; no web framework."""
