"""Episodes that are written back: new advantages by the format's own rule, and every other byte as it was."""

import gzip
import io
import json
import random
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import orchestrace as ot
from samples.episodes import Record, agent, answer, asked, episode, lines


def written(path: Path, credits: pl.DataFrame, out: Path, **options: Any) -> list[Record]:
    ot.export(ot.read_traces(path, **options), "verifiers", out, credits=credits, overwrite=True)
    return [json.loads(line) for line in out.read_bytes().split(b"\n") if line]


def expected(records: list[Record], values: dict[str, float], *, divided: bool = False) -> list[Record]:
    """The rule in plain Python: `values` by trace and node."""
    made: list[Record] = json.loads(json.dumps(records))
    for record in made:
        for trace in record.get("traces", [record]):
            for index, node in enumerate(trace["nodes"]):
                node.pop("advantages", None)
                value = values.get(f"{trace['id']}:{index}")
                tokens = sum(node.get("mask") or [])
                if value is not None and tokens and trace["agent"].get("trainable", True):
                    each = value / tokens if divided else value
                    node["advantages"] = [round(each, 4) + 0.0] * tokens
    return made


def credits_of(corpus: ot.Corpus, values: dict[str, float | None], method: str = "grpo") -> pl.DataFrame:
    """Credits of turns with these numbers, by trace and node."""
    rows = ot.credit(corpus, method=method, unit="turn", reward="payoff")
    node = pl.col("extras").str.extract(r'"x_gen":"([^"]*)"')
    events = corpus.events.select("trace", pl.col("turn").cast(pl.String), "agent", node=node).collect()
    nodes = events.drop_nulls("node").unique(["trace", "node"])
    unit = pl.concat_str(pl.col("agent").cast(pl.String), pl.lit("/"), pl.col("turn"))
    table = nodes.select("trace", unit_id=unit, credit=pl.col("node").replace_strict(values, default=None))
    return rows.drop("credit").join(table, on=["trace", "unit_id"], how="left").select(rows.columns)


SAMPLE = [
    episode(
        "e1",
        [
            agent("a", "first", asked(answer("x", 3), answer("y", 2, advantages=[7.0, 7.0])), payoff=1.0),
            agent("b", "second", asked(answer("z", 1)), payoff=-1.0, trainable=False),
        ],
    ),
    episode("e2", [agent("c", "first", asked(answer("x", 2, entropies=[0.1, 0.2]), answer("w", None)))]),
]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(lines(SAMPLE))
    return path


@pytest.mark.filterwarnings("ignore:1 answer with a credit")
def test_numbers_stand_where_the_rule_puts_them(sample: Path, tmp_path: Path) -> None:
    values = {"a:1": 0.123_45, "a:2": None, "b:1": 1.0, "c:1": 0.0, "c:2": 3.0}
    credits = credits_of(ot.read_traces(sample), values)
    records = written(sample, credits, tmp_path / "out.jsonl")
    known = {name: value for name, value in values.items() if value is not None}
    assert records == expected(SAMPLE, known)
    first, second = records[0]["traces"][0]["nodes"][1:]
    assert first["advantages"] == [0.1235] * 3 and "advantages" not in second, "what was there is gone"
    assert records[1]["traces"][0]["nodes"][1]["advantages"] == [0.0, 0.0], "0 is a credit, null is none"
    kept = [list(node) for node in records[1]["traces"][0]["nodes"]]
    assert kept[1][4:] == ["logprobs", "advantages", "entropies", "parent"]


def test_a_share_is_divided_among_the_tokens(sample: Path, tmp_path: Path) -> None:
    corpus = ot.read_traces(sample)
    credits = ot.credit(corpus, method="uniform", unit="turn", reward="payoff")
    assert credits["credit"].is_not_null().any()
    mine = credits_of(corpus, {"a:1": 0.9, "a:2": 0.1}, method="uniform")
    records = written(sample, mine, tmp_path / "out.jsonl")
    assert records == expected(SAMPLE, {"a:1": 0.9, "a:2": 0.1}, divided=True)
    assert records[0]["traces"][0]["nodes"][1]["advantages"] == [0.3, 0.3, 0.3]


def test_an_answer_without_a_mask_is_told(sample: Path, tmp_path: Path) -> None:
    credits = credits_of(ot.read_traces(sample), {"c:2": 3.0})
    corpus = ot.read_traces(sample)
    with pytest.warns(
        UserWarning, match="1 answer with a credit got no advantages: without a mask"
    ) as caught:
        ot.export(corpus, "verifiers", tmp_path / "out.jsonl", credits=credits)
    assert caught[0].filename == __file__, "it names the line of the caller"


