"""Runs to train on: the reason of each, splits without leakage, pairs, and what is written."""

import gzip
import itertools
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import orchestrace as ot
from orchestrace.trainers.conversations import conversation
from orchestrace.trainers.families import families, split_of
from orchestrace.trainers.preference_pairs import pairs_of
from samples.chat_runs import chat, sums, write_chats


def read(folder: Path, chats: list[dict[str, Any]]) -> ot.Corpus:
    return ot.read_traces(write_chats(folder / "runs.jsonl", chats))


def reasons(selection: pl.DataFrame) -> dict[str, str | None]:
    return dict(selection.select("trace_id", "reason").rows())


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_passed_is_imitated(tmp_path: Path) -> None:
    chats = [
        *sums(2),
        chat("sum-0", "none", "0 + 0?", ["0"], None),
        chat("sum-1", "same", "1 + 1?", ["2"], 1.0),
    ]
    selection = ot.trainers.select(read(tmp_path, chats), "sft")
    assert reasons(selection) == {
        **{f"sum-{task}-{run}": None if run < 2 else "reward.low" for task in range(2) for run in range(4)},
        "none": "reward.absent",
        "same": None,
        "sum-1-0": "run.duplicate",
    }
    assert selection["kept"].to_list() == [reason is None for reason in selection["reason"].to_list()]
    assert selection.filter(task_id="sum-0").select("attempts", "pass_rate").unique().rows() == [(4, 0.5)]
    both = ot.trainers.select(read(tmp_path, chats), "sft", duplicates="keep", max_turns=1)
    assert reasons(both) == {
        **{f"sum-{task}-{run}": "reward.low" for task in range(2) for run in (2, 3)},
        **{
            f"sum-{task}-{run}": None if run == 0 else "length.exceeded"
            for task in range(2)
            for run in (0, 1)
        },
        "none": "reward.absent",
        "same": None,
    }


def test_tasks_that_partly_pass_are_trained_on(tmp_path: Path) -> None:
    chats = [
        *sums(2),
        *(chat("easy", f"easy-{run}", "1 + 0?", ["1", str(run)], 1.0) for run in range(2)),
        *(chat("hard", f"hard-{run}", "1 / 0?", ["1", str(run)], 0.0) for run in range(2)),
    ]
    selection = ot.trainers.select(read(tmp_path, chats), "rl")
    wanted = {f"sum-{task}-{run}": "task.represented" for task in range(2) for run in range(1, 4)}
    wanted |= {f"{task}-{run}": "rate.outside" for task in ("easy", "hard") for run in range(2)}
    assert reasons(selection) == {**wanted, "sum-0-0": None, "sum-1-0": None}
    few = ot.trainers.select(read(tmp_path, chats), "rl", min_attempts=5)
    assert set(few["reason"]) == {"attempts.few"}
    low = ot.trainers.select(read(tmp_path, chats), "rl", pass_rate=(-1, 0.5))
    assert low.filter("kept")["task_id"].to_list() == ["hard"]


def test_pairs_are_of_one_prompt_and_of_like_lengths(tmp_path: Path) -> None:
    corpus = read(tmp_path, [*sums(2), chat("sum-0", "other", "Zero?", ["9"], 0.0)])
    selection = ot.trainers.select(corpus, "dpo")
    assert reasons(selection)["other"] == "pair.absent", "nobody who passed was asked so"
    made = selection.filter("kept")
    assert (
        made.group_by("pair").agg(pl.col("side").sort()).sort("pair")["side"].to_list()
        == [["chosen", "rejected"]] * 4
    )
    one = ot.trainers.select(corpus, "dpo", per_task=1)
    assert one.filter("kept").height == 4 and set(one["reason"]) == {None, "task.full", "pair.absent"}
    assert ot.trainers.select(corpus, "dpo", margin=2.0).filter("kept").height == 0


