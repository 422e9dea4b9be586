"""How rewards are gamed: their sums, their verifiers, and signs that a rule pays for the wrong thing."""
