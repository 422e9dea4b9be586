"""The terms of one row's amount in a credit method, for `explain`.

Every finding with a weight is a term: the terms of a part sum to its amount. Findings without one stand
beside. Methods of the core report their own terms; this room has words for games, and terms of methods that
are written in Python.
"""

from typing import Any

import polars as pl

from .games import FORMULAS, rule_of
from .policy import POLICY
from .question import SCHEMA, Part, Question

__all__ = ["SCHEMA", "Part", "Question", "evidence"]


def evidence(question: Question, parts: list[Part]) -> pl.DataFrame:
    """Findings: ``part kind seq other weight amount rule``; ``part`` is null where one holds for all."""
    fit = [
        (None, "fit", None, str(name), None, _number(value), "fitted over the corpus")
        for name, value in question.fit.items()
    ]
    beside = pl.DataFrame(fit, schema=SCHEMA, orient="row")
    if question.of_core and question.method not in FORMULAS:
        return pl.concat([beside, question.terms(parts)])
    return pl.concat([beside, pl.DataFrame(_rows(question, parts), schema=SCHEMA, orient="row")])


def _rows(question: Question, parts: list[Part]) -> list[tuple[Any, ...]]:
    if question.method in FORMULAS:
        rule = rule_of(question.method, question.params)
        return [(n, "game", part.seq, None, 1.0, part.amount, rule) for n, part in enumerate(parts)]
    if question.method in POLICY:
        return [
            (n, "action", None, other, weight, amount, rule)
            for n, part in enumerate(parts)
            for other, rule, weight, amount in question.policy.terms(question.number, part.seq)
        ]
    return [(None, "method", None, question.method, None, None, question.summary)]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
