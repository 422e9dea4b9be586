"""A corpus in a few small tables, and its story in plain English."""
