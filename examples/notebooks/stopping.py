"""When should a team have stopped? Rules of stopping on runs whose best stop is known, and on your own.

marimo edit examples/notebooks/stopping.py
python examples/notebooks/stopping.py -- --path my_runs/ --source attempt
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
    # When should the team have stopped?

    Every prefix of a run is a stop that was observed: the answer was worth its quality, and its cost had been
    paid. A rule sees the past only, and is judged on tasks that it was not fitted on.
    """)
    return


@app.cell
def _(mo, ot):
    path = mo.cli_args().get("path")
    source = str(mo.cli_args().get("source") or "attempt")
    if path:
        epochs, truth = ot.stopping.epochs(ot.read_traces(str(path)), source), None
        said = f"{epochs['trace'].n_unique():,} runs of `{path}`; an epoch is one `{source}`."
    else:
        epochs, truth = ot.synthetic.stops(runs=600, seed=0)
        said = "600 planted runs. Quality is a Markov chain; backward induction gives the best rule."
    mo.md(said)
    return epochs, truth


@app.cell
def _(mo, truth):
    price = mo.ui.slider(
        0.0,
        0.1,
        0.005,
        value=0.02 if truth is None else truth.price,
        show_value=True,
        label="price of an epoch",
    )
    mo.vstack(
        [
            mo.md("## What a rule is worth"),
            mo.md("A price says how much quality one unit of cost is worth."),
            price,
        ]
    )
    return (price,)


@app.cell
def _(epochs, ot, pl, price):
    rules = ["recorded", "fixed", "patience", "threshold", "lsm", "oracle"]
    table = ot.stopping.evaluate(epochs, rules, price=price.value, n_boot=200)
    table.select("method", "value", "lower", "upper", "bound_upper", "mean_k", "reason").with_columns(
        pl.col(pl.Float64).round(3)
    )
    return rules, table


@app.cell
def _(mo, table, truth):
    known = dict(table.select("method", "bound_upper").iter_rows())
    values = dict(table.select("method", "value").iter_rows())
    best = "" if truth is None else f" The planted optimum is {truth.value:.3f}."
    mo.md(
        f"The learned rule `lsm` gets {values['lsm']:.3f}, and no rule that sees no more can get above "
        f"{known['lsm']:.3f}.{best} `oracle` knows the future, so nobody reaches it."
        if values["lsm"] is not None and known["lsm"] is not None
        else "The learned rule has no value here; the column `reason` says why."
    )
    return


@app.cell
def _(mo):
    mo.md("""
    ## The price is a choice

    The frontier asks at several prices what quality a rule reaches at what cost.
    """)
    return


@app.cell
def _(epochs, ot, rules):
    shown = [rule for rule in rules if rule != "patience"]
    frontier = ot.stopping.frontier(epochs, shown, prices=[0.0, 0.005, 0.01, 0.02, 0.04, 0.08], n_boot=200)
    ot.plot.stopping(frontier)
    return


@app.cell
def _(mo):
    mo.md("""
    ## Which runs went on too long?
    """)
    return


@app.cell
def _(epochs, ot, pl, price):
    regret = ot.stopping.regret(epochs, price=price.value)
    worst = regret.sort("regret", descending=True, nulls_last=True).head(8)
    worst.with_columns(pl.col(pl.Float64).round(3))
    return


@app.cell
def _(mo):
    mo.md("""
    Only earlier stops were observed. What a run would have come to later is in no recording, and the table of
    regret does not claim it; `estimand="uncapped"` says how far runs that went on can stand for it.
    """)
    return


if __name__ == "__main__":
    app.run()
