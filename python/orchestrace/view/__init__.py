"""Recordings as one page: runs, timelines, credit, and what if, in an HTML file that opens offline."""
