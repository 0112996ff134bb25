"""A trained model at work: load a checkpoint, encode answers, rank them. No Haystack here."""
