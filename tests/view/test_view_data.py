"""What a page says is what the verbs say, and what the recordings say."""

import gzip
import json
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from orchestrace.costs.pricing import spent
from orchestrace.view import naming, sources
from orchestrace.view.verb import View
from view.pages import columns, data_of, rows, session

METHODS = ["flow", "difference", "grpo"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "runs.jsonl"
    ot.generate(path, traces=12, seed=4)
    return path


@pytest.fixture(scope="module")
def corpus(recorded: Path) -> ot.Corpus:
    return ot.read_traces(recorded)


@pytest.fixture(scope="module")
def page(corpus: ot.Corpus, tmp_path_factory: pytest.TempPathFactory) -> tuple[View, dict[str, Any]]:
    path = tmp_path_factory.mktemp("page") / "page.html"
    return ot.view(corpus, path), data_of(path)


def test_the_list_is_what_the_recordings_say(recorded: Path, page: tuple[View, dict[str, Any]]) -> None:
    _, data = page
    listed = {row["trace_id"]: row for row in rows(data["corpus"]["runs"])}
    documents = [json.loads(line) for line in recorded.read_text().splitlines()]
    assert list(listed) == [document["trace_id"] for document in documents]
    for document in documents:
        row, events = listed[document["trace_id"]], document["events"]
        assert row["n_events"] == len(events)
        assert row["tokens"] == sum(
            event.get("tokens", event.get("tokens_in", 0) + event.get("tokens_out", 0)) for event in events
        )
        assert row["reward"] == document["rewards"]["team"]
        assert row["n_tool_calls"] == sum(event["type"] == "tool_call" for event in events)


def test_two_runs_stand_side_by_side(corpus: ot.Corpus, tmp_path: Path) -> None:
    pair = pl.DataFrame({"trace_a": [0], "trace_b": [1]})
    script = ot.evaluation.edit_script(corpus, pairs=pair)
    ot.view(corpus, tmp_path / "page.html", runs=3, beside=script)
    data = data_of(tmp_path / "page.html")
    assert data["corpus"]["beside"] is True
    said = script.with_columns(pl.col("edit").cast(pl.String)).to_dicts()
    for mine, others, here in (("a", "b", "only_a"), ("b", "a", "only_b")):
        shown = rows(data[f"run-{0 if mine == 'a' else 1}"]["beside"])
        assert [(row.get("here"), row.get("there")) for row in shown] == [
            (row[f"seq_{mine}"], row[f"seq_{others}"]) for row in said
        ]
        words = {"same": "same", here: "here"}
        assert [row["edit"] for row in shown] == [words.get(row["edit"], "there") for row in said]
        assert {row["other"] for row in shown} == {1 if mine == "a" else 0}
    ot.view(corpus, tmp_path / "plain.html", runs=1)
    plain = data_of(tmp_path / "plain.html")
    assert plain["corpus"]["beside"] is False
    assert not any("beside" in block for name, block in plain.items() if name.startswith("run-"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop("edit"), "beside has no column 'edit', expected what evaluation"),
        (lambda frame: frame.with_columns(trace_b=99), "beside names trace 99, which is none of 12 runs"),
    ],
)
def test_what_is_no_script_is_refused(corpus: ot.Corpus, tmp_path: Path, change: Any, message: str) -> None:
    script = ot.evaluation.edit_script(corpus, pairs=pl.DataFrame({"trace_a": [0], "trace_b": [1]}))
    with pytest.raises(ot.ParameterError, match=message):
        ot.view(corpus, tmp_path / "page.html", beside=change(script))


def test_the_list_is_what_metrics_say(corpus: ot.Corpus, page: tuple[View, dict[str, Any]]) -> None:
    _, data = page
    listed, table = columns(data["corpus"]["runs"]), ot.metrics(corpus)
    for name in ("n_events", "n_agents", "n_tool_calls", "tokens", "elapsed", "n_tainted"):
        assert listed[name] == table[name].to_list(), name
    found = corpus.findings.group_by("trace").len().collect()
    assert sum(listed["n_findings"]) == found["len"].sum()


