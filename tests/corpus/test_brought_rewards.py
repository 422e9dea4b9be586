"""Rewards that recordings do not have: what is said without them, and files that bring them."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

IMPORTERS = Path(__file__).resolve().parents[2] / "data" / "importers"


@pytest.fixture(scope="module")
def sessions() -> ot.Corpus:
    return ot.read_traces(IMPORTERS / "claude_code")


@pytest.fixture
def corpus() -> ot.Corpus:
    return ot.generate(traces=4, seed=0)


def ids(corpus: ot.Corpus) -> list[str]:
    return corpus.traces.collect()["trace_id"].to_list()


def rewards_of(corpus: ot.Corpus, name: str) -> list[float]:
    return corpus.measures.filter(pl.col("name") == name).sort("trace").collect()["value"].to_list()


# --- without any reward -----------------------------------------------------------------------------------

VERBS: dict[str, Callable[[ot.Corpus], object]] = {
    "credit": lambda c: ot.credit(c, unit="agent"),
    "a method in Python": lambda c: ot.credit(c, method="vdn"),
    "several rewards": lambda c: ot.credit(c, reward=["team", {"team": 2.0}]),
    "compare": lambda c: ot.compare(c, ["flow"]),
    "effects.spawn": ot.effects.spawn,
    "effects.matched": lambda c: ot.effects.matched(c, pl.col("type") == "spawn"),
    "effects.message": ot.effects.message,
    "sibling_diagnostics": ot.evaluation.sibling_diagnostics,
    "ledger": lambda c: ot.evaluation.reward_accounting(c, ot.credit(ot.generate(traces=1), unit="agent")),
}


@pytest.mark.parametrize("verb", VERBS)
def test_without_rewards_the_ways_to_some_are_named(sessions: ot.Corpus, verb: str) -> None:
    with pytest.raises(ot.ParameterError) as caught:
        VERBS[verb](sessions)
    assert str(caught.value) == (
        "unknown reward channel 'team': this corpus has no rewards (its recordings, of claude_code, carry "
        "none); give some by corpus.with_measures(frame) or orchestrace ... --rewards FILE; metrics() and "
        "replay() need none"
    )


def test_scores_that_could_be_rewards_are_named() -> None:
    corpus = ot.read_traces(IMPORTERS / "langfuse")
    metrics = corpus.measures.filter(pl.col("kind") == "metric").collect()["name"].unique().sort().to_list()
    assert metrics and not corpus.reward_channels()
    with pytest.raises(ot.ParameterError) as caught:
        ot.credit(corpus)
    named = ", ".join([*metrics[:5], *(["..."] if len(metrics) > 5 else [])])
    assert f"or reading its scores ({named}) as rewards, reward_scores=; " in str(caught.value)
    again = ot.read_traces(IMPORTERS / "langfuse", reward_scores=metrics[:1])
    assert ot.credit(again, reward=metrics[0], unit="team")["credit"].is_not_null().any()


def test_metrics_of_native_traces_are_no_scores_to_read_as_rewards() -> None:
    record = json.loads(jsonl(1))
    record["rewards"] = {}
    corpus = ot.read_traces(io.BytesIO(json.dumps(record | {"metrics": {"f1": 1}}).encode()))
    with pytest.raises(ot.ParameterError, match="--rewards FILE; metrics"):
        ot.credit(corpus)


def test_what_needs_no_reward_works_without(sessions: ot.Corpus) -> None:
    assert ot.metrics(sessions).height == len(sessions)
    assert ot.replay(sessions, ot.interventions.drop(each="agent")).height


def test_with_other_channels_those_are_named(corpus: ot.Corpus) -> None:
    known = ", ".join(corpus.reward_channels())
    for verb in (lambda: ot.credit(corpus, reward="tem"), lambda: ot.compare(corpus, ["flow"], reward="tem")):
        with pytest.raises(ot.ParameterError) as caught:
            verb()
        told = f"unknown reward channel 'tem'; did you mean 'team'? (known: {known})"
        assert str(caught.value) == told


def test_of_very_many_channels_some_are_named() -> None:
    record = json.loads(jsonl(1))
    record["rewards"] = {f"r{number}": 1 for number in range(5_000)}
    corpus = ot.read_traces(io.BytesIO(json.dumps(record).encode()))
    with pytest.raises(ot.ParameterError, match=r"and 4,?960 more\)") as caught:
        ot.evaluation.sibling_diagnostics(corpus, reward="teem")
    assert len(str(caught.value)) < 1_000


def test_the_formats_that_carry_no_reward_are_those_of_the_page() -> None:
    """The page says which formats bring rewards, by the recordings that are written by hand for each."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "credit.md").read_text(encoding="utf-8")
    (told,) = [line for line in page.splitlines() if line.startswith("| carry none |")]
    without = set()
    for folder in IMPORTERS.iterdir():
        mapping: Any = folder / "mapping.json" if (folder / "mapping.json").exists() else None
        if not ot.read_traces(sorted(folder.glob("input*")), mapping=mapping).reward_channels():
            without.add(folder.name)
    assert {word.strip("`,") for word in told.split("|")[2].split()} == without


# --- files of rewards -------------------------------------------------------------------------------------


def jsonl(traces: int) -> bytes:
    buffer = io.BytesIO()
    ot.generate(buffer, traces=traces, seed=0)
    return buffer.getvalue()


