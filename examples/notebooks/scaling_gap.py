"""The scaling gap: where recordings lie beside published systems, and what size does to credit.

marimo edit examples/notebooks/scaling_gap.py
python examples/notebooks/scaling_gap.py -- --path my_runs/
"""

import marimo

app = marimo.App(width="medium")


@app.cell
def _():
    import tempfile

    import altair as alt
    import marimo as mo
    import polars as pl

    import orchestrace as ot

    return alt, mo, ot, pl, tempfile


@app.cell
def _(mo):
    mo.md("""
    # The scaling gap

    Companies report hundreds of agents and thousands of steps; open work trains on a few agents and tens of
    steps. Where do recordings lie, and what does the difference do to reward, credit and orchestration?

    ## Where recordings lie
    """)
    return


@app.cell
def _(mo, ot, pl):
    path = mo.cli_args().get("path")
    corpus = ot.read_traces(str(path)) if path else ot.generate(traces=64, seed=0)
    coordinates = ot.scaling.distance_to_published(
        corpus, against="Kimi K2.6 Agent Swarm (reported envelope)"
    )
    coordinates.with_columns(pl.col(pl.Float64).round_sig_figs(3))
    return (corpus,)


@app.cell
def _(alt, corpus, ot, pl):
    published = (
        ot.scaling.list_envelopes()
        .select("system", "kind", agents="agents_max", steps="steps_max")
        .drop_nulls()
    )
    runs = ot.metrics(corpus, groups=["scale", "stages"]).select(
        pl.col("trace_id").alias("system"),
        pl.lit("recorded").alias("kind"),
        agents="n_agents",
        steps=pl.col("total_steps").cast(pl.Float64),
    )
    points = pl.concat([published, runs], how="vertical_relaxed").filter(pl.col("steps") > 0)
    alt.Chart(points).mark_circle(size=60, opacity=0.7).encode(
        x=alt.X("steps", title="steps in a run").scale(type="log"),
        y=alt.Y("agents", title="agents").scale(type="log"),
        color=alt.Color("kind", title=None),
        tooltip=["system", "agents", "steps"],
    ).properties(width=540, height=320)
    return


@app.cell
def _(mo):
    mo.md("""
    ## What size does to credit

    A small ladder of generated runs whose contributions are planted. The full one is `examples/study.toml`,
    `orchestrace study run examples/study.toml -o study` runs it, `orchestrace study report study` reports it.
    """)
    return


@app.cell
def _(ot, pl, tempfile):
    ladder = {
        "sizes": [
            {"events": 12, "agents": 3, "traces": 96},
            {"events": 60, "agents": 6, "traces": 96},
            {"events": 300, "agents": 20, "traces": 48},
        ],
        "presets": {"additive": {"outcome": "linear", "density": 1.0, "decisive": 0.0}},
        "methods": ["flow", "broadcast", "gae", "dag_gae"],
        "units": ["event"],
    }
    with tempfile.TemporaryDirectory() as folder:
        cells = ot.study.run(ladder, folder, workers=0)
    shown = cells.select("method", "events", "agents", "rho", "rho_lower", "rho_upper", "rollouts", "status")
    shown.with_columns(pl.col(pl.Float64).round_sig_figs(3))
    return (cells,)


@app.cell
def _(alt, cells):
    rungs = cells.drop_nulls("rho")
    line = alt.Chart(rungs).encode(
        x=alt.X("events", title="steps in a run").scale(type="log"), color=alt.Color("method", title=None)
    )
    curve = line.mark_line(point=True).encode(
        y=alt.Y("rho", title="rank correlation with the planted contribution")
    )
    (curve + line.mark_rule().encode(y="rho_lower", y2="rho_upper")).properties(width=540, height=280)
    return


@app.cell
def _(mo):
    mo.md("""
    ## The law behind it

    If one number pays everybody, the correlation of a unit's true contribution with it falls as n^(-1/2), and
    the rollouts that show its effect grow with n.
    """)
    return


@app.cell
def _(mo, ot, pl):
    law = ot.scaling.diffusion_law(seed=0)
    sizes = [10, 100, 1000, 4000]
    needed = pl.DataFrame({"n": sizes, "rollouts": ot.scaling.rollouts_needed(sizes)})
    mo.vstack([law.slope.with_columns(pl.col(pl.Float64).round_sig_figs(3)), needed])
    return (needed,)


if __name__ == "__main__":
    app.run()
