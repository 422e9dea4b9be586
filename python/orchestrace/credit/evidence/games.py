"""Values of games: the terms of one player's value, by its method."""

from typing import Any, Final

#: v(S) is the value of the outcome when of all players those of S act.
FORMULAS: Final[dict[str, str]] = {
    "difference": "amount = v(N) - v(N without i)",
    "shapley": "amount = Σ over S without i of |S|! (n - |S| - 1)! / n! (v(S with i) - v(S))",
    "banzhaf": "amount = mean of v(S with i) - v(S) over all S without i",
    "normalized_banzhaf": "amount = β (v(N) - v(nobody)) / Σ β, β = mean of v(S with i) - v(S) over all S",
    "owen": "amount = mean of v(S with i) - v(S), S those before i in an order that keeps roles together",
    "winter": "amount = mean of v(S with i) - v(S), S those before i in an order that keeps roles and agents"
    " together",
    "myerson": "amount = Shapley value of Σ v(C) - v(nobody) over the parts C of S that links join",
    "precedence_shapley": "amount = mean of v(S with i) - v(S), S those before i, spawners coming first",
    "permission": "amount = Shapley value of v(those of S whose whole chain of spawners is in S)",
    "sharp": "amount = c by `norm` over the agent's rollouts of the group, c = broadcast R + marginal (v(N) -"
    " v(N without i)) + process (share of its judged tool results that are ok)",
}


def rule_of(method: str, params: dict[str, Any]) -> str:
    """How the one term of a player is defined and drawn; 2^n coalitions would say less than their mean."""
    rule = FORMULAS[method]
    if params.get("samples") is not None:
        rule += f", from at most {params['samples']} samples"
    if params.get("scaled"):
        rule += ", times R / (v(N) - v(nobody))"
    return rule