def test_pairs_of_a_task_are_counted_over_its_prompts_and_differ(tmp_path: Path) -> None:
    chats = [
        chat("t", f"{q}{right}", q, ["yes" if right else "no"], right) for q in "xy" for right in (1.0, 0.0)
    ]
    corpus = read(tmp_path, chats)
    assert ot.trainers.select(corpus, "dpo").filter("kept").height == 4
    one = ot.trainers.select(corpus, "dpo", per_task=1)
    assert reasons(one) == {"x1.0": None, "x0.0": None, "y1.0": "task.full", "y0.0": "task.full"}
    same = read(tmp_path, [chat("t", "r", "?", ["a"], 1.0), chat("t", "s", "?", ["a"], 0.0)])
    assert set(ot.trainers.select(same, "dpo")["reason"]) == {"pair.absent"}, "they said the same"
    asked = read(tmp_path, [chat("t", "r", "1 < 2?", ["yes"], 1.0), chat("t", "s", "3 < 4?", ["yes"], 1.0)])
    assert ot.trainers.select(asked, "sft")["kept"].all(), "they were asked other things"


def test_what_callers_know_counts(tmp_path: Path) -> None:
    corpus = read(tmp_path, sums(1))
    traces = corpus.traces.select("trace").collect()
    tainted = traces.with_columns(outcome_tainted=pl.Series([True, None, False, False]))
    found = ot.trainers.select(corpus, "sft", taint=tainted)
    assert found["reason"].to_list() == ["taint.reached", "taint.unknown", "reward.low", "reward.low"]
    credits = ot.credit(corpus, method="grpo", unit="team")
    assert ot.trainers.select(corpus, "sft", credits=credits).filter("kept").height == 2
    assert set(ot.trainers.select(corpus, "sft", credits=credits, min_credit=2.0)["reason"]) == {
        "credit.low",
        "reward.low",
    }
    with pytest.raises(ot.ParameterError, match="expected rows of credit"):
        ot.trainers.select(corpus, "sft", credits=ot.credit(corpus, method="grpo", unit="turn"))
    with pytest.raises(ot.ParameterError, match="taint has no row of trace 1: expected one of each run"):
        ot.trainers.select(corpus, "sft", taint=tainted.head(1))


def test_repeated_calls_are_counted(tmp_path: Path) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "c", "content": "x"}
    run = chat("t", "r", "?", ["done"], 1.0)
    run["messages"][2:2] = [{"role": "assistant", "content": "", "tool_calls": [call]}, result] * 4
    corpus = read(tmp_path, [run])
    selection = ot.trainers.select(corpus, "sft")
    assert selection["repeats"].to_list() == [0.75]
    assert ot.trainers.select(corpus, "sft", max_repeats=0.75)["kept"].all()
    assert ot.trainers.select(corpus, "sft", max_repeats=0.7)["reason"].to_list() == ["repeats.exceeded"]
    assert ot.trainers.select(corpus, "sft", max_tokens=9)["reason"].to_list() == ["length.unknown"]


@pytest.mark.parametrize("purpose", ["sft", "dpo", "rl"])
def test_a_corpus_of_nothing_but_rejects_has_no_runs(tmp_path: Path, purpose: Any) -> None:
    corpus = read(tmp_path, [{"instance_id": "a", "trajectory_id": "b", "messages": [], "reward": 1}])
    assert len(corpus) == 0
    selection = ot.trainers.select(corpus, purpose)
    assert selection.is_empty()
    assert ot.trainers.sink_selection(corpus, selection, purpose, tmp_path / "out").is_empty()
    assert lines(tmp_path / "out" / "train.jsonl") == []


def test_of_a_run_that_is_cut_the_recording_says_so(tmp_path: Path) -> None:
    corpus = read(tmp_path, sums(1))
    traces = corpus.traces.collect().with_columns(partial=pl.col("trace") == 0)
    cut = ot.Corpus.from_arrow(
        events=corpus.events.collect(), traces=traces, measures=corpus.measures.collect()
    )
    assert ot.trainers.select(cut, "sft")["reason"].to_list()[0] == "run.partial"
    for nothing in (None, float("nan")):
        credits = ot.credit(corpus, method="grpo", unit="team").with_columns(
            credit=pl.lit(nothing, pl.Float64)
        )
        assert ot.trainers.select(corpus, "sft", credits=credits)["reason"].to_list()[0] == "credit.unknown"


