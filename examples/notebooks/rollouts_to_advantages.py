"""From rollouts to advantages: groups, credit per turn, and the table that a trainer reads.

marimo edit examples/notebooks/rollouts_to_advantages.py
python examples/notebooks/rollouts_to_advantages.py -- --path my_rollouts/
"""

import marimo

app = marimo.App(width="medium")


@app.cell
def _():
    import marimo as mo
    import polars as pl

    import orchestrace as ot

    return mo, ot, pl


@app.cell
def _(mo):
    mo.md("""
    # From rollouts to advantages

    A trainer wants one number for each turn that the policy wrote. A method of your choice computes it
    here, and the result is written as the Parquet file that verl or TRL reads.
    """)
    return


@app.cell
def _(mo, ot):
    path = mo.cli_args().get("path")
    corpus = ot.read_traces(str(path)) if path else ot.generate(traces=64, seed=3)
    corpus
    return (corpus,)


@app.cell
def _(mo):
    mo.md("""
    ## Groups that teach something

    Group methods compare rollouts of one task. A group whose rewards all agree has nothing to teach: every
    advantage in it is 0.
    """)
    return


@app.cell
def _(corpus, mo, ot, pl):
    channel = "team" if "team" in corpus.reward_channels() else next(iter(corpus.reward_channels()), None)
    mo.stop(channel is None, mo.md("No trace has a reward: give each one with `corpus.with_measures`."))
    by_rollout = ot.credit(corpus, method="grpo", unit="team", reward=channel)
    groups = (
        corpus.traces.select("trace", "group_id")
        .collect()
        .join(by_rollout.select("trace", "credit", "reason"), on="trace")
        .group_by("group_id", maintain_order=True)
        .agg(
            rollouts=pl.len(),
            lowest=pl.col("credit").min().round(3),
            highest=pl.col("credit").max().round(3),
            reason=pl.col("reason").cast(pl.String).drop_nulls().first(),
        )
    )
    groups
    return (channel,)


@app.cell
def _(mo):
    method = mo.ui.dropdown(["grpo", "at_grpo", "rloo", "gae", "discounted"], value="at_grpo", label="method")
    layout = mo.ui.dropdown(["verl", "trl"], value="verl", label="trainer")
    mo.vstack([mo.md("## An advantage per turn"), mo.hstack([method, layout], justify="start")])
    return layout, method


@app.cell
def _(channel, corpus, method, ot):
    credits = ot.credit(corpus, method=method.value, unit="turn", reward=channel)
    credits.group_by("reason").len("turns").sort("turns", descending=True)
    return (credits,)


@app.cell
def _(corpus, credits, layout, ot, pl):
    table = ot.trainers.trainer_table(corpus, credits, layout=layout.value).drop_nulls("advantages")
    table.select("agent", "role", "turn", "agent_step", "agent_uid", "advantages", "reward").with_columns(
        pl.col(pl.Float64).round(4)
    )
    return (table,)


@app.cell
def _(mo):
    mo.md("""
    ## Do methods agree on which turns were good?

    Rank correlation of the advantages of turns, method by method. Methods that answer different questions
    need not agree; methods that you would swap for one another should.
    """)
    return


@app.cell
def _(channel, corpus, ot):
    names = ["grpo", "at_grpo", "rloo", "discounted", "flow"]
    ot.plot.agreement(corpus, [ot.credit(corpus, method=name, unit="turn", reward=channel) for name in names])
    return


@app.cell
def _(mo):
    mo.md("""
    ## The file

    The file is written whole or not at all. Texts and token ids are not in it: join your own by
    `trajectory_id` and `seqs`. `ot.trainers.token_weights` has the weights of a loss over tokens.
    """)
    return


@app.cell
def _(mo, table):
    import tempfile
    from pathlib import Path

    written = Path(tempfile.mkdtemp()) / "advantages.parquet"
    table.write_parquet(written)
    mo.md(f"{table.height:,} turns in `{written.name}`, {written.stat().st_size:,} bytes.")
    return


if __name__ == "__main__":
    app.run()