def test_the_tokens_of_the_list_add_up(tmp_path: Path) -> None:
    """Fresh, cached, written to a cache and out are all tokens, of the run and of its agents."""
    usage = {
        "input_tokens": 5,
        "cache_read_input_tokens": 90,
        "cache_creation_input_tokens": 3,
        "output_tokens": 7,
    }
    message = {"id": "m", "model": "x", "role": "assistant", "content": [{"type": "text", "text": "."}]}
    said = {"type": "assistant", "uuid": "a", "sessionId": "s", "message": message | {"usage": usage}}
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(said | {"timestamp": "2026-01-01T00:00:00Z"}) + "\n")
    ot.view(ot.read_traces(path), tmp_path / "page.html")
    data = data_of(tmp_path / "page.html")
    (run,) = [run for name, run in data.items() if name.startswith("run-")]
    agent = next(row for row in rows(run["agents"]) if row["tokens"])
    for row in (rows(data["corpus"]["runs"])[0], agent):
        parts = [row[f"tokens_{part}"] for part in ("fresh", "cached", "cache_write", "out")]
        assert (parts, row["tokens"]) == ([5, 90, 3, 7], 105)


def test_events_edges_and_times_are_those_of_the_corpus(
    corpus: ot.Corpus, page: tuple[View, dict[str, Any]]
) -> None:
    _, data = page
    soon = ot.schedules.simulate(corpus, max_gap=3600.0)
    recorded = ot.schedules.simulate(corpus, release="recorded", max_gap=3600.0)
    reached = ot.safety.tainted_events(corpus)
    for trace in range(len(corpus)):
        run, own = data[f"run-{trace}"], pl.col("trace") == trace
        events = corpus.events.filter(own).collect()
        shown = columns(run["events"])
        for name in ("seq", "id", "t", "type", "agent", "tokens"):
            assert shown[name] == events[name].cast(events[name].dtype).to_list(), name
        assert shown["critical"] == soon.filter(own)["critical"].to_list()
        assert shown["soon_finish"] == soon.filter(own)["finish"].to_list()
        assert shown["start"] == recorded.filter(own)["start"].to_list()
        edges = corpus.edges.filter(own).select("src", "dst", pl.col("type").cast(pl.String)).collect()
        assert rows(run["edges"]) == edges.to_dicts()
        tainted = {seq: hops for seq, hops in reached.filter(own).select("seq", "hops").iter_rows()}
        hops = shown.get("hops", [None] * events.height)
        assert {seq: hop for seq, hop in zip(shown["seq"], hops, strict=True) if hop is not None} == tainted


def test_credit_is_that_of_the_verb(corpus: ot.Corpus, page: tuple[View, dict[str, Any]]) -> None:
    _, data = page
    for at, method in enumerate(METHODS):
        agents = ot.credit(corpus, method=method, unit="agent")
        events = ot.credit(corpus, method=method, unit="event")
        for trace in range(len(corpus)):
            shown, own = data[f"run-{trace}"]["credits"][at], pl.col("trace") == trace
            told = columns(shown["agents"])
            expected = agents.filter(own)
            assert told["unit_id"] == expected["unit_id"].to_list()
            assert told.get("credit") in (expected["credit"].to_list(), None)
            by_event = events.filter(own, pl.col("seq").is_not_null())["credit"].to_list()
            assert shown["events"] in (by_event, None)
            assert (shown["events"] is None) == (not any(value is not None for value in by_event))


def test_effects_are_those_of_replay(corpus: ot.Corpus, page: tuple[View, dict[str, Any]]) -> None:
    _, data = page
    dropped = ot.replay(corpus, ot.interventions.drop(each="agent"))
    slots = ot.replay(corpus, ot.interventions.concurrency((1, 2, 4, 8)), max_gap=3600.0)
    for trace in range(len(corpus)):
        shown = rows(data[f"run-{trace}"]["effects"])
        for table in (dropped, slots):
            for row in table.filter(pl.col("trace") == trace).iter_rows(named=True):
                (same,) = [
                    one
                    for one in shown
                    if (one["intervention"], one.get("unit_id")) == (row["intervention"], row["unit_id"])
                ]
                for name in ("effect", "lower", "upper", "makespan_cf", "tokens_cf", "reason"):
                    assert same.get(name) == row[name]


def test_agents_stand_below_their_parents(corpus: ot.Corpus, page: tuple[View, dict[str, Any]]) -> None:
    _, data = page
    for trace in range(len(corpus)):
        agents = rows(data[f"run-{trace}"]["agents"])
        level = {row["agent"]: row["level"] for row in agents}
        for at, row in enumerate(agents):
            if row.get("parent") is None:
                assert row["level"] == 0
                continue
            assert row["level"] == level[row["parent"]] + 1
            above = [one["agent"] for one in agents[:at] if one["level"] == row["level"] - 1]
            assert above[-1] == row["parent"]


