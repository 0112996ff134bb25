"""Text becomes words: `reading` for search and to compare texts, `tokenizer` for models."""
