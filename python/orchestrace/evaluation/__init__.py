"""How good credit is: comparison, agreement, attribution, faithfulness, siblings, accounts."""
