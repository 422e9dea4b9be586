"""NeMo Gym: the rollouts of SOURCE.md against an independent walk of the files, and Gym's own aggregates."""

import gzip
import hashlib
import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

Record = dict[str, Any]
Place = tuple[str, int]
KIND, NAME, TYPE = (pl.col(name).cast(pl.String) for name in ("kind", "name", "type"))
STATISTICS = {
    "mean": statistics.mean,
    "max": max,
    "min": min,
    "median": statistics.median,
    "std": lambda values: statistics.stdev(values) if len(values) > 1 else 0.0,
}
TOKENS = {"input_tokens": "tokens_in", "output_tokens": "tokens_out", "total_tokens": "tokens"}


def lines(path: Path) -> list[str]:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()


def is_rollouts(path: Path) -> bool:
    beside = ("_aggregate_metrics", "_reward_profiling")
    return path.name.endswith((".jsonl", ".jsonl.gz")) and not any(word in path.name for word in beside)


@pytest.fixture(scope="module")
def folder(corpora: Path) -> Path:
    return corpora / "nemo-gym"


@pytest.fixture(scope="module")
def source(folder: Path) -> dict[Place, Record]:
    """Every line of a file of rollouts, by the file and the number of the line."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and is_rollouts(path))
    return {
        (path.relative_to(folder).as_posix(), number): json.loads(line)
        for path in paths
        for number, line in enumerate(lines(path), 1)
    }


@pytest.fixture(scope="module")
def corpus(folder: Path) -> ot.Corpus:
    return ot.read_traces(folder)


@pytest.fixture(scope="module")
def places(corpus: ot.Corpus, folder: Path) -> dict[Place, int]:
    """Numbers of traces by the file and the line that they were made of."""
    table = corpus.traces.select("trace", pl.col("file").cast(pl.String), "line").collect()
    return {
        (Path(file).relative_to(folder).as_posix(), line): trace for trace, file, line in table.iter_rows()
    }


@pytest.fixture(scope="module")
def used(source: dict[Place, Record]) -> dict[Place, Record]:
    """Without the one line that repeats the line before it, byte for byte."""
    copies = [place for place in source if place[0].startswith("resources_servers/graphwalks/")]
    assert source[copies[3]] == source[copies[4]]
    return {place: record for place, record in source.items() if place != copies[4]}


def conversation(record: Record) -> list[Record]:
    """What the output has, of lists of it the last one."""
    output = record["response"]["output"]
    return output[-1] if output and isinstance(output[0], list) else output


def walk(records: dict[Place, Record]) -> Iterator[tuple[Place, Record]]:
    for place, record in records.items():
        for item in conversation(record):
            yield place, item


def kind(item: Record) -> str:
    return f"{item['role']} message" if item["type"] == "message" else item["type"]


def measured(corpus: ot.Corpus, kind: str) -> dict[int, dict[str, float]]:
    values: dict[int, dict[str, float]] = defaultdict(dict)
    table = corpus.measures.filter(kind == KIND).select("trace", NAME, "value").collect()
    for trace, name, value in table.iter_rows():
        values[trace][name] = value
    return values


def spent(corpus: ot.Corpus) -> dict[int, dict[str, int]]:
    """Tokens of each rollout: those of its only answer, else its costs."""
    columns = ("tokens_in", "tokens_out", "tokens", "tokens_cached", "tokens_reasoning")
    sums = corpus.events.filter(pl.col("tokens").is_not_null()).select("trace", *columns).collect()
    assert sums["trace"].is_unique().all(), "no rollout has tokens of two answers"
    found = {
        row["trace"]: {name: row[name] for name in columns if row[name] is not None}
        for row in sums.iter_rows(named=True)
    }
    for trace, costs in measured(corpus, "cost").items():
        if trace not in found and "tokens" in costs:
            found[trace] = {name: int(costs[name]) for name in columns if name in costs}
    return found


def test_sums_are_those_of_the_source(source: dict[Place, Record], corpus: ot.Corpus) -> None:
    assert len(source) == 245 and len({file for file, _ in source}) == 49
    everything = Counter(
        kind(item)
        for record in source.values()
        for part in record["response"]["output"]
        for item in (part if isinstance(part, list) else [part])
    )
    assert everything == {
        "assistant message": 417,
        "user message": 144,
        "function_call": 140,
        "function_call_output": 129,
        "reasoning": 81,
    }
    stated = [usage for record in source.values() if (usage := record["response"].get("usage"))]
    assert len(stated) == 190
    assert sum(usage["total_tokens"] for usage in stated) == 33_112_603
    assert math.fsum(record["reward"] for record in source.values()) == pytest.approx(58.136103655, abs=1e-9)
    # 10 lists repeat the beginning of another, and a line repeats the one before it
    repeats = sum(
        len(record["response"]["output"]) - 1
        for record in source.values()
        if record["response"]["output"] and isinstance(record["response"]["output"][0], list)
    )
    assert repeats == 10
    records = corpus.records
    assert (records["used"], records["duplicate"], records["quarantined"]) == (244, repeats + 1, 0)
    counts = ot.describe(corpus)["formats"]
    assert counts["importer"].to_list() == ["nemo_gym"]
    assert len(corpus) == 244


def test_files_that_are_no_rollouts_are_ignored_by_kind(corpus: ot.Corpus, folder: Path) -> None:
    aggregates = [json.loads(path.read_text()) for path in folder.rglob("*_aggregate_metrics.json")]
    profiles = [lines(path) for path in folder.rglob("*_reward_profiling.jsonl")]
    counts = corpus.record_counts.filter(pl.col("status").cast(pl.String) == "ignored").collect()
    ignored = counts.group_by(KIND).agg(pl.col("count").sum())
    assert dict(ignored.iter_rows()) == {
        "nemo_gym.aggregate_metrics": sum(map(len, aggregates)),
        "nemo_gym.reward_profiling": sum(map(len, profiles)),
    }
    assert (len(aggregates), len(profiles)) == (9, 1)


def test_every_rollout_is_a_trace(
    corpus: ot.Corpus, used: dict[Place, Record], places: dict[Place, int]
) -> None:
    assert places.keys() == used.keys()
    traces = corpus.traces.collect()
    assert traces["trace_id"].is_unique().all()
    assert traces["time_basis"].cast(pl.String).unique().to_list() == ["ordinal"]
    rewards = measured(corpus, "reward")
    for place, record in used.items():
        assert rewards[places[place]] == {"team": record["reward"]}, place
    assert math.fsum(value["team"] for value in rewards.values()) == pytest.approx(57.136103655, abs=1e-9)
    assert sum(not 0 <= value["team"] <= 1 for value in rewards.values()) == 13


def test_numbers_beside_the_reward_are_metrics(
    corpus: ot.Corpus, used: dict[Place, Record], places: dict[Place, int]
) -> None:
    metrics = measured(corpus, "metric")
    for place, record in used.items():
        numbers = {
            name: float(value)
            for name, value in record.items()
            if isinstance(value, int | float) and not name.startswith("_ng_") and name != "task_idx"
        }
        assert metrics[places[place]] == numbers, place


def digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = [part["text"] for part in content if "text" in part]
    return "".join(texts) if texts else json.dumps(content)


def test_every_item_is_an_event(
    corpus: ot.Corpus, used: dict[Place, Record], places: dict[Place, int]
) -> None:
    table = corpus.events.with_columns(pl.col("type", "agent", "tool").cast(pl.String)).collect()
    events: dict[int, list[Record]] = defaultdict(list)
    for row in table.iter_rows(named=True):
        events[row["trace"]].append(row)
    n = Counter[str]()
    for place, record in used.items():
        here = events[places[place]]
        items = conversation(record)
        contents = Counter((row["type"], row["content_ref"]) for row in here)
        by_id = {row["id"]: row for row in here}
        for index, item in enumerate(items):
            n[kind(item)] += 1
            if item["type"] == "function_call":
                assert by_id[item["call_id"]]["tool"] == item["name"]
            elif item["type"] == "function_call_output":
                result = by_id[item["call_id"] + ":r"]
                assert result["content_ref"] == digest(item["output"]) and result["trusted"] is False
            elif item["type"] == "message" and item["role"] == "user":
                turn = by_id[str(index)]
                assert (turn["agent"], turn["content_ref"]) == ("env", digest(item["content"]))
            elif item["type"] == "message" and (text := text_of(item["content"])):
                assert contents["message", digest(text)] + contents["return", digest(text)] > 0, place
        inputs = record["responses_create_params"]["input"]
        spoken = [item for item in inputs if item["role"] == "user"]
        heard = [row for row in here if row["agent"] == "user"]
        assert len(heard) == len(spoken)
        for row, item in zip(heard, spoken, strict=True):
            if isinstance(item["content"], str):
                assert row["content_ref"] == digest(item["content"])
        unsaid = [item for item in inputs if item["role"] != "user"]
        contexts = [json.loads(row["extras"]).get("x_context", []) for row in here if row["extras"]]
        assert [one["content_ref"] for context in contexts for one in context] == [
            digest(text_of(item["content"])) for item in unsaid
        ], place
    # calls and results of aviary are counted once: 22 fewer of each than in all its lists
    assert n == {
        "assistant message": 416,
        "user message": 134,
        "function_call": 118,
        "function_call_output": 107,
        "reasoning": 80,
    }
    types = Counter(row["type"] for rows in events.values() for row in rows)
    assert (types["tool_call"], types["tool_result"]) == (118, 107)


def test_calls_are_paired_with_their_results(
    corpus: ot.Corpus, used: dict[Place, Record], places: dict[Place, int]
) -> None:
    """11 calls have no result: the environment ended there, or the run went on without it."""
    types = corpus.events.select("trace", "seq", TYPE, "id", "extras")
    pairs = (
        corpus.edges.filter(TYPE == "return")
        .join(types, left_on=["trace", "src"], right_on=["trace", "seq"])
        .join(types, left_on=["trace", "dst"], right_on=["trace", "seq"], suffix="_result")
        .collect()
    )
    assert pairs.height == 107
    assert (pairs["id"] + ":r" == pairs["id_result"]).all()
    calls = types.filter(TYPE == "tool_call").collect()
    alone = calls.join(pairs, on=["trace", "id"], how="anti")
    assert alone.height == 11
    assert all(json.loads(text)["x_partial"] for text in alone["extras"])
    partial = set(corpus.traces.filter("partial").collect()["trace"])
    assert not partial & set(alone["trace"])
    last = [
        places[place] for place, record in used.items() if (conversation(record) or [{}])[-1].get("call_id")
    ]
    ends = types.filter(pl.col("id") == "end").collect()["trace"]
    nothing = [places[place] for place, record in used.items() if not conversation(record)]
    assert len(nothing) == 5 and set(ends) == {*last, *nothing}


def test_rollouts_that_were_cut_short_are_partial(
    corpus: ot.Corpus, used: dict[Place, Record], places: dict[Place, int]
) -> None:
    cut = {
        places[place]
        for place, record in used.items()
        if record["response"].get("incomplete_details") or record.get("truncated")
    }
    assert len(cut) == 11
    assert set(corpus.traces.filter("partial").collect()["trace"]) == cut


def test_tokens_are_those_of_the_source(
    corpus: ot.Corpus, used: dict[Place, Record], places: dict[Place, int]
) -> None:
    found = spent(corpus)
    n_answers = (
        corpus.events.filter(pl.col("turn").is_not_null()).group_by("trace").agg(pl.col("turn").n_unique())
    )
    answers = dict(n_answers.collect().iter_rows())
    on_answers = set(corpus.events.filter(pl.col("tokens").is_not_null()).collect()["trace"])
    sums = Counter[str]()
    uncounted = set()
    for place, record in used.items():
        usage = record["response"].get("usage") or {}
        if not usage.get("total_tokens"):
            assert places[place] not in found
            if usage:
                uncounted.add(places[place])
            continue
        one = found[places[place]]
        assert one["tokens_in"] == usage.get("input_tokens", usage.get("prompt_tokens")), place
        assert one["tokens_out"] == usage.get("output_tokens", usage.get("completion_tokens")), place
        assert one["tokens"] == usage["total_tokens"], place
        details = (usage.get("input_tokens_details") or {}) | (usage.get("output_tokens_details") or {})
        for name in ("cached", "reasoning"):
            assert one.get(f"tokens_{name}") == details.get(f"{name}_tokens"), place
        sums.update(one)
        ends_with_answer = conversation(record)[-1]["type"] != "function_call_output"
        assert (places[place] in on_answers) == (answers[places[place]] == 1 and ends_with_answer), place
    # of the rollout that is there twice
    assert sums["tokens_in"] == 32_626_545 - 1_323
    assert sums["tokens_out"] == 486_058 - 1_464
    assert (sums["tokens_cached"], sums["tokens_reasoning"]) == (12_416, 13_059)
    assert sums["tokens"] == 33_112_603 - 2_787
    reported = corpus.findings.filter(pl.col("code").cast(pl.String) == "usage.incomplete").collect()
    assert set(reported["trace"]) == uncounted and len(uncounted) == 5


def test_groups_are_rollouts_of_a_task(
    corpus: ot.Corpus, used: dict[Place, Record], places: dict[Place, int]
) -> None:
    groups: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    for (file, line), record in used.items():
        task = record.get("_ng_task_index", record.get("task_idx"))
        if task is None:
            task = json.dumps(record["responses_create_params"]["input"], sort_keys=True)
        groups[file, task].add(places[file, line])
    table = corpus.traces.select("trace", "group_id", "task_id").collect()
    for column in ("group_id", "task_id"):
        read = {frozenset(part["trace"]) for part in table.partition_by(column)}
        assert read == {frozenset(group) for group in groups.values()}, column
    numbered = {
        (file, record["_ng_task_index"]) for (file, _), record in used.items() if "_ng_task_index" in record
    }
    assert len(numbered) == 151
    assert sorted(len(group) for group in groups.values())[-4:] == [1, 5, 5, 5]


def test_lines_need_not_be_in_the_order_of_the_rollouts(
    corpus: ot.Corpus, used: dict[Place, Record], places: dict[Place, int]
) -> None:
    file = "responses_api_agents/anyswe_agent/data/example_rollouts_opencode.jsonl.gz"
    order = [used[file, line]["_ng_rollout_index"] for line in range(1, 6)]
    assert order == [1, 3, 4, 0, 2]
    ids = dict(corpus.traces.select("trace", "trace_id").collect().iter_rows())
    rewards = measured(corpus, "reward")
    paid = {}
    for line in range(1, 6):
        trace = places[file, line]
        task, rollout = ids[trace].rsplit("/", 1)
        assert task == "example_rollouts_opencode/anyswe_opencode/0"
        paid[int(rollout)] = rewards[trace]["team"]
    assert [paid[rollout] for rollout in range(5)] == [1, 0, 1, 1, 1]


# --- the aggregates of NeMo Gym ---


def rollouts_of(folder: Path, path: Path, used: dict[Place, Record]) -> dict[Place, Record]:
    """The rollouts that a file beside them is about."""
    stem = path.name.replace("_aggregate_metrics.json", "").replace("_reward_profiling.jsonl", "")
    file = next(one for one in path.parent.glob(f"{stem}.jsonl*"))
    name = file.relative_to(folder).as_posix()
    return {place: record for place, record in used.items() if place[0] == name}


class Table:
    """What the frames say of rollouts, in the words of Gym."""

    def __init__(self, corpus: ot.Corpus, places: dict[Place, int]) -> None:
        self.places = places
        self.metrics = measured(corpus, "metric")
        self.spent = spent(corpus)

    def values(self, rollouts: dict[Place, Record], name: str) -> list[float]:
        """Values of a metric, and of tokens; those that are not known are left out."""
        values: list[float] = []
        for place in rollouts:
            trace = self.places[place]
            held = self.spent.get(trace, {}) if name in TOKENS else self.metrics[trace]
            if (value := held.get(TOKENS.get(name, name))) is not None:
                values.append(value)
        return values

    def holds(self, stated: Record, rollouts: dict[Place, Record]) -> Counter[str]:
        """Whether statistics are as stated, and how many are of what."""
        n = Counter[str]()
        for key, value in stated.items():
            statistic, _, name = key.partition("/")
            if statistic not in STATISTICS:
                continue
            values = self.values(rollouts, name)
            if not values and name in TOKENS:
                assert value == 0.0, "a usage of 0 that nobody counted"
                n["uncounted"] += 1
            elif not values:
                n["of no rollout"] += 1
            else:
                assert STATISTICS[statistic](values) == pytest.approx(value, rel=1e-12, abs=1e-12), key
                n["same"] += 1
        return n


@pytest.fixture(scope="module")
def table(corpus: ot.Corpus, places: dict[Place, int]) -> Table:
    return Table(corpus, places)


def test_aggregates_of_agents_are_those_of_gym(folder: Path, used: dict[Place, Record], table: Table) -> None:
    n = Counter[str]()
    means = {}
    for path in sorted(folder.rglob("*_aggregate_metrics.json")):
        (of_agent,) = json.loads(path.read_text())
        rollouts = rollouts_of(folder, path, used)
        assert len(rollouts) == 5
        held = table.holds(of_agent["agent_metrics"], rollouts)
        # structeval adds means by the kind of a task, which its rollouts have as words
        assert "of no rollout" not in held or path.parent.parent.name == "structeval"
        n += held
        assert of_agent["key_metrics"].items() <= of_agent["agent_metrics"].items()
        means[path.parent.parent.name] = statistics.mean(table.values(rollouts, "reward"))
    expected = {
        "blackjack": 0.2,
        "circle_count": 0.6,
        "example_multi_turn_gymnasium": 1.0,
        "grl_tetris": 5.2,
        "proof_genselect": 0.6,
        "proof_verification": 0.5,
        "structeval": 0.8,
        "tales": -19.8,
        "hermes_agent": 0.2,
    }
    assert means == pytest.approx(expected)
    # hermes counted no tokens: 5 statistics of 3 counts
    assert n == {"same": 255, "uncounted": 15, "of no rollout": 21}


def test_aggregates_of_tasks_are_those_of_gym(folder: Path, used: dict[Place, Record], table: Table) -> None:
    n = Counter[str]()
    for path in sorted(folder.rglob("*_aggregate_metrics.json")):
        (of_agent,) = json.loads(path.read_text())
        rollouts = rollouts_of(folder, path, used)
        for stated in of_agent["group_level_metrics"]:
            number = stated["_ng_task_index"]
            task = {place: record for place, record in rollouts.items() if record["_ng_task_index"] == number}
            assert stated.get("num_rollouts", len(task)) == len(task) > 0
            n += table.holds(stated, task)
            for stated_rollout in stated.get("rollout_infos", ()):
                (place,) = (
                    place
                    for place, record in task.items()
                    if record["_ng_rollout_index"] == stated_rollout["_ng_rollout_index"]
                )
                for name, value in stated_rollout.items():
                    if not name.startswith(("_ng_", "rollout_id")):
                        assert table.values({place: task[place]}, name) == [value]
    assert n == {"same": 1_155, "uncounted": 75}


def test_profiles_of_tasks_are_those_of_gym(folder: Path, used: dict[Place, Record], table: Table) -> None:
    (path,) = folder.rglob("*_reward_profiling.jsonl")
    rollouts = rollouts_of(folder, path, used)
    n = Counter[str]()
    for line in lines(path):
        stated = json.loads(line)
        prompt = [item["content"] for item in stated["sample"]["responses_create_params"]["input"]]
        task = {
            place: record
            for place, record in rollouts.items()
            if [item["content"] for item in record["responses_create_params"]["input"]] == prompt
        }
        assert len(task) == 1
        n += table.holds(stated, task)
    assert n == {"same": 5 * 4 * 5}


@pytest.mark.every_nth(1)
@pytest.mark.parametrize("threads", [2, 7])
def test_threads_change_nothing(folder: Path, corpus: ot.Corpus, threads: int) -> None:
    again = ot.read_traces(folder, threads=threads)
    for name in ("traces", "events", "edges", "measures", "findings"):
        assert getattr(again, name).collect().equals(getattr(corpus, name).collect()), name
