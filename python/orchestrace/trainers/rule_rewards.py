"""Rules of rewards as the reward functions that TRL calls::

GRPOTrainer(..., reward_funcs=[exact, RuleReward("distinct_calls"), RuleReward("tokens", weight=0.001)])
"""

import io
import json
from typing import Any

import polars as pl

from ..base.errors import ParameterError
from ..corpus.reading import read_traces
from ..rewards.verb import compute


class RuleReward:
    """A rule of `rewards.list_rules` as a reward function: what it pays each completion.

    Parameters
    ----------
    rule
        A rule that pays the team, and reads nothing but what was said, called and returned.
    **params
        Parameters of the rule.

    Notes
    -----
    A completion is a run, with its prompt before it; as a conversation it may call tools. The tokens of
    ``completion_ids`` count as those of its last message. A run for which the rule has no answer gets None,
    which TRL leaves out. The column of the log has the name of the rule.

    Examples
    --------
    >>> from orchestrace.trainers.rule_rewards import RuleReward
    >>> listing = {"type": "function", "function": {"name": "ls", "arguments": "{}"}}
    >>> call = {"role": "assistant", "content": "", "tool_calls": [listing]}
    >>> result = {"role": "tool", "content": "x"}
    >>> RuleReward("distinct_calls")(["What is there?"], [[call, result, call, result]])
    [0.5]
    """

    def __init__(self, rule: str, **params: Any) -> None:
        self._rule = {rule: params}
        self.__name__ = rule

    def __call__(
        self, prompts: list[Any], completions: list[Any], completion_ids: list[Any] | None = None, **_: Any
    ) -> list[float | None]:
        """What each completion is paid, None where the rule has no answer.

        Raises
        ------
        ParameterError
            The rule is unknown, or pays others than the team, or there are more prompts than completions.
        """
        if len(prompts) != len(completions):
            raise ParameterError(f"there are {len(prompts)} prompts and {len(completions)} completions")
        if not completions:
            return []
        pairs = enumerate(zip(prompts, completions, strict=True))
        records = (
            {
                "trajectory_id": str(row),
                "instance_id": json.dumps(prompt, default=repr),
                "messages": _as_messages(prompt, "user") + _as_messages(completion, "assistant"),
            }
            for row, (prompt, completion) in pairs
        )
        lines = [json.dumps(record, default=repr) for record in records]
        corpus = read_traces(io.BytesIO("\n".join(lines).encode()), format="messages")
        rows = corpus.traces.select("trace", row=pl.col("trace_id").cast(pl.UInt32))
        if completion_ids is not None:
            lengths = pl.LazyFrame(
                {"row": range(len(completions)), "tokens_out": list(map(len, completion_ids))}
            )
            last = corpus.events.group_by("trace").agg(pl.col("seq").max())
            wrote = last.join(rows, on="trace").join(lengths.cast({"row": pl.UInt32}), on="row")
            corpus = corpus.with_fields(wrote.select("trace", "seq", "tokens_out").collect())
        paid = compute(corpus, self._rule)
        units = paid["unit"].cast(pl.String).unique().to_list()
        if units not in (["team"], []):
            raise ParameterError(
                f"rule '{self.__name__}' pays {units[0]}, expected a rule that pays the team"
            )
        of_rows = rows.collect().join(paid.select("trace", "value"), on="trace", how="left").sort("row")
        values = dict(of_rows.select("row", "value").rows())
        return [values.get(row) for row in range(len(completions))]


def _as_messages(words: Any, role: str) -> list[Any]:
    """A prompt or completion as messages; a text is one."""
    return list(words) if isinstance(words, list) else [{"role": role, "content": words}]
