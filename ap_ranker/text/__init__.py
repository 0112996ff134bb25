"""Text becomes token ids: words, vocabulary, word vectors, padded batches."""
