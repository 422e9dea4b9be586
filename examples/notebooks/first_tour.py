"""A first tour: read recordings, see what is broken, measure, credit, replay.

marimo edit examples/notebooks/first_tour.py                # as a notebook
python examples/notebooks/first_tour.py -- --path my_runs/  # as a script, on your own recordings
"""

import marimo

app = marimo.App(width="medium")


@app.cell
def _():
    import marimo as mo
    import polars as pl

    import orchestrace as ot
    from orchestrace.corpus.samples import samples_path

    def rounded(frame):
        return frame.with_columns(pl.col(pl.Float64).round_sig_figs(4))

    return mo, ot, pl, rounded, samples_path


@app.cell
def _(mo):
    mo.md("""
    # A first tour

    Everything below runs on the sample corpus, of whose 44 records seven are broken on purpose. Give `--path`
    a file or folder of your own and it runs on that: the format is found by content.
    """)
    return


@app.cell
def _(mo, ot, samples_path):
    path = mo.cli_args().get("path")
    corpus = ot.read_traces(str(path) if path else samples_path())
    corpus
    return (corpus,)


@app.cell
def _(corpus, mo, ot):
    story = ot.summary(corpus)
    mo.md("\n".join(f"- **{about or 'Also'}**: {said}" for about, said, _ in story.sentences("runs/")))
    return


@app.cell
def _(mo):
    mo.md("""
    ## What was read, and what is broken

    Nothing is dropped in silence: records read are used, ignored by kind, duplicate or quarantined, each with
    a place and a code. `corpus.quarantine` has the rows.
    """)
    return


@app.cell
def _(corpus, mo, ot):
    summary = ot.describe(corpus)
    told = {"What was read": "formats", "What is odd": "findings", "What was rejected, and why": "quarantine"}
    mo.vstack(
        part
        for heading, table in told.items()
        for part in (
            mo.md(f"**{heading}**"),
            summary[table] if summary[table].height else mo.md("Nothing."),
        )
    )
    return


@app.cell
def _(mo):
    mo.md("""
    ## How the runs were organized

    A row per trace. A metric that a recording does not support is null, and the column `reason` says why.
    """)
    return


@app.cell
def _(corpus, ot, rounded):
    metrics = ot.metrics(corpus)
    names = ["n_agents", "n_events", "work", "span", "parallelism", "utilization"]
    rounded(metrics.select("trace_id", *names, "reason").sort("n_events", descending=True))
    return (metrics,)


@app.cell
def _(corpus, metrics, ot):
    longest = metrics.sort("n_events", descending=True)["trace_id"][0]
    ot.plot.timeline(corpus, longest)
    return


@app.cell
def _(mo):
    mo.md("""
    ## Whose time the runs waited for
    """)
    return


@app.cell
def _(corpus, ot, pl, rounded):
    waited = (
        ot.schedules.critical_path(corpus, by="type")
        .group_by("type")
        .agg(pl.col("critical", "off_path").sum())
        .sort("critical", descending=True)
    )
    rounded(waited)
    return


@app.cell
def _(mo):
    mo.md("""
    ## Which agent earned the outcome

    `flow` hands the reward back along the graph and keeps its sum; `ot.list_methods()` lists the others.
    Ask any number where it comes from.
    """)
    return


@app.cell
def _(corpus, ot):
    channel = "team" if "team" in corpus.reward_channels() else next(iter(corpus.reward_channels()), None)
    credits = ot.credit(corpus, method="flow", unit="agent", reward=channel) if channel else None
    credits if credits is None else ot.plot.credit(credits)
    return (credits,)


@app.cell
def _(corpus, credits, mo, ot, pl, rounded):
    best = None if credits is None else credits.drop_nulls("unit_id").filter(pl.col("credit").is_not_null())
    if best is None or not best.height:
        why = mo.md("No trace has a reward: give each one with `corpus.with_measures`.")
    else:
        top = best.sort("credit", descending=True).row(0, named=True)
        why = rounded(ot.explain(corpus, credits, top["unit_id"], top["trace"]))
    why
    return


@app.cell
def _(mo):
    mo.md("""
    ## What if there were fewer slots

    Only timing changes: the tier is `schedule`. Every greedy queue lies in the band.
    """)
    return


@app.cell
def _(corpus, ot, pl):
    curve = ot.schedules.scaling_curve(corpus, [1, 2, 4, 8, 16])
    unit = curve["unit"].drop_nulls().value_counts(sort=True)["unit"][0]  # seconds and steps do not add
    ot.plot.scaling(curve.filter(pl.col("unit") == unit))
    return


if __name__ == "__main__":
    app.run()
