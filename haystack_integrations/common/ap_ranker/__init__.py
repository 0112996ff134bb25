"""What the Haystack components and the document store of ap-ranker have in common."""
