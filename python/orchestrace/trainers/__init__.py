"""Credit as trainers take it: advantages on arrays, tokens, tables of turns."""
