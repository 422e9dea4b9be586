"""What decisions did to the outcome: spawns, messages, delegations, aggregations, matched choices."""
