"""`costs.table`: dollars as recorded, else by a list of prices."""

import datetime as dt
import io
import json
import math
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from orchestrace.costs.verb import tables
from reference.costs import price

PLAIN = {"trace_id": "t", "task_id": "t", "edges": [], "rewards": {}, "costs": {}, "metrics": {}}


def event(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": f"e{number}", "t": float(number), "type": "message", "agent": "a", **fields}


def corpus(events: list[dict[str, Any]], started_at: dt.datetime | None = None, **trace: Any) -> ot.Corpus:
    """One run of these events; the columns that are not named are null."""
    rows = pl.DataFrame(
        [{"trace": 0, "seq": seq, **{k: v for k, v in one.items()}} for seq, one in enumerate(events)],
        infer_schema_length=None,
    )
    columns = {"trace": [0], "trace_id": ["t"], "task_id": ["t"], "time_basis": ["seconds"], **trace}
    traces = pl.DataFrame(columns).with_columns(
        started_at=pl.lit(started_at, pl.Datetime("ns", "UTC")), time_basis=pl.lit("seconds")
    )
    measures = pl.DataFrame(
        {"trace": [], "kind": [], "name": [], "value": []},
        schema={"trace": pl.UInt32, "kind": pl.String, "name": pl.String, "value": pl.Float64},
    )
    return ot.Corpus.from_arrow(traces=traces, events=rows, measures=measures)


MILLION = 1_000_000
EXAMPLES: dict[str, tuple[str, dict[str, int], float]] = {
    # by the prices that three providers publish
    # 12,000 x 5, 40,000 x 6.25, 20,000 x 10, 150,000 x .5, 3,500 x 25
    "anthropic": (
        "claude-opus-5",
        {
            "tokens_in": 222_000,
            "tokens_cached": 150_000,
            "tokens_cache_write": 60_000,
            "tokens_cache_write_1h": 20_000,
            "tokens_out": 3_500,
        },
        0.6725,
    ),
    # 12,000 x 1.75, 38,000 x .175, 2,200 x 14
    "openai": ("gpt-5.2", {"tokens_in": 50_000, "tokens_cached": 38_000, "tokens_out": 2_200}, 0.05845),
    "openai cache write": ("gpt-4o-mini", {"tokens_in": MILLION, "tokens_cache_write": MILLION}, 0.15),
    "google below the tier": ("gemini-2.5-pro", {"tokens_in": 200_000}, 0.25),
    # 150,000 x 4, 100,000 x .4, 4,000 x 18
    "google above the tier": (
        "gemini-3-pro-preview",
        {"tokens_in": 250_000, "tokens_cached": 100_000, "tokens_out": 4_000},
        0.712,
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples_of_three_providers(name: str) -> None:
    model, tokens, expected = EXAMPLES[name]
    row = ot.costs.table(corpus([event(0, model=model, **{"tokens_out": 0, **tokens})])).row(0, named=True)
    assert math.isclose(row["cost_usd"], expected, rel_tol=1e-12)
    assert (row["basis"], row["unpriced_tokens"], row["reason"]) == ("priced_undated", 0, None)
    assert row["floor"] is False


def test_a_recorded_price_wins_and_the_basis_says_so() -> None:
    run = corpus(
        [
            event(0, model="gpt-4o-mini", tokens_in=MILLION, tokens_out=0, cost_usd=7.0),
            event(1, model="gpt-4o-mini", tokens_in=MILLION, tokens_out=0),
            event(2, model="claude-haiku-4-5", tokens_in=MILLION, tokens_out=0, cost_usd=0.0),
        ],
        dt.datetime(2026, 5, 1, tzinfo=dt.UTC),
    )
    by_model = ot.costs.table(run).select("model", "cost_usd", "basis", "recorded_usd", "priced_usd").rows()
    assert by_model == [
        ("gpt-4o-mini", 7.15, "mixed", 7.0, 0.15),
        ("claude-haiku-4-5", 0.0, "recorded", 0.0, None),
    ]
    (whole,) = ot.costs.table(run, by="trace", prices=None).rows(named=True)
    assert (whole["cost_usd"], whole["basis"]) == (7.0, "recorded")
    assert (whole["unpriced_tokens"], whole["unpriced_share"], whole["reason"]) == (
        MILLION,
        1 / 3,
        "price.absent",
    )


def test_what_has_no_price_is_null_and_counted() -> None:
    rows = {
        "of no list": event(0, model="ours-7b", tokens_in=5, tokens_out=1),
        "no model": event(1, tokens_in=5, tokens_out=1),
        "one number": event(2, model="gpt-4o-mini", tokens=6),
        "no output": event(3, model="gpt-4o-mini", tokens_in=6),
        "no price of a cache": event(4, model="gpt-4", tokens_in=6, tokens_cached=5, tokens_out=0),
        "more for an hour than written": event(
            5, model="claude-opus-5", tokens_in=6, tokens_cache_write=2, tokens_cache_write_1h=3, tokens_out=0
        ),
    }
    why = ["price.absent", "field.absent", "field.absent", "field.absent", "price.absent", "result.range"]
    for (name, one), reason in zip(rows.items(), why, strict=True):
        (row,) = ot.costs.table(corpus([one]), by="trace").rows(named=True)
        assert (row["cost_usd"], row["basis"], row["reason"]) == (None, None, reason), name
        assert (row["unpriced_tokens"], row["unpriced_share"], row["floor"]) == (6, 1.0, True), name
    together = ot.costs.table(corpus(list(rows.values())), by="agent")
    assert together["unpriced_tokens"].sum() == 36 and together["cost_usd"].null_count() == together.height


def test_nothing_spent_needs_no_price() -> None:
    silent = event(0, model="<synthetic>", tokens_in=0, tokens_out=0)
    assert ot.costs.table(corpus([silent, event(1)])).is_empty()
    (row,) = ot.costs.table(corpus([silent]), by="trace").rows(named=True)
    assert (row["events"], row["tokens"], row["cost_usd"], row["unpriced_tokens"]) == (0, None, None, 0)


def test_what_nobody_dates_has_the_price_of_the_day_of_the_list() -> None:
    """Not one that a provider announced for later."""
    prices = pl.DataFrame(
        {
            "model": ["m", "m"],
            "valid_from": [None, dt.date(2026, 12, 1)],
            "valid_to": [dt.date(2026, 12, 1), None],
            "input": [2.0, 4.0],
            "output": [0.0, 0.0],
            "retrieved": [dt.date(2026, 11, 26)] * 2,
        }
    )
    run = corpus([event(0, model="m", tokens_in=MILLION, tokens_out=0)])
    assert ot.costs.table(run, prices=prices).select("cost_usd", "basis").row(0) == (2.0, "priced_undated")
    # of a list without a day the newest row
    bare = prices.drop("retrieved")
    assert ot.costs.table(run, prices=bare)["cost_usd"].item() == 4.0
    listed = ot.costs.list_prices()
    future = listed.filter(pl.col("valid_from") > listed["retrieved"].max())["model"].unique().to_list()
    assert len(future) > 0
    for model in future:
        one = [event(0, model=model, tokens_in=1000, tokens_out=0)]
        dated = corpus(one, dt.datetime(2026, 11, 26, tzinfo=dt.UTC))
        assert ot.costs.table(corpus(one))["cost_usd"].item() == ot.costs.table(dated)["cost_usd"].item()


def test_sums_stay_within_their_range() -> None:
    most = 2**63 - 1
    twice = corpus([event(n, model="gpt-4o-mini", tokens_in=2**62, tokens_out=0) for n in range(3)])
    assert ot.costs.table(twice)["tokens"].item() == ot.metrics(twice)["tokens"].item() == most
    assert ot.costs.table(twice, prices=None)["unpriced_tokens"].item() == most
    dear = corpus([event(n, cost_usd=1e308) for n in range(2)])
    row = ot.costs.table(dear, by="trace").row(0, named=True)
    assert (row["cost_usd"], row["basis"], row["reason"]) == (None, None, "result.range")


def test_a_batch_costs_its_factor() -> None:
    tokens = {
        "tokens_in": 222_000,
        "tokens_cached": 150_000,
        "tokens_cache_write": 60_000,
        "tokens_out": 3_500,
    }
    anthropic = corpus([event(0, model="claude-opus-5", tokens_cache_write_1h=20_000, **tokens)])
    assert math.isclose(ot.costs.table(anthropic, batch=True)["cost_usd"].item(), 0.33625, rel_tol=1e-12)
    # nobody publishes what OpenAI's cache gives in a batch
    openai = corpus([event(0, model="gpt-4o-mini", tokens_in=9, tokens_cached=4, tokens_out=1)])
    assert ot.costs.table(openai, batch=True)["reason"].item() == "price.absent"
    fresh = corpus([event(0, model="gpt-4o-mini", tokens_in=MILLION, tokens_out=0)])
    assert ot.costs.table(fresh, batch=True)["cost_usd"].item() == 0.075


def test_what_a_recording_states_of_the_whole_run_alone_is_nobodys() -> None:
    lines = [
        {
            **PLAIN,
            "trace_id": "a",
            "events": [event(0)],
            "costs": {"tokens": 50, "wall_clock_s": 1, "cost_usd": 2.5},
        },
        {**PLAIN, "trace_id": "b", "events": [event(0)], "costs": {"tokens": 70, "wall_clock_s": 1}},
        {
            **PLAIN,
            "trace_id": "c",
            "events": [event(0, model="gpt-4o-mini", tokens_in=MILLION, tokens_out=0)],
            "costs": {"tokens": MILLION, "wall_clock_s": 1, "cost_usd": 0.2},
        },
    ]
    runs = ot.read_traces(io.BytesIO("\n".join(map(json.dumps, lines)).encode()))
    by_trace = ot.costs.table(runs, by="trace")
    assert by_trace.select(
        "trace_id", "tokens", "cost_usd", "basis", "unpriced_tokens", "stated_usd"
    ).rows() == [
        ("a", 50, 2.5, "recorded", 0, 2.5),
        ("b", 70, None, None, 70, None),
        ("c", MILLION, 0.15, "priced_undated", 0, 0.2),
    ]
    by_agent = ot.costs.table(runs, by="agent")
    assert by_agent.select("trace_id", "agent", "tokens", "cost_usd").rows() == [
        ("a", None, 50, 2.5),
        ("b", None, 70, None),
        ("c", "a", MILLION, 0.15),
    ]


def test_scorers_and_stand_ins_are_no_cost_of_the_team() -> None:
    spent = {"model": "gpt-4o-mini", "tokens_in": MILLION, "tokens_out": 0}
    run = corpus(
        [
            event(0, **spent),
            event(1, **{**spent, "agent": "judge", "role": "scorer"}),
            event(2, **{**spent, "agent": "user", "role": "user"}),
            event(3, **{**spent, "type": "human_intervention", "agent": "b"}),
        ]
    )
    assert ot.costs.table(run)["tokens"].item() == MILLION
    assert ot.costs.table(run, by="agent").select("agent", "tokens").rows() == [("a", MILLION)]
    assert ot.metrics(run)["tokens"].item() == MILLION


MODELS = (None, "m", "m-20260101", "other/m", "p/m", "n", "n-latest", "unknown", "n-mini")
LIST = [
    {"model": "m", "provider": "p", "valid_to": dt.date(2026, 3, 1), "input": 1.0, "output": 4.0},
    {
        "model": "m",
        "provider": "p",
        "valid_from": dt.date(2026, 3, 1),
        "input": 0.5,
        "output": 2.0,
        "cache_read": 0.1,
    },
    {
        "model": "n",
        "provider": "q",
        "input": 2.0,
        "output": 8.0,
        "cache_read": 0.2,
        "cache_write": 2.5,
        "cache_write_1h": 4.0,
    },
    {"model": "n", "provider": "q", "context_above": 100, "input": 3.0, "output": 9.0, "cache_read": 0.3},
    {"model": "n", "provider": "q", "context_above": 1000, "input": 5.0, "output": 9.5},
]
COLUMNS = (
    "retrieved",
    "valid_from",
    "valid_to",
    "context_above",
    "cache_read",
    "cache_write",
    "cache_write_1h",
)


def drawn(rng: random.Random) -> Iterator[dict[str, Any]]:
    for number in range(rng.randint(1, 30)):
        fresh, cached, written, out = (rng.choice([None, 0, 1, 60, 900]) for _ in range(4))
        parts = [part for part in (fresh, cached, written) if part is not None]
        one = {
            "model": rng.choice(MODELS),
            "tokens_in": sum(parts) if fresh is not None else None,
            "tokens_cached": cached,
            "tokens_cache_write": written,
            "tokens_cache_write_1h": rng.choice([None, 0, written, 7]),
            "tokens_out": out,
            "cost_usd": rng.choice([None, None, None, 0.25]),
        }
        yield event(number * 1000, agent=rng.choice("abc"), **{k: v for k, v in one.items() if v is not None})


@pytest.mark.parametrize("seed", range(40))
def test_drawn_runs_cost_what_plain_python_says(seed: int) -> None:
    rng = random.Random(seed)
    prices = [{**dict.fromkeys(COLUMNS), **row} for row in LIST]
    began = rng.choice([None, dt.datetime(2026, 2, 28, 20, 0, tzinfo=dt.UTC)])
    run = corpus(list(drawn(rng)), began)
    frame = pl.DataFrame(prices, infer_schema_length=None)
    sums: dict[str | None, Fraction] = {}
    unpriced: dict[str | None, int] = {}
    ways: dict[str | None, set[str]] = {}
    for one in run.events.collect().with_columns(pl.col("model").cast(pl.String)).iter_rows(named=True):
        if not one["tokens"] and one["cost_usd"] is None:
            continue
        day = None if began is None else (began + dt.timedelta(seconds=one["t"])).date()
        told = price(one, day, prices) if one["cost_usd"] is None else Fraction(one["cost_usd"])
        sums.setdefault(one["model"], Fraction(0))
        unpriced.setdefault(one["model"], 0)
        way = ways.setdefault(one["model"], set())
        if isinstance(told, str):
            unpriced[one["model"]] += one["tokens"]
        else:
            sums[one["model"]] += told
            way.add("recorded" if one["cost_usd"] is not None else "priced" if day else "priced_undated")
    table = ot.costs.table(run, prices=frame)
    found = {row["model"]: row for row in table.iter_rows(named=True)}
    assert found.keys() == sums.keys()
    for model, row in found.items():
        assert math.isclose(row["cost_usd"] or 0.0, float(sums[model]), rel_tol=1e-12, abs_tol=1e-18), model
        assert row["unpriced_tokens"] == unpriced[model], model
        basis = "mixed" if len(ways[model]) > 1 else next(iter(ways[model]), None)
        assert (row["basis"], row["reason"] is None) == (basis, unpriced[model] == 0), model
    for by in ("trace", "agent", "role", "importer"):
        other = ot.costs.table(run, by=by, prices=frame)
        assert other["unpriced_tokens"].sum() == table["unpriced_tokens"].sum()
        assert math.isclose(other["cost_usd"].sum(), table["cost_usd"].sum(), rel_tol=1e-12, abs_tol=1e-18)


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> tuple[ot.Corpus, ot.Corpus]:
    """The same runs in memory and on disk; a third of the events names no model."""
    folder = tmp_path_factory.mktemp("runs")
    memory = ot.generate(traces=60, seed=5)
    models = memory.events.select("trace", "seq").collect().with_row_index()
    named = memory.with_fields(
        models.select("trace", "seq", model=pl.when(pl.col("index") % 3 > 0).then(pl.lit("gpt-4o-mini")))
    )
    named.write_jsonl(folder / "named.jsonl")
    ot.ingest(folder / "named.jsonl", folder / "corpus", partitions=4)
    again = ot.read_traces(folder / "named.jsonl")
    assert again.events.select(pl.col("model").is_not_null().any()).collect().item()
    return again, ot.read_corpus(folder / "corpus")


def priced(corpus: ot.Corpus) -> ot.Corpus:
    """With a price on some events, which is computed on every slice of a corpus on disk."""
    ids = corpus.traces.select("trace", "trace_id")
    fields = corpus.events.join(ids, on="trace").select(
        "trace_id", "seq", cost_usd=pl.when(pl.col("seq") % 5 == 0).then(pl.col("seq") / 7)
    )
    return corpus.with_fields(fields)


VARIANTS: dict[str, Callable[[ot.Corpus], ot.Corpus]] = {
    "all runs": lambda corpus: corpus,
    "some runs": lambda corpus: corpus.filter(pl.col("n_events") % 2 == 0),
    "with prices": priced,
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_corpus_on_disk_costs_the_same_to_the_bit(twice: tuple[ot.Corpus, ot.Corpus], variant: str) -> None:
    memory, disk = (VARIANTS[variant](corpus) for corpus in twice)
    for by in ("model", "importer", "trace", "agent", "role"):
        table = ot.costs.table(memory, by=by)
        stored = ot.costs.table(disk, by=by)
        keys = [name for name in ("trace_id", by) if name in table.columns and name != "trace"]
        alike = [frame.drop("trace", strict=False).sort(keys) for frame in (table, stored)]
        assert alike[0].equals(alike[1]), by
        assert table["tokens"].sum() > 0


def test_of_a_corpus_on_disk_only_columns_of_what_was_spent_are_read(
    twice: tuple[ot.Corpus, ot.Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, disk = twice

    def refused(self: ot.Corpus) -> Iterator[Any]:
        raise AssertionError("a whole slice is loaded")

    monkeypatch.setattr(type(disk), "pieces", refused)
    for by in ("model", "importer", "trace"):
        assert ot.costs.table(disk, by=by).height
    with pytest.raises(AssertionError, match="slice"):
        ot.costs.table(disk, by="agent")


def test_tables_by_several_names_are_those_by_each(
    twice: tuple[ot.Corpus, ot.Corpus],
) -> None:
    words: list[Any] = ["model", "importer", "trace", "agent", "role"]
    for corpus in twice:
        for by, table in zip(words, tables(corpus, words), strict=True):
            assert table.equals(ot.costs.table(corpus, by=by)), by
