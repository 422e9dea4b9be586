"""Counterfactual replay of runs under interventions, and the outcome models behind it."""
