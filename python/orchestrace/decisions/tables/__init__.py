"""The table of the five decisions: spawn, delegate, communicate, aggregate, stop."""
