"""The tables of a corpus: the same bits whenever they are asked for."""

import numpy as np
import polars as pl

import orchestrace as ot


def test_sums_of_prices_are_the_same_bits_every_time() -> None:
    """Of a million orders in which threads may add them up, one."""
    corpus = ot.generate(traces=400, seed=1)
    events = corpus.events.select("trace", "seq").collect()
    rng = np.random.default_rng(0)
    prices = rng.random(events.height) * 10.0 ** rng.integers(-12, 6, events.height)
    corpus = corpus.with_fields(events.with_columns(cost_usd=pl.Series(prices)))
    found = {ot.describe(corpus)["formats"]["cost_usd"][0] for _ in range(20)}
    assert len(found) == 1 and abs(found.pop() / prices.sum() - 1) < 1e-12


def test_sums_of_tokens_do_not_wrap() -> None:
    corpus = ot.generate(traces=2, seed=1)
    first = pl.DataFrame({"trace": [0, 0, 1], "seq": [1, 2, 1], "tokens_in": [2**62] * 3})
    (row,) = ot.describe(corpus.with_fields(first))["formats"].iter_rows(named=True)
    assert row["tokens_in"] == 2**63 - 1
