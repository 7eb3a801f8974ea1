"""The query language: text becomes tokens, tokens an expression, and an expression its canonical text."""
