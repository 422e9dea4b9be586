"""Coverage of the survey's taxonomy by this engine, from its own registries."""

from collections import Counter
from typing import Any, Final

import polars as pl

from ..base.taxonomy import CREDIT_UNITS, REWARD_FAMILIES, SUB_DECISIONS, SubDecision, verbs_for
from ..corpus.corpus import Corpus
from ..corpus.units import TraceEvents, TracesByNumber
from ..credit.verb import list_methods
from ..effects import observed, spawning  # noqa: F401  # which declare what they serve
from ..rewards import list_rules
from ..stopping import answer_evaluation, answer_rules  # noqa: F401  # the same

STATUS: Final = pl.Enum(["computed", "channel", "not_yet"])
IN_UNIT: Final = pl.Enum(["alone", "among_others"])
MISSING: Final = pl.Enum(["methods", "event_type", "unit"])

#: One run in which every type of event happens once: ``type agent to tool``.
_SPECIMEN: Final = (
    ("orchestrator_decision", "lead", None, None),
    ("spawn", "lead", "worker", None),
    ("message", "lead", "worker", None),
    ("tool_call", "worker", None, "search"),
    ("tool_result", "worker", None, "search"),
    ("return", "worker", "lead", None),
    ("human_intervention", "user", "lead", None),
    ("safety_event", "lead", None, None),
    ("aggregate", "lead", None, None),
    ("despawn", "lead", "worker", None),
)
_ROLES: Final = {"lead": "lead", "worker": "executor"}


