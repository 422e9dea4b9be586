"""Which unit earned the outcome: the verb, the registry of methods, explanations."""
