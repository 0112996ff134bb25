"""Text becomes words: `reading` for search, `tokenizer` for models, `keys` to compare."""
