"""Labels that name a task instead of a recording, matched to traces."""

from typing import Final

import polars as pl

from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.frames import collected

_TEXT: Final = pl.String


@verb
def place_labels(corpus: Corpus, labels: pl.DataFrame | pl.LazyFrame | None = None) -> pl.DataFrame:
    """Give labels that name a task the ``trace_id`` of its recording, to compare them with credit.

    Parameters
    ----------
    corpus
        The recordings.
    labels
        Rows of `Corpus.labels`, of this or of another corpus; none is those of `corpus`. Needed is
        ``trace_id``; ``turn``, ``agent`` and ``event_id`` are used where they are there.

    Returns
    -------
    DataFrame
        The rows and columns of `labels`, in their order. A ``trace_id`` that is that of no trace is looked
        for among the tasks: first among ``task_id``, then among their last parts (``airline/7`` is found by
        ``7``). Where several traces have the task, it is the one whose agents are all that the labels of
        this task blame; where none or several are left, the row stays as it is. Of rows that have a trace,
        ``agent`` is spelt as in the trace, without regard to case; a name that no agent has, but with which
        the name of exactly one begins (``User``, ``user_simulator``), is that one. An absent ``event_id``
        becomes the first event of the turn by that agent, else the first of the turn.

    Raises
    ------
    ParameterError
        `labels` is not a frame or has no ``trace_id``.

    Notes
    -----
    Linear in labels, and in the events of the traces that they are about.

    Source: AgentRx (https://github.com/microsoft/AgentRx) blames steps of trajectories by the
    ``question_ID`` of Who&When (arXiv 2505.00212) and by the ``task_id`` of tau-bench (arXiv 2406.12045).

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> events = pl.DataFrame({"trace": [0, 0], "id": ["a", "b"], "t": [0.0, 1.0], "turn": [0, 1],
    ...     "type": ["message", "return"], "agent": ["Planner", "Coder"]},
    ...     schema_overrides={"turn": pl.UInt32})
    >>> traces = pl.DataFrame({"trace": [0], "trace_id": ["run-1"], "task_id": ["tasks/7"]})
    >>> corpus = ot.Corpus.from_arrow(traces=traces, events=events)
    >>> labels = pl.DataFrame({"trace_id": ["7"], "annotator": ["me"], "turn": [1], "agent": ["coder"],
    ...     "event_id": [None]}, schema_overrides={"event_id": pl.String})
    >>> ot.evaluation.place_labels(corpus, labels).row(0)
    ('run-1', 'me', 1, 'Coder', 'b')
    """
    table = collected(corpus.labels if labels is None else labels, "labels", ("trace_id",))
    rows = table.with_row_index("row").with_columns(name=pl.col("trace_id").cast(_TEXT))
    blamed = rows.select(
        "name", agent=pl.col("agent").cast(_TEXT) if "agent" in table.columns else pl.lit(None, _TEXT)
    ).unique(maintain_order=True)
    matches = _traces_of(corpus, blamed)
    speakers = _speakers(corpus, matches)
    matches = _unambiguous(matches, blamed, speakers)
    placed = rows.join(matches, on="name", how="left", maintain_order="left").with_columns(
        trace_id=pl.coalesce("found", "name").cast(table.schema["trace_id"])
    )
    if "agent" in table.columns:
        spelt = _spelling(blamed, matches, speakers)
        placed = placed.with_columns(label_agent=pl.col("agent").cast(_TEXT)).join(
            spelt,
            left_on=["name", "label_agent"],
            right_on=["name", "agent"],
            how="left",
            maintain_order="left",
        )
        placed = placed.with_columns(
            agent=pl.coalesce("spelt", "label_agent").cast(table.schema["agent"]),
        )
    if {"event_id", "turn"} <= set(table.columns):
        placed = _with_events(corpus, placed)
    return placed.sort("row").select(table.columns)


