"""Text becomes words: `reading` for search, `tokenizer` for word models, `subwords` for encoders, `keys` to compare."""