NAMES = st.sampled_from("abcdef")


@settings(deadline=None)
@given(
    st.lists(st.tuples(NAMES, st.one_of(st.none(), st.integers(0, 4))), min_size=1, max_size=20),
    st.integers(),
)
def test_no_prompt_and_no_task_is_on_both_sides(rows: list[tuple[str, int | None]], seed: int) -> None:
    runs = pl.DataFrame(rows, schema={"task": pl.String, "opening": pl.Int64}, orient="row")
    found = families(runs.with_columns(pl.col("opening").cast(pl.String)))
    sides = runs.with_columns(family=found, side=split_of(found, 0.5, seed))
    for key in ("task", "opening"):
        of_key = sides.drop_nulls(key).group_by(key).agg(pl.col("family", "side").n_unique())
        assert of_key.filter((pl.col("family") > 1) | (pl.col("side") > 1)).is_empty()
    # no family is larger than it has to be: joining what shares a name, one after the other
    groups = [{task} for task in runs["task"].unique()]
    for _, tasks in runs.drop_nulls("opening").group_by("opening").agg("task").rows():
        joined = [group for group in groups if group & set(tasks)]
        groups = [group for group in groups if not group & set(tasks)] + [set().union(*joined)]
    assert {min(group) for group in groups} == set(found)


def test_the_share_is_met_and_families_stay(tmp_path: Path) -> None:
    names = pl.Series([f"task-{n}" for n in range(4000)])
    sides = split_of(names, 0.1, 3)
    assert abs((sides == "validation").mean() - 0.1) < 4 * np.sqrt(0.09 / 4000)  # type: ignore[operator]
    more = split_of(pl.concat([pl.Series(["other"]), names]), 0.1, 3)
    assert more[1:].to_list() == sides.to_list()
    assert split_of(names, 0.1, 4).to_list() != sides.to_list()
    assert set(split_of(names, 1.0, 0)) == {"validation"} and set(split_of(names, 0.0, 0)) == {"train"}


RUNS = st.lists(
    st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 5000))), min_size=2, max_size=6
)


@settings(deadline=None, max_examples=60)
@given(RUNS, st.sampled_from([0.0, 1.5]))
def test_pairs_are_the_most_and_the_most_alike(rows: list[tuple[int, int | None]], margin: float) -> None:
    """Against every matching there is."""
    runs = pl.DataFrame(
        {
            "trace": range(len(rows)),
            "trace_id": [f"r{at}" for at in range(len(rows))],
            "reward": [float(reward) for reward, _ in rows],
            "passed": [reward >= 2 for reward, _ in rows],
            "tokens_out": pl.Series([tokens for _, tokens in rows], dtype=pl.Int64),
            "behaviour": pl.Series([None] * len(rows), dtype=pl.UInt64),
        },
        schema_overrides={"trace": pl.UInt32},
    )

    def cost(pair: tuple[int, int]) -> float:
        one, other = (rows[at][1] for at in pair)
        return 1.0 if one is None or other is None else abs(np.log(max(one, 1)) - np.log(max(other, 1)))

    good = [at for at, (reward, _) in enumerate(rows) if reward >= 2]
    bad = [at for at, (reward, _) in enumerate(rows) if reward < 2]
    allowed = [pair for pair in itertools.product(good, bad) if rows[pair[0]][0] - rows[pair[1]][0] >= margin]
    best = (0, 0.0)
    for n in range(1, min(len(good), len(bad)) + 1):
        for pairs in itertools.combinations(allowed, n):
            if len({a for a, _ in pairs}) == len({b for _, b in pairs}) == n:
                best = max(best, (n, -sum(map(cost, pairs))))
    found = pairs_of(runs, margin).select("chosen", "rejected").rows()
    assert set(found) <= set(allowed) and len({at for pair in found for at in pair}) == 2 * len(found)
    assert (len(found), -sum(map(cost, found))) == pytest.approx(best, abs=1e-9)


