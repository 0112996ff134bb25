"""Measures rankings as trec_eval does, ties at their expected value, with BM25 on the same candidates beside."""
