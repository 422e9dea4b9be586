"""Exports for other tools: the verb, what drawings share, and a folder with one file per target."""
