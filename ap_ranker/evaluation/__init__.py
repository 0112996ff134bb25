"""How good a ranking is: trec_eval's measures, BM25 beside the model, on the same candidates."""
