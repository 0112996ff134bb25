"""Use of a trained model: load a checkpoint, encode answers, rank them. Independent of Haystack."""