def test_the_order_of_files_changes_nothing(tmp_path: Path) -> None:
    chats = sums(3)
    here = ot.trainers.select(read(tmp_path, chats), "dpo")
    there = ot.trainers.select(read(tmp_path, chats[::-1]), "dpo")
    columns = [name for name in here.columns if name not in ("trace", "pair")]
    assert here.sort("trace_id").select(columns).equals(there.sort("trace_id").select(columns))
    partners = [
        {tuple(sorted(ids)) for ids in table.drop_nulls("pair").group_by("pair").agg("trace_id")["trace_id"]}
        for table in (here, there)
    ]
    assert partners[0] == partners[1]
    ot.ingest(write_chats(tmp_path / "runs.jsonl", chats), tmp_path / "disk", partitions=2)
    disk = ot.trainers.select(ot.read_corpus(tmp_path / "disk"), "dpo")
    assert here.sort("trace_id").select(columns).equals(disk.sort("trace_id").select(columns))


# --- what is written --------------------------------------------------------------------------------------


def test_conversations_are_written_as_they_stand(tmp_path: Path) -> None:
    chats = sums(3)
    chats[0]["tools"] = [{"type": "function", "function": {"name": "ls"}}]
    chats[0]["messages"].append({"role": "user", "content": "Thanks."})
    corpus = read(tmp_path, chats)
    selection = ot.trainers.select(corpus, "sft", validation=0.5, seed=4)
    written = ot.trainers.sink_selection(corpus, selection, "sft", tmp_path / "sft")
    assert written["reason"].null_count() == written.height == 6
    by_run = {one["trajectory_id"]: one for one in chats}
    for row in written.rows(named=True):
        line = lines(tmp_path / "sft" / row["file"])[row["line"] - 1]
        asked = by_run[row["trace_id"]]
        ended = asked["messages"][:-1] if "tools" in asked else asked["messages"]
        tools = {"tools": asked["tools"]} if "tools" in asked else {}
        assert line == {
            "messages": ended,
            **tools,
            "trace_id": row["trace_id"],
            "task_id": asked["instance_id"],
        }
    sides = dict(selection.select("trace_id", "split").rows())
    assert all(f"{sides[name]}.jsonl" == file for name, file in written.select("trace_id", "file").rows())
    assert len(set(written["file"])) == 2


def test_pairs_and_prompts_are_written(tmp_path: Path) -> None:
    corpus = read(tmp_path, sums(1))
    selection = ot.trainers.select(corpus, "dpo", validation=0.0)
    ot.trainers.sink_selection(corpus, selection, "dpo", tmp_path / "dpo")
    begun = [{"role": "system", "content": "Add."}, {"role": "user", "content": "0 + 0?"}]
    for line in lines(tmp_path / "dpo" / "train.jsonl"):
        assert line["prompt"][:2] == begun
        assert all(line[side][0]["role"] == "assistant" for side in ("chosen", "rejected"))
        assert line["chosen"][-1]["content"] == "0" and line["rejected"][-1]["content"] in "78"
        assert line["trace_id"] < line["rejected_trace_id"]
    ot.trainers.sink_selection(corpus, ot.trainers.select(corpus, "rl"), "rl", tmp_path / "rl")
    (path,) = [path for path in (tmp_path / "rl").iterdir() if path.stat().st_size]
    (row,) = lines(path)
    assert row["prompt"] == begun
    assert row["extra_info"] == {"split": path.stem, "attempts": 4, "pass_rate": 0.5}