def coverage(papers: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """What this engine can compute of each reward family, credit unit and sub-decision, beside a paper pool.

    Parameters
    ----------
    papers
        The pool, with ``reward_type`` and ``credit_granularity`` (String); any number of rows.

    Returns
    -------
    dict of DataFrame
        ``reward_families``: family, name, papers (UInt32), rules (names of those of `ot.rewards.list_rules`
        that pay such a reward), status. ``credit_units``: unit, papers, shares, advantages (UInt32: how many
        methods report there, by what they give), methods (their names). ``sub_decisions``: decision, name,
        event_types, verbs (those that estimate its effect). ``cells``: one row per family, unit and decision,
        in that order: family, unit, decision, papers, methods (how many), verbs, in_unit, status, missing.
        ``coverage``: the same as a table of units and decisions, each cell the number of families.

        ``status`` is ``computed`` where a rule pays the family from what events say, ``channel`` where each
        of its rules needs a recorded reward channel, ``not_yet`` where credit at that unit says nothing of
        that decision, and ``missing`` why: no ``methods`` report there, no ``event_type`` records the
        decision, or the ``unit`` holds no such event. ``in_unit`` says whether a unit is the
        decision ``alone`` or holds it ``among_others``, by what the engine makes of a run in which every
        type of event happens once. ``papers`` of a cell is that of the pair of family and unit: the pool has
        no tag for decisions. Tags that belong to no family or unit are rows whose family or unit is null.

    Notes
    -----
    Linear in the papers; 320 cells.

    Examples
    --------
    >>> import polars as pl
    >>> from orchestrace.scaling.coverage import coverage
    >>> pool = pl.DataFrame({"reward_type": ["verifier", "NA"], "credit_granularity": ["role", "NA"]})
    >>> tables = coverage(pool)
    >>> tables["coverage"].filter(unit="message").select("O3", "O5").row(0)
    (8, 0)
    """
    family_of = {tag: family.id for family in REWARD_FAMILIES for tag in family.tags}
    tagged = [
        (family_of.get(reward), unit if unit in CREDIT_UNITS else None)
        for reward, unit in papers.select("reward_type", "credit_granularity").iter_rows()
    ]
    methods = list_methods()
    families = _families(Counter(family for family, _ in tagged), list_rules())
    cells = _cells(Counter(tagged), methods, families)
    return {
        "reward_families": families,
        "credit_units": _units(Counter(unit for _, unit in tagged), methods),
        "sub_decisions": pl.DataFrame(
            [
                (decision.id, decision.name, list(decision.event_types), verbs_for(decision.id))
                for decision in SUB_DECISIONS
            ],
            schema={"decision": pl.String, "name": pl.String, "event_types": _WORDS, "verbs": _WORDS},
            orient="row",
        ),
        "coverage": _counted(cells),
        "cells": cells,
    }


_WORDS: Final = pl.List(pl.String)


def _families(papers: Counter[str | None], rules: pl.DataFrame) -> pl.DataFrame:
    rows: list[tuple[Any, ...]] = []
    for family in REWARD_FAMILIES:
        of_family = rules.filter(family=family.id)
        # a channel is an input of every method, whatever its family
        status = "computed" if (of_family["channels"].list.len() == 0).any() else "channel"
        rows.append((family.id, family.name, papers[family.id], of_family["reward"].to_list(), status))
    rows.append((None, "no family, as tagged", papers[None], [], None))
    schema: dict[str, Any] = {
        "family": pl.String,
        "name": pl.String,
        "papers": pl.UInt32,
        "rules": _WORDS,
        "status": STATUS,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def _units(papers: Counter[str | None], methods: pl.DataFrame) -> pl.DataFrame:
    rows: list[tuple[Any, ...]] = []
    for unit in CREDIT_UNITS:
        here = methods.filter(pl.col("units").list.contains(unit))
        shares = int((here["quantity"] == "share").sum())
        rows.append((unit, papers[unit], shares, here.height - shares, here["name"].to_list()))
    rows.append((None, papers[None], None, None, None))
    schema: dict[str, Any] = {"unit": pl.String}
    schema |= dict.fromkeys(("papers", "shares", "advantages"), pl.UInt32)
    return pl.DataFrame(rows, schema={**schema, "methods": _WORDS}, orient="row")


def _cells(
    papers: Counter[tuple[str | None, str | None]], methods: pl.DataFrame, families: pl.DataFrame
) -> pl.DataFrame:
    specimen = _specimen()
    reward = dict(families.select("family", "status").iter_rows())
    rows = []
    for family in REWARD_FAMILIES:
        for unit in CREDIT_UNITS:
            n_methods = int(methods["units"].list.contains(unit).sum())
            for decision in SUB_DECISIONS:
                held = _held(specimen, unit, decision)
                missing = (
                    "methods"
                    if not n_methods
                    else "event_type"
                    if not decision.event_types
                    else "unit"
                    if held is None
                    else None
                )
                status = reward[family.id] if missing is None else "not_yet"
                cell = (family.id, unit, decision.id, papers[family.id, unit], n_methods)
                rows.append((*cell, verbs_for(decision.id), held, status, missing))
    schema: dict[str, Any] = {
        "family": pl.String,
        "unit": pl.String,
        "decision": pl.String,
        "papers": pl.UInt32,
        "methods": pl.UInt32,
        "verbs": _WORDS,
        "in_unit": IN_UNIT,
        "status": STATUS,
        "missing": MISSING,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def _counted(cells: pl.DataFrame) -> pl.DataFrame:
    computable = pl.col("status") != "not_yet"
    return cells.group_by("unit", maintain_order=True).agg(
        (computable & (pl.col("decision") == decision.id)).sum().cast(pl.UInt32).alias(decision.id)
        for decision in SUB_DECISIONS
    )


def _specimen() -> TraceEvents:
    text = ("type", "agent", "to", "tool")
    events = pl.DataFrame(_SPECIMEN, schema=dict.fromkeys(text, pl.String), orient="row").with_columns(
        trace=pl.lit(0),
        id=pl.format("e{}", pl.int_range(pl.len())),
        t=pl.int_range(pl.len()).cast(pl.Float64),
        role=pl.col("agent").replace_strict(_ROLES, default=None),
        tokens_out=pl.lit(1),
    )
    traces = pl.DataFrame({"trace": [0], "trace_id": ["specimen"]})
    return TracesByNumber(Corpus.from_arrow(traces=traces, events=events))[0]


def _held(specimen: TraceEvents, unit: str, decision: SubDecision) -> str | None:
    """Whether some unit of this level holds the decision, and nothing else."""
    members: dict[str, list[str]] = {}
    for name, (kind, *_) in zip(specimen.units(unit), _SPECIMEN, strict=True):
        if name is not None:
            members.setdefault(name, []).append(kind)
    holding = [kinds for kinds in members.values() if set(kinds) & set(decision.event_types)]
    if not holding:
        return None
    alone = all(set(kinds) <= set(decision.event_types) for kinds in holding)
    return "alone" if alone else "among_others"
