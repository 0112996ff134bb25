"""Answer-selection models: `encode` looks at one text, `match` at a pair; one file per model or tight family."""
