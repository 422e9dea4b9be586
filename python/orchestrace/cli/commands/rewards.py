"""Compute rewards by rules: what each run or unit is paid."""

from typing import Annotated, Final

import typer

from ...base.errors import ParameterError
from ...rewards import compute, list_rules as reward_rules
from ..options import EngineOptions, Params, StrictOptions
from ..recordings import report_quarantined, usable
from ..registry import command
from ..tables import Columns, TableOptions
from ..values import rule_channels, rule_params

EXAMPLES: Final = (
    "rewards runs.jsonl --rule parl",
    "rewards corpus --rule parl --engine processes --workers 1",
)
COLUMNS: Final = Columns("trace_id reward family unit unit_id value reason")


@command
def run(
    recordings: StrictOptions,
    table: TableOptions,
    engine: EngineOptions,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule", help="A rule of ot.rewards.list_rules(); repeatable; default: all that pay the team."
        ),
    ] = None,
    param: Params = None,
    channel: Annotated[
        list[str] | None,
        typer.Option("--channel", help="NAME=REWARD: which recorded reward a rule's channel is; repeatable."),
    ] = None,
) -> None:
    rules = reward_rules()
    names = rule or rules.filter(unit="team")["reward"].to_list()
    params = rule_params(param)
    if params and len(names) != 1:
        raise ParameterError("--param applies to one rule: name it with --rule")
    corpus = usable(recordings)
    frame = compute(
        corpus,
        {names[0]: params} if params else names,
        channels=rule_channels(channel),
        **engine.running(recordings.threads),
    )
    table.give(frame, "rewards", COLUMNS)
    report_quarantined(corpus, recordings, recordings.strict)
