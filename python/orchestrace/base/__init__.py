"""Foundations of every room: errors, schemas, checks of arguments, text, publication of files."""
