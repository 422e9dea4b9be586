"""Data sets of hubs are read without a line of the user's own, and no sentinel becomes a reward."""

from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

import orchestrace as ot
from samples.hub_replicas import REPLICAS, Texts


@pytest.mark.parametrize("name", REPLICAS)
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_data_set_is_read_as_its_card_says(name: str, on_disk: bool, tmp_path: Path) -> None:
    replica = REPLICAS[name](Texts(3), range(60))
    data = tmp_path / "data"
    data.mkdir()
    for part in range(3):
        pq.write_table(replica.table.slice(20 * part, 20), data / f"train-{part}.parquet", row_group_size=7)
    if on_disk:
        ot.ingest(data, tmp_path / "corpus", partitions=3)
    corpus = ot.read_corpus(tmp_path / "corpus") if on_disk else ot.read_traces(data)
    records = 60 * replica.records
    assert corpus.records == {
        "read": records,
        "used": records,
        "ignored": 0,
        "duplicate": 0,
        "quarantined": 0,
    }
    rewards = corpus.measures.filter(kind="reward").select("trace", "value")
    traces = corpus.traces.join(rewards, on="trace", how="left").collect()
    traces = traces.sort(pl.col("file").cast(pl.String), "line")
    assert traces["value"].to_list() == replica.rewards, "what nobody knows is null, and is no failure"
    mine = traces["group_id"].rank("dense").to_list()
    theirs = pl.Series(replica.groups).rank("dense").to_list()
    pairs = set(zip(mine, theirs, strict=True))
    assert len(pairs) == len(set(mine)) == len(set(theirs)), "the groups are those of the card"
    events = corpus.events.select("trace", pl.col("type").cast(pl.String)).collect()
    assert events.filter(pl.col("type") == "message")["trace"].n_unique() == 60
    assert events["trace"].value_counts()["count"].min() >= 2
