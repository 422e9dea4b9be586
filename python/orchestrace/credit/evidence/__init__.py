"""Where the amount of one row of a credit method comes from, method by method, for `explain`.

Every finding with a weight is a term: the terms of a part sum to its amount. Findings without one stand
beside. The formulas are those of the methods, on one trace and its group.
"""

from collections.abc import Callable, Iterator
from typing import Final

from .games import FORMULAS, game
from .groups import among_turns, rollouts, shaped, whitened
from .paths import along_turns, broadcast, dag_gae, discounted, divided, flow
from .policy import by_policy
from .question import Evidence, Part, Question, Teller, own_rows
from .siblings import c3, gigpo, spectrum

__all__ = ["Evidence", "Part", "Question", "evidence", "own_rows"]

_MAKERS: Final[dict[str, Callable[[Question], Teller]]] = {
    "uniform": divided,
    "broadcast": broadcast,
    "discounted": discounted,
    "flow": flow,
    "flow_discounted": flow,
    "dag_gae": dag_gae,
    **dict.fromkeys(("return_to_go", "gae", "sequential_gae", "eligibility"), along_turns),
    **dict.fromkeys(("grpo", "dr_grpo", "rloo", "pass_k"), rollouts),
    "reinforce_pp": whitened,
    "shape_normalised": shaped,
    **dict.fromkeys(("dr_mas", "at_grpo", "magrpo", "marshal"), among_turns),
    "gigpo": gigpo,
    "c3": c3,
    **dict.fromkeys(("aristocrat", "coma"), by_policy),
    "spectrum": spectrum,
    **dict.fromkeys(FORMULAS, game),
}


def evidence(question: Question, parts: list[Part]) -> Iterator[tuple[int | None, Evidence]]:
    """Findings, each with the number of its part; None where it holds for all of them."""
    for name, value in question.fit.items():
        number = float(value) if isinstance(value, int | float) else None
        yield None, Evidence("fit", "fitted over the corpus", None, number, other=str(name))
    make = _MAKERS.get(question.method)
    if make is None:
        yield None, Evidence("method", question.summary, None, None, other=question.method)
        return
    tell = make(question)
    for n, part in enumerate(parts):
        for found in tell(part):
            yield n, found