def test_places_of_any_kind_are_read_again(tmp_path: Path) -> None:
    """Compressed files, rows of Parquet, archives, and a corpus on disk."""
    chats = sums(2)
    plain = write_chats(tmp_path / "plain.jsonl", chats)
    (tmp_path / "small.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    pl.DataFrame(chats).write_parquet(tmp_path / "rows.parquet")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(plain, "inner/plain.jsonl")
    ot.ingest(plain, tmp_path / "disk")
    texts = set()
    for n, source in enumerate(("plain.jsonl", "small.jsonl.gz", "rows.parquet", "all.zip", "disk")):
        path = tmp_path / source
        corpus = ot.read_corpus(path) if source == "disk" else ot.read_traces(path)
        selection = ot.trainers.select(corpus, "sft", validation=0.0)
        ot.trainers.sink_selection(corpus, selection, "sft", tmp_path / f"out{n}")
        texts.add((tmp_path / f"out{n}" / "train.jsonl").read_text())
    assert len(texts) == 1 and texts.pop().count("\n") == 4


def test_what_cannot_be_written_says_why(tmp_path: Path) -> None:
    corpus = ot.generate(traces=4, seed=0)
    path = tmp_path / "native.jsonl"
    ot.export(corpus, "jsonl", path)
    again = ot.read_traces(path)
    selection = ot.trainers.select(again, "sft", success=0.0)
    written = ot.trainers.sink_selection(again, selection, "sft", tmp_path / "out")
    assert set(written["reason"]) == {"conversation.absent"}
    with pytest.raises(ot.InputError, match="is not a file that can be read again"):
        ot.trainers.sink_selection(
            corpus, ot.trainers.select(corpus, "sft", success=0.0), "sft", tmp_path / "o"
        )
    tables = {name: getattr(corpus, name).collect() for name in ("events", "measures")}
    made = ot.Corpus.from_arrow(**tables, traces=corpus.traces.select("trace", "trace_id").collect())
    with pytest.raises(ot.InputError, match="trace 0 was not read from a file"):
        ot.trainers.sink_selection(made, ot.trainers.select(made, "sft", success=0.0), "sft", tmp_path / "o")
    with pytest.raises(ot.InputError, match=r"train\.jsonl.* exists"):
        ot.trainers.sink_selection(again, selection, "sft", tmp_path / "out")
    ot.trainers.sink_selection(again, selection, "sft", tmp_path / "out", overwrite=True)
    with pytest.raises(ot.ParameterError, match="is a file, expected a folder"):
        ot.trainers.sink_selection(again, selection, "sft", path)
    with pytest.raises(ot.ParameterError, match="selection has several rows of one run"):
        ot.trainers.sink_selection(again, pl.concat([selection] * 2), "sft", tmp_path / "other")
    with pytest.raises(ot.ParameterError, match="selection keeps runs without a pair"):
        ot.trainers.sink_selection(again, selection, "dpo", tmp_path / "other")
    with pytest.raises(ot.ParameterError, match="unknown column 'kept'"):
        ot.trainers.sink_selection(again, selection.drop("kept"), "sft", tmp_path / "other")
    chats = read(tmp_path, sums(1))
    text = (tmp_path / "runs.jsonl").read_text()
    (tmp_path / "runs.jsonl").write_text("[" + text)
    moved = ot.trainers.sink_selection(chats, ot.trainers.select(chats, "sft"), "sft", tmp_path / "moved")
    assert set(moved["reason"]) == {"record.unreadable"}
    (tmp_path / "runs.jsonl").write_text("{}\n")
    with pytest.raises(ot.InputError, match="has changed since it was read"):
        ot.trainers.sink_selection(chats, ot.trainers.select(chats, "sft"), "sft", tmp_path / "other")
    assert not list((tmp_path / "other").iterdir())


def test_one_odd_record_stops_no_other(tmp_path: Path) -> None:
    """Half of a character, as a limit on bytes leaves it; lists within lists; items that are no objects."""
    cut = json.dumps(chat("t", "cut", "?", ["cut"], 1.0)).replace('"cut"}', '"cut \\ud83d"}')
    deep = chat("t", "deep", "?", ["a"], 1.0, prompt='[{"a":' * 60_000 + "1" + "}]" * 60_000)
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join([cut, json.dumps(deep), json.dumps(chat("t", "good", "?", ["b"], 1.0))]) + "\n")
    corpus = ot.read_traces(path)
    selection = ot.trainers.select(corpus, "sft", validation=0.0)
    written = ot.trainers.sink_selection(corpus, selection, "sft", tmp_path / "out")
    assert set(written.sort("trace_id")["reason"]) == {None} and written.height == 3
    texts = {
        line["trace_id"]: line["messages"][-1]["content"] for line in lines(tmp_path / "out" / "train.jsonl")
    }
    assert texts == {"cut": "cut \ud83d", "deep": "a", "good": "b"}