NUMBERS = st.floats(-10, 10, allow_nan=False).map(lambda value: round(value, 6))


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_any_episodes_change_in_nothing_else(data: st.DataObject, tmp_path_factory: Any) -> None:
    """Members in any order, white space, old numbers at any place, texts that look like members."""
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    texts = ['"advantages":[1.0]', "}],", "plain", "\u2028 é \\ \x7f"]
    records, values = [], {}
    for number in range(data.draw(st.integers(1, 3))):
        traces = []
        for name in "ab"[: data.draw(st.integers(1, 2))]:
            nodes = asked()
            for index in range(1, data.draw(st.integers(1, 4))):
                more: Record = {"advantages": [9.0]} if rng.random() < 0.5 else {}
                node = answer(rng.choice(texts), rng.choice([None, 0, 1, 3]), **more, extra={"advantages": 1})
                members = list(node.items())
                rng.shuffle(members)
                nodes.append(dict(members))
                if rng.random() < 0.7:
                    values[f"{number}{name}:{index}"] = data.draw(NUMBERS)
            more = {} if rng.random() < 0.7 else {"trainable": rng.random() < 0.5}
            traces.append(agent(f"{number}{name}", name, nodes, **more))
        records.append(episode(f"e{number}", traces))
    style: Record = rng.choice([{}, {"separators": (",", ":")}, {"ensure_ascii": False}])
    folder = tmp_path_factory.mktemp("episodes")
    path = folder / "traces.jsonl"
    path.write_bytes(lines(records, **style))
    with warnings.catch_warnings(action="ignore"):
        made = written(path, credits_of(ot.read_traces(path), values), folder / "out.jsonl")
    assert made == expected(records, values)
    assert [names(record) for record in made] == [names(record) for record in records]


def names(record: Record) -> list[list[str]]:
    """Members of the nodes in their order, without what may be new."""
    nodes = [node for trace in record["traces"] for node in trace["nodes"]]
    return [[name for name in node if name != "advantages"] for node in nodes]


def test_what_was_read_comes_back_byte_by_byte(corpora: Path, tmp_path: Path) -> None:
    """What the trainer stamped, read as numbers of answers and written back."""
    source = corpora / "verifiers" / "kuhn-train" / "traces.jsonl.gz"
    corpus = ot.read_traces(source)
    stamped = pl.col("extras").str.json_path_match("$.x_advantage").cast(pl.Float64)
    numbers = corpus.events.select("trace", "seq", credit=stamped).collect()
    rows = ot.credit(corpus, method="grpo", unit="event", reward="payoff")
    credits = rows.drop("credit").join(numbers, on=["trace", "seq"], how="left").select(rows.columns)
    ot.export(corpus, "verifiers", tmp_path / "out.jsonl", credits=credits)
    with gzip.open(source) as file:
        assert (tmp_path / "out.jsonl").read_bytes() == file.read()


def test_the_trainer_stamped_what_we_compute(corpora: Path, tmp_path: Path) -> None:
    """Payoff minus the mean of its agent and group, which prime-rl calls grpo."""
    corpus = ot.read_traces(corpora / "verifiers" / "kuhn-train")
    paid = pl.col("extras").str.json_path_match("$.x_agent_rewards.payoff.score").cast(pl.Float64)
    earned = corpus.events.select("trace", "seq", reward=paid).drop_nulls().collect()
    corpus = corpus.with_fields(earned)
    credits = ot.credit(corpus, method="dr_grpo", unit="turn", reward="payoff", reward_of="agent")
    trained = corpus.traces.filter(pl.col("group_id") != "group-3").select("trace").collect()["trace"]
    ot.export(
        corpus,
        "verifiers",
        tmp_path / "out.jsonl",
        credits=credits.filter(pl.col("trace").is_in(trained.implode())),
    )
    with gzip.open(corpora / "verifiers" / "kuhn-train" / "traces.jsonl.gz") as file:
        assert (tmp_path / "out.jsonl").read_bytes() == file.read()


