"""Damaged recordings: reading settles them, every verb answers, and what was read is what is written."""

import concurrent.futures
import io
import multiprocessing
import os
import random
import time
import warnings

import polars as pl
import pytest

import orchestrace as ot
from contract.damage import failures
from samples import on_disk
from samples.mutations import Document, goldens, mutated

SEED = int(os.environ.get("ORCHESTRACE_SEED", "0"))
DOCUMENTS = int(os.environ.get("ORCHESTRACE_DOCUMENTS", "100000"))
TOGETHER, MANY = 48, 384


@pytest.mark.every_nth(3)
@pytest.mark.parametrize("number", range(6))
def test_damaged_documents(number: int) -> None:
    found = failures(SEED, number, TOGETHER)
    assert not found, "\n".join(found)


@pytest.mark.nightly
def test_many_damaged_documents() -> None:
    """ORCHESTRACE_DOCUMENTS (100,000) from ORCHESTRACE_SEED (the day) on, on all cores."""
    seed = SEED or int(time.strftime("%Y%m%d"))
    batches = -(-DOCUMENTS // MANY)
    print(f"\n{batches * MANY:,} documents, ORCHESTRACE_SEED={seed}", flush=True)
    found: list[str] = []
    since = time.monotonic()
    with concurrent.futures.ProcessPoolExecutor(
        os.cpu_count(), mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=200
    ) as pool:
        work = [pool.submit(failures, seed, number, MANY) for number in range(batches)]
        for done, one in enumerate(concurrent.futures.as_completed(work), 1):
            found += one.result()
            if done % 20 == 0 or done == batches:
                seconds = time.monotonic() - since
                print(f"{done * MANY:,} documents, {len(found)} at fault, {seconds:,.0f} s", flush=True)
    assert not found, "\n".join(found)


# --- what is beside the damage ---

# Formats of which a line is a whole trace, so that the others of the file can do without it.
WHOLE = ("native", "rllm", "swe_agent", "trl", "verl", "who_and_when")


def by_line(data: bytes, format: str) -> dict[int, dict[str, object]]:
    """Rows of `traces` by their line, without what numbers and places change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        corpus = ot.read_traces(io.BytesIO(data), format=format)
    # A rollout without an id of its own is called by its place, and its group by what is in it.
    places = ["trace_id", "group_id"] if format in ("trl", "verl") else []
    rows = corpus.traces.drop("trace", "offset", *places)
    return {row["line"]: row for row in rows.cast({pl.Categorical: pl.String}).collect().to_dicts()}


@pytest.mark.parametrize("format", WHOLE)
def test_damage_to_a_line_leaves_the_others(format: str) -> None:
    (source,) = (one for one in goldens() if one.format == format)
    lines = source.data.splitlines()
    expected = by_line(source.data, format)
    chance = random.Random(f"{SEED}/{format}")
    for _ in range(40):
        at = chance.randrange(len(lines))
        damaged = mutated(chance, Document(format, "line", lines[at])).data
        damaged = damaged.replace(b"\n", b" ").replace(b"\r", b" ")
        if at == 0 and damaged.lstrip()[:1] == b"[":
            continue  # a file that begins so is an array
        found = by_line(b"\n".join([*lines[:at], damaged, *lines[at + 1 :]]) + b"\n", format)
        for line, row in expected.items():
            if line != at + 1:
                assert row == found[line], (at, line, damaged)


def test_damage_to_a_file_leaves_the_others() -> None:
    good = on_disk.generated("good", 200, 1)
    expected = ot.read_traces(io.BytesIO(good))
    chance = random.Random(SEED)
    for _ in range(20):
        damaged = [mutated(chance, chance.choice(goldens())).data for _ in range(3)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            corpus = ot.read_traces([io.BytesIO(data) for data in [good, *damaged]])
        kept = corpus.filter(pl.col("trace_id").str.starts_with("good-"))
        on_disk.assert_content(
            ot.Corpus.from_arrow(
                traces=kept.traces, events=kept.events, edges=kept.edges, measures=kept.measures
            ),
            ot.Corpus.from_arrow(
                traces=expected.traces,
                events=expected.events,
                edges=expected.edges,
                measures=expected.measures,
            ),
        )
