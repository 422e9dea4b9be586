"""What would have come of runs under interventions, and the outcome models behind it."""
