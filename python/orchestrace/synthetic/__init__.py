"""Seeded recordings, and planted ones whose truth is known."""
