"""Measures rankings as trec_eval does, with BM25 beside the model on the same candidates."""