def _traces_of(corpus: Corpus, blamed: pl.DataFrame) -> pl.DataFrame:
    """``name trace found``: the traces that a name can mean, by the first of the rules that gives any."""
    wanted = blamed.select("name").drop_nulls().unique(maintain_order=True)
    names = wanted["name"].implode()
    task = pl.col("task_id").cast(_TEXT)
    rules = [pl.col("trace_id").cast(_TEXT), task, task.str.split("/").list.last()]
    traces = corpus.traces.select("trace", "trace_id", "task_id")
    parts = [
        traces.select("trace", found=pl.col("trace_id").cast(_TEXT), name=rule, rule=pl.lit(number, pl.UInt8))
        .filter(pl.col("name").is_in(names))
        .collect(engine="streaming")
        for number, rule in enumerate(rules)
    ]
    all_matches = pl.concat(parts)
    return (
        all_matches.filter(pl.col("rule") == pl.col("rule").min().over("name"))
        .select("name", "trace", "found")
        .sort("name", "trace")
    )


def _speakers(corpus: Corpus, matches: pl.DataFrame) -> pl.DataFrame:
    """``trace speaker folded``: who acts in these traces."""
    return (
        corpus.agents.filter(pl.col("trace").is_in(matches["trace"].unique().implode()))
        .select("trace", speaker=pl.col("agent").cast(_TEXT))
        .unique(maintain_order=True)
        .with_columns(folded=pl.col("speaker").str.to_lowercase())
        .collect(engine="streaming")
    )


def _unambiguous(matches: pl.DataFrame, blamed: pl.DataFrame, speakers: pl.DataFrame) -> pl.DataFrame:
    """Names with one trace; of several the one in which all who are blamed act."""
    alone = matches.filter(pl.len().over("name") == 1)
    several = matches.filter(pl.len().over("name") > 1)
    meant = blamed.drop_nulls().with_columns(folded=pl.col("agent").str.to_lowercase())
    missing = (
        several.join(meant, on="name")
        .join(speakers.select("trace", "folded"), on=["trace", "folded"], how="anti")
        .select("name", "trace")
    )
    fit = several.join(meant.select("name"), on="name", how="semi").join(
        missing, on=["name", "trace"], how="anti"
    )
    return pl.concat([alone, fit.filter(pl.len().over("name") == 1)])


def _spelling(blamed: pl.DataFrame, matches: pl.DataFrame, speakers: pl.DataFrame) -> pl.DataFrame:
    """``name agent spelt``: how the trace writes a blamed agent."""
    pairs = (
        blamed.drop_nulls()
        .join(matches, on="name")
        .join(speakers, on="trace")
        .with_columns(meant=pl.col("agent").str.to_lowercase())
    )
    same = pairs.filter(pl.col("folded") == pl.col("meant")).unique(["name", "agent"], keep="first")
    begun = (
        pairs.filter(pl.col("folded").str.starts_with(pl.col("meant")))
        .join(same, on=["name", "agent"], how="anti")
        .filter(pl.len().over("name", "agent") == 1)
    )
    return pl.concat([same, begun]).select("name", "agent", spelt="speaker")


def _with_events(corpus: Corpus, placed: pl.DataFrame) -> pl.DataFrame:
    """The event that a turn and an agent name, where none is named."""
    of_turns = (
        corpus.events.filter(pl.col("trace").is_in(placed["trace"].drop_nulls().unique().implode()))
        .select(
            "trace",
            pl.col("turn").cast(pl.Int64),
            first=pl.col("id").cast(_TEXT),
            by=pl.col("agent").cast(_TEXT),
        )
        .collect(engine="streaming")
        .drop_nulls("turn")
    )
    by_turn = of_turns.unique(["trace", "turn"], keep="first", maintain_order=True)
    by_both = of_turns.unique(["trace", "turn", "by"], keep="first", maintain_order=True)
    schema = placed.schema
    by = pl.col("agent").cast(_TEXT) if "agent" in placed.columns else pl.lit(None, _TEXT)
    keyed = placed.with_columns(turn_number=pl.col("turn").cast(pl.Int64), by=by)
    keyed = keyed.join(
        by_both.rename({"turn": "turn_number"}),
        on=["trace", "turn_number", "by"],
        how="left",
        maintain_order="left",
    ).join(
        by_turn.select("trace", turn_number="turn", any_first="first"),
        on=["trace", "turn_number"],
        how="left",
        maintain_order="left",
    )
    event = pl.coalesce(pl.col("event_id").cast(_TEXT), "first", "any_first")
    return keyed.with_columns(event_id=event.cast(schema["event_id"]))
