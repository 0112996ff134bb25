"""Question-answer data: files become rows, rows become questions, answers and candidates."""
