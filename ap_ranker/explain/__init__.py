"""Explanations and results as pages and plots."""
