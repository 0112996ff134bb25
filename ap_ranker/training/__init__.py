"""Learning from question-answer pairs: settings, batches, objectives, the training run."""
