"""Decisions as rows, and what actors had seen when they decided."""
