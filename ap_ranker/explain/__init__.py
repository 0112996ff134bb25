"""What a model looked at and what was measured, as pages and pictures."""
