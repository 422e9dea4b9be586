"""Test a credit method of your own against contributions that are known.

marimo edit examples/notebooks/own_method.py
python examples/notebooks/own_method.py -- --traces 128  # as a script, over more runs
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
    # Is my credit method any good?

    Real recordings have no true contributions to compare with. Generated runs do: their outcome is made of
    effects that are planted in every event. Write a method, rank it beside others, then make the
    world harder.

    ## A method in four lines

    `value_gain` credits an event with how much it raised the value that a critic recorded. A method gets the
    corpus and returns a value for every event; roll-up to turns, agents and roles comes with it.
    """)
    return


@app.cell
def _(mo, ot, pl):
    @ot.credit_method("value_gain", summary="how much an event raised the value", quantity="advantage")
    def value_gain(corpus, rewards, params, seed):
        gain = pl.col("value").shift(-1).over("trace") - pl.col("value")
        return ot.EventValues(corpus.events.select(value=gain.fill_null(0.0)).collect())

    methods = ["value_gain", "gae", "flow", "uniform"]
    mo.md(
        f"`{methods[0]}` is registered; it is compared with {', '.join(f'`{name}`' for name in methods[1:])}."
    )
    return (methods,)


@app.cell
def _(mo):
    events = mo.ui.dropdown([8, 16, 64, 256], value=8, label="events of a run")
    value_noise = mo.ui.slider(0.0, 1.0, 0.1, value=0.0, show_value=True, label="error of the critic")
    outcome = mo.ui.dropdown(["linear", "threshold"], value="linear", label="outcome")
    mo.vstack([mo.md("## The world"), mo.hstack([events, value_noise, outcome], justify="start")])
    return events, outcome, value_noise


@app.cell
def _(events, methods, mo, ot, outcome, pl, value_noise):
    traces = int(mo.cli_args().get("traces") or 64)
    corpus, truth = ot.synthetic.planted(
        traces=traces,
        agents=4,
        events=events.value,
        value_noise=value_noise.value,
        outcome=outcome.value,
        seed=1,
    )
    marked = ot.compare(corpus, methods, unit="event", truth=truth.contributions)
    told = ["method", "quantity", "truth_spearman", "truth_spearman_lower", "truth_spearman_upper", "error"]
    marked.select(told).with_columns(pl.col(pl.Float64).round_sig_figs(3))
    return (marked,)


@app.cell
def _(alt, marked):
    base = alt.Chart(marked.drop_nulls("truth_spearman")).encode(
        y=alt.Y("method", sort=marked["method"].to_list(), title=None)
    )
    interval = base.mark_rule().encode(
        x=alt.X("truth_spearman_lower", title="rank correlation with the truth, 95 % interval over tasks"),
        x2="truth_spearman_upper",
    )
    (interval + base.mark_circle(size=60).encode(x="truth_spearman")).properties(width=480)
    return


@app.cell
def _(mo):
    mo.md("""
    ## How fast does it fade?

    Credit loses first to an error of the critic and to the length of runs. Each column is a world.
    """)
    return


@app.cell
def _(methods, ot, pl):
    worlds = []
    for noise in (0.0, 0.5):
        for length in (8, 64):
            runs, known = ot.synthetic.planted(traces=32, agents=4, events=length, value_noise=noise, seed=2)
            ranks = ot.compare(runs, methods, unit="event", truth=known.contributions)
            worlds.append(
                ranks.select("method", pl.col("truth_spearman").round(2)).with_columns(
                    world=pl.lit(f"{length} events, error {noise}")
                )
            )
    faded = pl.concat(worlds).pivot("world", index="method", values="truth_spearman")
    faded
    return (faded,)


@app.cell
def _(mo):
    mo.md("""
    A good number in one world is one opinion. Change `effects=` and `outcome=` as well, and run the study
    (`orchestrace study run`) before you publish. Real runs differ from all of these: labels by people are the
    other half of a test (`ot.evaluation.failure_attribution`).
    """)
    return


if __name__ == "__main__":
    app.run()
