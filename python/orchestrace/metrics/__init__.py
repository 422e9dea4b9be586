"""Metrics of recordings, trace by trace, and two corpora side by side."""