WRITERS: dict[str, Callable[[pl.DataFrame, Path], object]] = {
    "csv": lambda frame, path: frame.write_csv(path),
    "parquet": lambda frame, path: frame.write_parquet(path),
    "jsonl": lambda frame, path: frame.write_ndjson(path),
    "ndjson": lambda frame, path: frame.write_ndjson(path),
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_file_brings_the_rewards_that_its_frame_would(
    corpus: ot.Corpus, tmp_path: Path, suffix: str
) -> None:
    frame = pl.DataFrame(
        {"trace_id": ids(corpus), "mine": [0.5, 1.0, None, 0], "solved": [True, False, True, True]}
    )
    path = tmp_path / f"rewards.{suffix}"
    WRITERS[suffix](frame, path)
    own = corpus.with_measures(path)
    assert rewards_of(own, "mine") == [0.5, 1.0, 0.0]
    assert rewards_of(own, "solved") == [1.0, 0.0, 1.0, 1.0]
    assert own.measures.collect().equals(corpus.with_measures(frame).measures.collect())
    long = frame.unpivot(on=["mine"], index="trace_id", variable_name="name", value_name="value")
    path.unlink()
    WRITERS[suffix](long, path)
    assert rewards_of(corpus.with_measures(str(path)), "mine") == [0.5, 1.0, 0.0]


def test_ids_of_digits_are_ids(tmp_path: Path) -> None:
    records = [json.loads(line) | {"trace_id": f"00{n}"} for n, line in enumerate(jsonl(3).splitlines())]
    corpus = ot.read_traces(io.BytesIO("\n".join(map(json.dumps, records)).encode()))
    (tmp_path / "r.csv").write_text("trace_id,mine\n002,1\n000,2\n")
    assert rewards_of(corpus.with_measures(tmp_path / "r.csv"), "mine") == [2.0, 1.0]
    (tmp_path / "r.csv").write_text("trace,mine\n2,1\n0,2\n")
    assert rewards_of(corpus.with_measures(tmp_path / "r.csv"), "mine") == [2.0, 1.0]


def test_a_corpus_on_disk_takes_the_same_file(corpus: ot.Corpus, tmp_path: Path) -> None:
    corpus.write_jsonl(tmp_path / "runs.jsonl")
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus")
    pl.DataFrame({"trace_id": ids(corpus), "mine": [1, 2, 3, 4]}).write_csv(tmp_path / "r.csv")
    on_disk = ot.read_corpus(tmp_path / "corpus").with_measures(tmp_path / "r.csv")
    credits = ot.credit(on_disk, reward="mine", unit="team")
    paid = dict(credits.select("trace_id", "credit").rows())
    assert [paid[one] for one in ids(corpus)] == pytest.approx([1.0, 2.0, 3.0, 4.0])


WRONG: dict[str, tuple[str, type[Exception], str]] = {
    "a.csv": ("id,mine\nx,1\n", ot.ParameterError, "found neither a column 'trace' nor 'trace_id'"),
    "b.csv": ("trace_id\ntrace-00000000\n", ot.ParameterError, "no column beside the key"),
    "c.csv": (
        "trace_id,mine\na,1\nb,2\nc,3\nd,4\ne,5\n",
        ot.ParameterError,
        "unknown trace: trace_id 'a'; trace_id 'b'; trace_id 'c' and 2 more",
    ),
    "d.csv": (
        "trace_id,mine\n" + 2 * "trace-00000000,1\ntrace-00000001,2\n",
        ot.ParameterError,
        "d.csv: 'mine' is given twice for 'trace-00000000', 'trace-00000001'",
    ),
    "e.csv": (
        "trace_id,mine\ntrace-00000000,good\n",
        ot.SchemaError,
        "e.csv: column 'mine' is String (it has 'good'), expected numbers",
    ),
    "f.jsonl": (
        '{"trace_id": "trace-00000000", "mine": 1e999}\n',
        ot.OrchestraceError,
        "f.jsonl: ",
    ),
    "g.csv": ("", ot.InputError, "g.csv: "),
    "h.parquet": ("PAR1", ot.InputError, "h.parquet: "),
    "i.jsonl": ("{broken", ot.InputError, "i.jsonl: "),
    "j.xlsx": (
        "x",
        ot.ParameterError,
        "ends in '.xlsx', expected a file of measures: .csv, .parquet, .jsonl",
    ),
    "k.csv": (
        "trace_id,name,value,kin\ntrace-00000000,mine,1,cost\n",
        ot.ParameterError,
        "did you mean 'kind'",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_does_not_fit_is_said_in_one_line(corpus: ot.Corpus, tmp_path: Path, name: str) -> None:
    text, error, message = WRONG[name]
    for n, one in enumerate(ids(corpus)[:2]):
        text, message = (said.replace(f"trace-0000000{n}", one) for said in (text, message))
    (tmp_path / name).write_text(text)
    with pytest.raises(error) as caught:
        corpus.with_measures(tmp_path / name)
    assert message in str(caught.value) and "\n" not in str(caught.value), str(caught.value)
    assert name in str(caught.value) or "unknown trace" in str(caught.value)


def test_a_file_that_is_not_there_is_said(corpus: ot.Corpus, tmp_path: Path) -> None:
    for given, why in ((tmp_path / "no.csv", "No such file or directory"), (tmp_path, "ends in ''")):
        with pytest.raises(ot.OrchestraceError, match=why):
            corpus.with_measures(given)
    odd: Any = 5
    with pytest.raises(ot.SchemaError, match="measures is of type int"):
        corpus.with_measures(odd)


def test_a_table_of_another_library_is_taken(corpus: ot.Corpus) -> None:
    mine = pl.DataFrame({"trace": [0, 1], "mine": [1.0, 2.0]})
    fields = pl.DataFrame({"trace": [0], "seq": [0], "score": [0.5]})
    tables = mine.to_arrow(), fields.to_arrow()
    found = corpus.with_measures(tables[0]).with_fields(tables[1])
    expected = corpus.with_measures(mine).with_fields(fields)
    assert found.measures.collect().equals(expected.measures.collect())
    assert found.events.collect().equals(expected.events.collect())
