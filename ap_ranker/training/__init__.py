"""Trains models on question-answer pairs: settings, batches, objectives, training runs."""
