"""Credit of units for the outcome: the verb, the registry of methods, explanations."""