def node(role: str, content: str, parent: int | None) -> dict[str, Any]:
    return {"message": {"role": role, "content": content}} | ({} if parent is None else {"parent": parent})


ASKED, SAID = {"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}
CALL = {"name": "ls", "arguments": "{}"}
CALLED = {"type": "function", "function": CALL}
SHAPES: dict[str, tuple[Any, list[dict[str, Any]], str | None]] = {
    "two parts": ({"prompt": [ASKED], "completion": [SAID]}, [ASKED, SAID], None),
    "text of JSON": ({"id": 1, "row": {"messages": json.dumps([ASKED, SAID])}}, [ASKED, SAID], None),
    "a part of the whole": ({"messages": [ASKED, SAID], "history": [ASKED]}, [ASKED, SAID], None),
    "deep": ({"sample": {"input": [ASKED], "all": [ASKED, SAID]}}, [ASKED, SAID], None),
    "two agents": ({"a": {"log": [ASKED, SAID]}, "b": {"log": [SAID, SAID]}}, [], "conversation.several"),
    "no answer": ({"messages": [ASKED]}, [], "conversation.unanswered"),
    "no messages": ({"messages": "none", "steps": [{"role": 3}]}, [], "conversation.absent"),
    "no record": (None, [], "conversation.absent"),
    "verifiers": (
        {"traces": [{"nodes": [node("user", "?", None), node("assistant", "!", 0)]}]},
        [ASKED, SAID],
        None,
    ),
    "a branch": (
        {"nodes": [node("user", "?", None), node("assistant", "!", 0), node("assistant", "!", 0)]},
        [],
        "conversation.several",
    ),
    "two players": ({"traces": [{"nodes": []}, {"nodes": []}]}, [], "conversation.several"),
    "an older call": (
        {"messages": [ASKED, {"role": "assistant", "content": None, "function_call": CALL}, SAID]},
        [ASKED, {"role": "assistant", "content": "", "tool_calls": [CALLED]}, SAID],
        None,
    ),
    "a call of ShareGPT": (
        {
            "system": "Be kind.",
            "conversations": [
                {"from": "human", "value": "?"},
                {"from": "function_call", "value": json.dumps({"name": "ls", "arguments": {}})},
                {"from": "observation", "value": "x"},
                {"from": "chatgpt", "value": "!"},
            ],
        },
        [
            {"role": "system", "content": "Be kind."},
            ASKED,
            {"role": "assistant", "content": "", "tool_calls": [CALLED]},
            {"role": "tool", "content": "x"},
            SAID,
        ],
        None,
    ),
    "both forms": (
        {"messages": [ASKED, SAID, ASKED, SAID], "prompt": [ASKED], "completion": [SAID]},
        [ASKED, SAID] * 2,
        None,
    ),
    "items that are none": (
        {"responses_create_params": {"input": 5}, "response": {"output": 5}},
        [],
        "conversation.several",
    ),
    "demonstration": ({"history": [{**SAID, "is_demo": True}, ASKED, SAID]}, [ASKED, SAID], None),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_conversations_are_found_in_records(shape: str) -> None:
    record, messages, reason = SHAPES[shape]
    assert conversation(record) == (messages, reason)


def test_items_of_the_responses_api_are_messages() -> None:
    record = {
        "responses_create_params": {"input": "2 + 2?", "instructions": "Add."},
        "response": {
            "output": [
                {"type": "reasoning", "summary": [{"text": "hm"}]},
                {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "4"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "4"}]},
            ]
        },
    }
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    assert conversation(record)[0] == [
        {"role": "system", "content": "Add."},
        {"role": "user", "content": "2 + 2?"},
        {"role": "assistant", "content": "", "tool_calls": [call], "reasoning_content": "hm"},
        {"role": "tool", "content": "4", "tool_call_id": "c"},
        {"role": "assistant", "content": "4"},
    ]