def test_lines_are_those_of_the_source(corpus: ot.Corpus, page: tuple[View, dict[str, Any]]) -> None:
    _, data = page
    for trace in (0, 7):
        places = data[f"run-{trace}"]["places"]
        for seq in (0, 3):
            source = corpus.source(trace, seq)
            assert places["files"][places["file"][seq]] == source.file
            assert places["line"][seq] == source.line


def test_lines_are_not_looked_up_in_recordings_that_are_too_large(
    corpus: ot.Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "REREAD", 0)
    ot.view(corpus, tmp_path / "page.html", runs=1)
    (run,) = [run for name, run in data_of(tmp_path / "page.html").items() if name.startswith("run-")]
    assert run["places"]["file"] == [] and f"Corpus.source({run['trace']}, seq)" in run["places"]["reason"]
    assert (run["file"], run["line"]) == (corpus.source(run["trace"], 0).file, run["trace"] + 1)


def test_runs_are_named_by_what_recordings_say(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.jsonl").write_text(session(number))
    (folder / "2.jsonl").write_text(session(2) + '{"type":"ai-title","sessionId":"another","aiTitle":"x"}\n')
    read = ot.read_traces(folder)
    for text in (False, True):
        ot.view(read, tmp_path / f"{text}.html", text=text)
        listed = columns(data_of(tmp_path / f"{text}.html")["corpus"]["runs"])
        assert listed["started_at"] == ["2026-01-01 00:00", "2026-01-01 00:01", "2026-01-01 00:03"]
        assert listed["model"] == ["claude-opus-4-7"] * 3
        assert listed["title"] == ["Fix the parser 0", "Fix the parser 1", None]
        assert listed["tokens_cache_write"] == [14, 94, 174]
        assert listed.get("words") == ([f"do task {number}" for number in range(3)] if text else None)
    whole = (tmp_path / "False.html").read_text()
    assert "do task" not in whole


def test_a_page_prices_each_event_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(*args: Any, **options: Any) -> pl.DataFrame:
        calls.append(args)
        return spent(*args, **options)

    monkeypatch.setattr("orchestrace.costs.verb.spent", counted)
    corpus = ot.generate(traces=4, seed=0)
    ot.view(corpus, tmp_path / "page.html", runs=1)
    assert len(calls) == 1
    ot.summary(corpus)
    assert len(calls) == 2


def test_titles_are_looked_for_in_so_many_bytes_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    blank = " " * 9_000 + "\n"
    for number in range(2):
        (folder / f"{number}.jsonl.gz").write_bytes(gzip.compress((blank * 9 + session(number)).encode()))
    monkeypatch.setattr(naming, "SEARCHED", 100_000)
    titles = naming.names_of(ot.read_traces(folder))["title"].to_list()
    assert titles == ["Fix the parser 0", None]  # the second file ends after 19,000 bytes, packed or not


def test_a_small_file_that_unpacks_to_gigabytes_is_read_to_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl.gz"
    file.write_bytes(gzip.compress(session(0).encode()))
    corpus = ot.read_traces(file)
    mebibyte = gzip.compress(b" " * 2**20)
    file.write_bytes(mebibyte * 2_000 + b"never reached, or this would be no gzip")
    began = time.process_time()
    assert naming.names_of(corpus)["title"].to_list() == [None]
    assert time.process_time() - began < 10


def test_a_recording_that_is_broken_by_now_has_no_title(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl.gz"
    whole = bytearray(gzip.compress(session(0).encode()))
    file.write_bytes(whole)
    corpus = ot.read_traces(file)
    whole[30] ^= 0xFF
    file.write_bytes(whole)
    assert naming.names_of(corpus)["title"].to_list() == [None]


def test_a_model_among_several_is_that_of_most_events(tmp_path: Path) -> None:
    events = [
        {"id": str(seq), "t": seq, "type": "message", "agent": "a", "to": "b", "model": model}
        for seq, model in enumerate(["m", "n", "n", "o"])
    ]
    run = {"trace_id": "r", "task_id": "t", "events": events, "edges": [], "rewards": {}}
    (tmp_path / "runs.jsonl").write_text(json.dumps(run | {"costs": {"tokens": 1, "wall_clock_s": 1}}) + "\n")
    ot.view(ot.read_traces(tmp_path / "runs.jsonl"), tmp_path / "page.html")
    listed = columns(data_of(tmp_path / "page.html")["corpus"]["runs"])
    assert listed["model"] == ["n +2"] and "started_at" not in listed


def test_bars_are_what_the_story_and_metrics_say(
    corpus: ot.Corpus, page: tuple[View, dict[str, Any]]
) -> None:
    told, data = ot.summary(corpus), page[1]["corpus"]
    assert data["time"] == {
        "seconds": {name: value for name, value in told.seconds.items() if name != "idle"},
        "idle": told.seconds["idle"],
        "n_timed": told.n_timed,
    }
    members = ot.metrics(corpus, by="agent").filter(pl.col("agent").is_not_null())
    by_name: dict[str, int] = {}
    for name, tokens in members.select(pl.col("agent").cast(pl.String), "tokens").iter_rows():
        by_name[name] = by_name.get(name, 0) + (tokens or 0)
    spent = rows(data["spending"])
    assert len(spent) <= 8 and sum(row["tokens"] for row in spent) == sum(by_name.values()) > 0
    named = [row for row in spent if row["agent"] is not None]
    assert {row["agent"]: row["tokens"] for row in named}.items() <= by_name.items()
    least = min(row["tokens"] for row in named)
    assert all(row["tokens"] <= least or row in named for row in named)
    rest = [row for row in spent if row["agent"] is None]
    assert not rest or rest[0]["n_agents"] + len(named) == len([one for one in by_name.values() if one])
    assert data["first"] == [list(one) for one in told.runs.select("trace", "why").iter_rows()]


def test_text_is_there_only_where_it_is_asked_for(corpus: ot.Corpus, tmp_path: Path) -> None:
    plain, texts = tmp_path / "plain.html", tmp_path / "texts.html"
    ot.view(corpus, plain, runs=1)
    ot.view(corpus, texts, runs=1, text=True)
    (without,) = [run for name, run in data_of(plain).items() if name.startswith("run-")]
    (within,) = [run for name, run in data_of(texts).items() if name.startswith("run-")]
    assert without["texts"] == {"height": 0, "columns": {}}
    assert columns(within["texts"])["text"][2] == corpus.source(within["trace"], 2).text[:4000]


def test_a_corpus_without_rewards_says_so(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    events = [{"id": "a", "t": 0, "type": "message", "agent": "x", "to": "y"}]
    run = {
        "trace_id": "r",
        "task_id": "t",
        "events": events,
        "edges": [],
        "rewards": {},
        "costs": {"tokens": 1, "wall_clock_s": 1},
    }
    path.write_text(json.dumps(run) + "\n")
    ot.view(ot.read_traces(path), tmp_path / "page.html")
    told = data_of(tmp_path / "page.html")
    assert told["corpus"]["no_reward"].startswith("unknown reward channel 'team': this corpus has no rewards")
    assert "reward" not in columns(told["corpus"]["runs"])
    assert (
        told["corpus"]["methods"][0]["reason"] is None or "reward" in told["corpus"]["methods"][0]["reason"]
    )


def test_a_corpus_on_disk_gives_the_same_runs(recorded: Path, corpus: ot.Corpus, tmp_path: Path) -> None:
    ot.ingest(recorded, tmp_path / "stored")
    ot.view(ot.read_corpus(tmp_path / "stored"), tmp_path / "disk.html", methods=["flow"])
    ot.view(corpus, tmp_path / "memory.html", methods=["flow"])
    disk, memory = data_of(tmp_path / "disk.html"), data_of(tmp_path / "memory.html")
    by_id = {run["trace_id"]: run for name, run in disk.items() if name.startswith("run-")}
    for name, run in memory.items():
        if name.startswith("run-"):
            assert {**by_id[run["trace_id"]], "trace": 0} == {**run, "trace": 0}


def test_nothing_to_show_is_a_page_too(tmp_path: Path) -> None:
    corpus = ot.generate(traces=2, seed=0).filter(False)
    made = ot.view(corpus, tmp_path / "page.html")
    assert (made.n_runs, made.n_detailed) == (0, 0)
