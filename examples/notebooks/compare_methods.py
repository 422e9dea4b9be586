"""Compare credit methods where the truth is known, and where it is not.

marimo edit examples/notebooks/compare_methods.py
python examples/notebooks/compare_methods.py -- --path my_runs/
"""

import marimo

app = marimo.App(width="medium")


@app.cell
def _():
    import altair as alt
    import marimo as mo
    import polars as pl

    import orchestrace as ot

    return alt, mo, ot, pl


@app.cell
def _(mo):
    mo.md("""
    # Which credit method to believe

    On generated runs every event's contribution is planted, so that a method can be marked. On your own there
    is no truth: what is left is how far methods agree, and what each leaves without an answer.
    """)
    return


@app.cell
def _(ot, pl):
    planted, truth = ot.synthetic.planted(traces=64, agents=5, seed=0)
    chosen = [
        "uniform",
        "broadcast",
        "flow",
        "discounted",
        "difference",
        "shapley",
        "banzhaf",
        "grpo",
        "rloo",
        "rudder",
    ]
    known = set(ot.list_methods()["name"])
    methods = [name for name in chosen if name in known]
    marked = ot.compare(planted, methods, unit="agent", truth=truth.agents)
    marked.select(
        "method",
        "quantity",
        "truth_spearman",
        "truth_spearman_lower",
        "truth_spearman_upper",
        "agreement",
        "reason",
    ).with_columns(pl.col(pl.Float64).round_sig_figs(3))
    return marked, methods


@app.cell
def _(alt, marked):
    rows = marked.drop_nulls("truth_spearman").sort("truth_spearman", descending=True)
    # Layers share the axis: an order by the x of one of them would not hold for the other.
    base = alt.Chart(rows).encode(y=alt.Y("method", sort=rows["method"].to_list(), title=None))
    interval = base.mark_rule().encode(
        x=alt.X(
            "truth_spearman_lower",
            title="rank correlation with the planted contribution, 95 % interval over tasks",
        ),
        x2="truth_spearman_upper",
    )
    (interval + base.mark_circle(size=60).encode(x="truth_spearman")).properties(width=480)
    return


@app.cell
def _(mo):
    mo.md("""
    A method without a number here is not wrong: an advantage that is the same for every agent of a run has no
    order within it. Generated runs say what a method does when its assumptions hold, not that yours meet
    them.

    ## On recordings without a truth
    """)
    return


@app.cell
def _(methods, mo, ot, pl):
    path = mo.cli_args().get("path")
    corpus = ot.read_traces(str(path)) if path else ot.generate(traces=64, seed=1)
    channel = next(iter(sorted(corpus.reward_channels(), key=lambda name: name != "team")), None)
    table = ot.compare(corpus, methods, unit="agent", reward=channel) if channel else None
    None if table is None else table.with_columns(pl.col(pl.Float64).round_sig_figs(3))
    return (table,)


@app.cell
def _(mo, pl, table):
    if table is None:
        left = mo.md("No trace has a reward: give each one with `corpus.with_measures`.")
    else:
        missing = table.filter((pl.col("null_share") > 0) | pl.col("error").is_not_null())
        why = missing.select("method", "null_share", "reason", "error")
        left = mo.vstack(
            [mo.md("What has no credit, and why:"), why if why.height else mo.md("Every row has a credit.")]
        )
    left
    return


if __name__ == "__main__":
    app.run()