def test_files_and_corpora_on_disk_keep_the_order_of_lines(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    records = [
        episode(f"e{n}", [agent(f"t{n}", "a", asked(answer(f"x{n}", 2)), payoff=float(n % 3))])
        for n in range(60)
    ]
    (runs / "a.jsonl").write_bytes(lines(records[:40]))
    with gzip.open(runs / "b.jsonl.gz", "wb") as packed:
        packed.write(lines(records[40:]))
    ot.ingest(runs, tmp_path / "corpus", partitions=3)
    made = []
    for corpus in (ot.read_traces(runs), ot.read_corpus(tmp_path / "corpus")):
        credits = ot.credit(corpus, method="rloo", unit="turn", reward="payoff")
        for threads in (1, 2, 7):
            out = tmp_path / "out.jsonl"
            ot.export(corpus, "verifiers", out, credits=credits, threads=threads, overwrite=True)
            made.append(out.read_bytes())
        one = corpus.traces.filter(pl.col("trace_id") == "e7").select("trace_id").collect().item()
        ot.export(corpus, "verifiers", out, credits=credits, trace_id=one, overwrite=True)
        assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ["e7"]
    assert set(made) == {made[0]}
    assert [json.loads(line)["id"] for line in made[0].splitlines()] == [f"e{n}" for n in range(60)]
    back = ot.read_traces(io.BytesIO(made[0]))
    mean = back.events.select(pl.col("extras").str.json_path_match("$.x_advantage").cast(pl.Float64))
    assert abs(mean.drop_nulls().collect().to_series().sum()) < 1e-2, "rloo adds up to 0 in a group"


def test_what_the_reader_forgives_is_written_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    text = lines(SAMPLE[:1]).replace(b"-0.5, -0.5, -0.5", b"NaN, -1e999, -0.5").replace(b'"x"', b'"\\ud83d"')
    path.write_bytes(text)
    credits = credits_of(ot.read_traces(path), {"a:1": 0.5, "a:2": 7.0})
    ot.export(ot.read_traces(path), "verifiers", tmp_path / "out.jsonl", credits=credits)
    streams = b'"logprobs": [NaN, -1e999, -0.5]'
    assert streams in text
    stamped = text.replace(streams, streams + b',"advantages":[0.5,0.5,0.5]')
    stamped = stamped.replace(b'"advantages": [7.0, 7.0]', b'"advantages": [7.0,7.0]')
    assert (tmp_path / "out.jsonl").read_bytes() == stamped


def test_agents_of_one_id_are_not_mixed_up(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    seats = [
        agent("same", name, asked(answer(name, 2)), payoff=payoff)
        for name, payoff in (("a", 1.0), ("b", -1.0))
    ]
    path.write_bytes(lines([episode("e", seats)]))
    corpus = ot.read_traces(path)
    credits = ot.credit(corpus, method="uniform", unit="turn", reward="payoff")
    with pytest.raises(ot.InputError, match="an episode in which several agents share an id"):
        ot.export(corpus, "verifiers", tmp_path / "out.jsonl", credits=credits)


def test_credits_of_nobody_are_told(sample: Path, tmp_path: Path) -> None:
    corpus = ot.read_traces(sample)
    credits = credits_of(corpus, {"a:1": 1.0}).with_columns(trace=pl.col("trace") + 100)
    with pytest.warns(UserWarning, match="no answer of 2 episodes got advantages"):
        ot.export(corpus, "verifiers", tmp_path / "out.jsonl", credits=credits)


def test_rows_of_parquet_become_lines(sample: Path, tmp_path: Path) -> None:
    texts = [
        {
            name: value if isinstance(value, str | bool) else json.dumps(value)
            for name, value in record.items()
        }
        for record in SAMPLE
    ]
    pl.DataFrame(texts).write_parquet(tmp_path / "rows.parquet")
    corpus = ot.read_traces(tmp_path / "rows.parquet")
    made = written(tmp_path / "rows.parquet", credits_of(corpus, {"a:2": 0.5}), tmp_path / "out.jsonl")
    assert made == expected(SAMPLE, {"a:2": 0.5})


def test_what_cannot_be_written_back_is_refused(sample: Path, tmp_path: Path) -> None:
    corpus, out = ot.read_traces(sample), tmp_path / "out.jsonl"
    credits = credits_of(corpus, {"a:1": 1.0})
    with pytest.raises(ot.ParameterError, match="the export 'verifiers' needs credits: rows of credit"):
        ot.export(corpus, "verifiers", out)
    other = ot.generate(traces=2, seed=0)
    refusal = "is of the format 'native', and only recordings of 'verifiers' are written back"
    with pytest.raises(ot.ParameterError, match=refusal):
        ot.export(other, "verifiers", out, credits=ot.credit(other, method="uniform", unit="turn"))
    with pytest.raises(ot.ParameterError, match="extras=False"):
        written(sample, credits, out, extras=False)
    agents = ot.credit(corpus, method="uniform", unit="agent", reward="payoff")
    with pytest.raises(ot.ParameterError, match="at unit 'agent'"):
        ot.export(corpus, "verifiers", out, credits=agents)
    with pytest.raises(ot.ParameterError, match="is one of the files that the recordings are in"):
        ot.export(corpus, "verifiers", sample, credits=credits, overwrite=True)
    for text in (lines(SAMPLE)[:-40], lines(SAMPLE).replace(b'"id": "a"', b'"id": "q"')):
        sample.write_bytes(text)
        with pytest.raises(ot.InputError, match="has changed since it was read: read it again"):
            ot.export(corpus, "verifiers", out, credits=credits)
    sample.unlink()
    with pytest.raises(ot.InputError, match="is not a file that can be read again"):
        ot.export(corpus, "verifiers", out, credits=credits)
    streamed = ot.read_traces(io.BytesIO(lines(SAMPLE)))
    with pytest.raises(ot.InputError):
        ot.export(streamed, "verifiers", out, credits=credits)
    assert not out.exists()
