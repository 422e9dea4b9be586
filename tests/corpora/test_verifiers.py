"""verifiers v1: the episodes of SOURCE.md against an independent walk of the files."""

import gzip
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

Record = dict[str, Any]
KIND, NAME, TYPE = (pl.col(name).cast(pl.String) for name in ("kind", "name", "type"))
FILES = {
    "kuhn-eval": "traces.jsonl",
    "sums-eval": "traces.jsonl",
    "proposer-eval": "traces.jsonl",
    "kuhn-train": "traces.jsonl.gz",
    "graph": "traces.jsonl",
}
#: Episodes, agents, nodes, sampled ones, calls, failed ones, tokens in, of a cache, out, dollars.
SUMS = {
    "kuhn-eval": (4, 8, 26, 9, 9, 0, 1_681, 112, 60, 0.001681),
    "sums-eval": (8, 8, 31, 11, 12, 1, 747, 154, 109, 0.000747),
    "proposer-eval": (1, 5, 10, 5, 5, 0, 234, 0, 37, 0.000234),
    "kuhn-train": (9, 18, 64, 23, 23, 0, 4_401, 560, 153, 0.004401),
    "graph": (1, 1, 18, 7, 8, 1, 2_450, 2_100, 56, 0.028),
}
#: Weighted sums of rewards over the episodes of a folder.
REWARDS = {
    "kuhn-eval": {"payoff": 0.0},
    "sums-eval": {"correct": 4.0, "brief": 1.5},
    "proposer-eval": {"learnability": 1.0, "correct": 2.0},
    "kuhn-train": {"payoff": 0.0},
    "graph": {"correct": 1.0, "brief": 0.25},
}


def episodes(corpora: Path, name: str) -> list[Record]:
    data = (corpora / "verifiers" / name / FILES[name]).read_bytes()
    text = gzip.decompress(data) if FILES[name].endswith(".gz") else data
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module", params=FILES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def source(corpora: Path, name: str) -> list[Record]:
    return episodes(corpora, name)


def of(corpora: Path, name: str) -> ot.Corpus:
    return ot.read_traces(corpora / "verifiers" / name)


@pytest.fixture(scope="module")
def corpus(corpora: Path, name: str) -> ot.Corpus:
    return of(corpora, name)


def walk(source: list[Record]) -> Iterator[tuple[Record, Record, int, Record]]:
    """Episode, trace, index and node of every node."""
    for episode in source:
        for trace in episode["traces"]:
            for index, node in enumerate(trace["nodes"]):
                yield episode, trace, index, node


def extras(corpus: ot.Corpus) -> pl.DataFrame:
    """Events with their other fields as a dictionary."""
    events = corpus.events.with_columns(pl.col("type", "agent").cast(pl.String)).collect()
    members = [json.loads(text) if text else {} for text in events["extras"]]
    return events.with_columns(pl.Series("members", members, dtype=pl.Object))


def generations(corpus: ot.Corpus) -> dict[str, tuple[Record, Record]]:
    """The first event of each answer and its other fields, by the id of the answer."""
    found: dict[str, tuple[Record, Record]] = {}
    for row in extras(corpus).iter_rows(named=True):
        if "x_gen" in row["members"]:
            found.setdefault(row["members"]["x_gen"], (row, row["members"]))
    return found


def test_sums_are_those_of_the_source(corpus: ot.Corpus, source: list[Record], name: str) -> None:
    n_episodes, n_agents, n_nodes, n_sampled, n_calls, n_failed, read, cached, written, cost = SUMS[name]
    traces = [trace for episode in source for trace in episode["traces"]]
    calls = [call for trace in traces for call in trace["calls"]]
    sampled = [node for *_, node in walk(source) if node["sampled"]]
    failed = [call for call in calls if "error" in call]
    counts = (len(source), len(traces), len(list(walk(source))), len(sampled), len(calls), len(failed))
    assert counts == (n_episodes, n_agents, n_nodes, n_sampled, n_calls, n_failed), "of the source itself"
    assert len(corpus) == n_episodes
    assert corpus.records["quarantined"] == corpus.records["ignored"] == 0
    assert corpus.traces.collect()["importer"].cast(pl.String).unique().to_list() == ["verifiers"]
    events = corpus.events.select("tokens_in", "tokens_cached", "tokens_out", "cost_usd").sum().collect()
    assert events.row(0)[:3] == (read, cached, written)
    assert events["cost_usd"].item() == pytest.approx(cost, abs=1e-12)
    answers = [id for id in generations(corpus) if ":call" not in id]
    assert len(answers) == n_sampled
    agents = corpus.agents.filter(KIND == "agent").collect()
    environments = sum(len(episode["traces"]) > 1 for episode in source)
    assert agents.height == n_agents + environments + (name == "graph")


def test_rewards_are_those_of_the_source(corpus: ot.Corpus, source: list[Record], name: str) -> None:
    rewards = corpus.measures.filter(KIND == "reward").collect()
    channels = rewards.with_columns(NAME).group_by("name").agg(pl.col("value").sum())
    sums = dict(channels.filter(pl.col("name") != "team").iter_rows())
    assert sums == pytest.approx(REWARDS[name])
    team = dict(
        rewards.filter(NAME == "team")
        .join(corpus.traces.select("trace", "trace_id").collect(), on="trace")
        .select("trace_id", "value")
        .iter_rows()
    )
    for episode in source:
        paid = [
            sum(reward["score"] * reward["weight"] for reward in trace["rewards"].values())
            if trace["rewards"]
            else None
            for trace in episode["traces"]
        ]
        same = len(set(paid)) == 1 and paid[0] is not None
        assert team.get(episode["id"]) == (pytest.approx(paid[0]) if same else None), episode["id"]


def test_the_outcome_of_a_game_is_of_nobody_together(corpora: Path) -> None:
    assert "team" not in of(corpora, "kuhn-eval").reward_channels()
    train = episodes(corpora, "kuhn-train")
    members = [members for _, members in generations(of(corpora, "kuhn-train")).values()]
    paid = [fields["x_agent_rewards"]["payoff"]["score"] for fields in members if "x_agent_rewards" in fields]
    assert sorted(paid) == sorted(
        trace["rewards"]["payoff"]["score"] for episode in train for trace in episode["traces"]
    )


def digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def test_every_node_is_somewhere(corpus: ot.Corpus, source: list[Record]) -> None:
    """Answers, messages of users and results are events; prompts come with the answer that reads them."""
    nodes: Counter[tuple[str, int]] = Counter()
    streams: dict[tuple[str, int], Record] = {}
    contents: dict[tuple[str, int], set[str | None]] = {}
    events = extras(corpus)
    trace_ids = dict(corpus.traces.select("trace", "trace_id").collect().iter_rows())
    owners = {
        (trace_ids[row["trace"]], row["agent"]): row["members"]["x_agent_id"].partition(":")[0]
        for row in events.iter_rows(named=True)
        if "x_agent_id" in row["members"] and row["type"] != "spawn"
    }
    for row in events.iter_rows(named=True):
        fields, place = row["members"], trace_ids[row["trace"]]
        gen = fields.get("x_gen")
        if "x_node" not in fields:
            continue
        reader = row["to"] if row["agent"] == "user" else row["agent"]
        trace = gen.rpartition(":")[0] if gen else owners.get((place, str(reader)), "")
        if row["type"] == "tool_result":
            (trace,) = {t["id"] for e in source if e["id"] == place for t in e["traces"]}
        key = (trace, fields["x_node"])
        nodes[key] += 1
        streams[key] = fields.get("x_token_streams", {})
        contents.setdefault(key, set()).add(row["content_ref"])
        for node in fields.get("x_context", ()):
            key = (trace, node["node"])
            nodes[key] += 1
            streams[key] = node.get("token_streams", {})
            contents.setdefault(key, set()).add(node["content_ref"])
    assert set(nodes.values()) == {1}
    assert nodes.keys() == {(trace["id"], index) for _, trace, index, _ in walk(source)}
    for _, trace, index, node in walk(source):
        key = (trace["id"], index)
        per_token = ("token_ids", "mask", "logprobs", "advantages")
        assert streams[key] == {kind: node[kind] for kind in per_token if node.get(kind)}, key
        if not node["message"].get("tool_calls"):
            assert digest(node["message"]["content"]) in contents[key], key


def test_advantages_of_a_trainer(corpora: Path) -> None:
    """17 of 23 answers have advantages; those of 8 are all zero, which is another fact than none."""
    source = episodes(corpora, "kuhn-train")
    corpus = of(corpora, "kuhn-train")
    known = generations(corpus)
    assert len(known) == 23
    total, tokens, scored, zero = 0.0, 0, 0, 0
    for episode, trace, index, node in walk(source):
        if not node["sampled"]:
            continue
        row, fields = known[f"{trace['id']}:{index}"]
        tokens += sum(node["mask"])
        assert row["trainable"] == trace["agent"]["trainable"]
        assert fields["x_training_step"] == episode["run"]["work"]["step"]
        policy = episode["run"]["work"]["policy"]
        assert (fields["x_policy_start"], fields["x_policy_end"]) == (policy["start"], policy["end"])
        if "advantages" not in node:
            assert "x_advantage" not in fields and "advantages" not in fields["x_token_streams"]
            continue
        scored += 1
        zero += not any(node["advantages"])
        mean = sum(node["advantages"]) / len(node["advantages"])
        assert fields["x_advantage"] == pytest.approx(mean)
        total += fields["x_advantage"] * sum(node["mask"])
        assert row["agent"] == trace["agent"]["name"]
    assert (tokens, scored, zero) == (643, 17, 8)
    assert total == pytest.approx(-8.0)


def test_groups_are_rollouts_of_a_task(corpora: Path) -> None:
    def sizes(name: str) -> list[int]:
        groups = of(corpora, name).traces.group_by("group_id").len().collect()
        return sorted(groups["len"].to_list())

    assert sizes("kuhn-eval") == [4]
    assert sizes("sums-eval") == [4, 4]
    assert sizes("kuhn-train") == [1, 4, 4]
    steps = of(corpora, "kuhn-train").measures.filter(NAME == "train_step").collect()
    assert Counter(steps["value"].to_list()) == {7.0: 4, 8.0: 5}


def test_an_episode_that_failed_has_no_reward(corpora: Path) -> None:
    corpus = of(corpora, "sums-eval")
    (failed,) = [episode for episode in episodes(corpora, "sums-eval") if not episode["ok"]]
    traces = corpus.traces.collect()
    assert traces.filter("partial")["trace_id"].to_list() == [failed["id"]]
    (trace,) = traces.filter("partial")["trace"]
    measures = corpus.measures.filter((pl.col("trace") == trace) & (KIND == "reward"))
    assert measures.collect().is_empty()
    (event,) = corpus.events.filter(pl.col("trace") == trace).collect().iter_rows(named=True)
    assert event["ok"] is False and event["to"] is None
    fields = json.loads(event["extras"])
    assert (fields["x_error_type"], fields["x_status_code"]) == ("ProviderError", 400)


def test_parallel_calls_are_paired(corpora: Path) -> None:
    corpus = of(corpora, "sums-eval")
    types = corpus.events.select("trace", "seq", "turn", TYPE)
    edges = (
        corpus.edges.filter(TYPE == "return")
        .join(types, left_on=["trace", "src"], right_on=["trace", "seq"])
        .join(types, left_on=["trace", "dst"], right_on=["trace", "seq"], suffix="_dst")
        .collect()
    )
    assert edges.height == 6 and edges["turn"].to_list() == edges["turn_dst"].to_list()
    calls = types.filter(pl.col("type") == "tool_call").group_by("trace", "turn").len().collect()
    assert sorted(calls["len"].to_list()) == [1, 1, 2, 2]


def test_the_graph_of_a_sub_agent(corpora: Path) -> None:
    corpus = of(corpora, "graph")
    known = generations(corpus)
    trace = episodes(corpora, "graph")[0]["traces"][0]
    fields = {int(id.rpartition(":")[2]): fields for id, (_, fields) in known.items()}
    rows = {int(id.rpartition(":")[2]): row for id, (row, _) in known.items()}
    assert {node for node, row in rows.items() if row["agent"] == "subagent"} == {7, 9}
    assert [node for node in fields if fields[node].get("x_abandoned")] == [13]
    assert fields[9]["x_retries"] == 1, "a call that failed is one of the next answer of its model"
    assert [node["node"] for node in fields[4]["x_context"]] == [0, 2], "no model wrote node 2"
    edges = corpus.edges.with_columns(TYPE).collect()
    drawn = {
        (src, dst, kind) for _, src, dst, kind in edges.select("trace", "src", "dst", "type").iter_rows()
    }

    def last(node: int) -> int:
        gens = extras(corpus).iter_rows(named=True)
        return max(row["seq"] for row in gens if row["members"].get("x_gen") == f"{trace['id']}:{node}")

    for source, target in ((11, 13), (11, 14), (14, 17)):
        assert (last(source), rows[target]["seq"], "causal") in drawn, (source, target)
    spawns = corpus.events.filter(TYPE == "spawn").collect()
    assert spawns["to"].cast(pl.String).to_list() == ["subagent"]
    returns = [src for src, _, kind in drawn if kind == "return"]
    assert last(9) in returns
    costs = dict(corpus.measures.filter(KIND == "cost").select(NAME, "value").collect().iter_rows())
    assert (costs["scorer_tokens"], costs["scorer_cost_usd"]) == (60.0, 0.002)
    assert costs["cost_usd"] == pytest.approx(0.028)


def test_agents_come_in_the_order_in_which_they_began(corpora: Path) -> None:
    """The file has them in the order in which they ended; a task that one poses leads to no edge."""
    corpus = of(corpora, "kuhn-eval")
    spawns = corpus.events.filter(TYPE == "spawn").sort("trace", "seq").collect()
    assert spawns["to"].cast(pl.String).to_list() == ["player0", "player1"] * 4
    proposer = of(corpora, "proposer-eval")
    spawns = proposer.events.filter(TYPE == "spawn").sort("seq").collect()
    names = ["proposer", "solver", "solver#2", "solver#3", "solver#4"]
    assert spawns["to"].cast(pl.String).to_list() == names
    assert set(spawns["agent"].cast(pl.String)) == {"env"}


def test_the_lag_of_a_published_training_run_is_that_of_its_files(corpora: Path) -> None:
    lags, drifts = defaultdict(list), defaultdict(list)
    for episode in episodes(corpora, "kuhn-train"):
        work = episode["run"]["work"]
        lags[work["step"]].append(work["step"] - work["policy"]["start"])
        drifts[work["step"]].append(work["policy"]["end"] - work["policy"]["start"])
    versions = ("x_policy_start", "x_policy_end")
    fields = dict.fromkeys(versions, pl.Int64())
    corpus = ot.read_traces(corpora / "verifiers" / "kuhn-train", fields=fields)
    curves = ot.trainers.training_curves(corpus, reward="payoff", policy_version=versions)
    for statistic, values in (("lag", lags), ("drift", drifts)):
        rows = curves.filter(statistic=statistic).select("train_step", "value", "n_traces").rows()
        assert rows == [(step, fmean(own), len(own)) for step, own in sorted(values.items())]


@pytest.mark.parametrize(("name", "within"), [("proposer-eval", {"solver"}), ("kuhn-train", set())])
def test_agents_of_published_episodes_are_compared_as_their_trainer_does(
    corpora: Path, name: str, within: set[str]
) -> None:
    """prime-rl's hierarchical GRPO on the files: peers by group and name, of some names by episode."""
    peers: dict[tuple[str, ...], list[float]] = defaultdict(list)
    agents: dict[tuple[str, str], tuple[tuple[str, ...], float]] = {}
    for episode in episodes(corpora, name):
        seen: Counter[str] = Counter()
        for trace in sorted(episode["traces"], key=lambda one: one["timing"]["start"]):
            called = trace["agent"]["name"]
            seen[called] += 1
            rewards = trace["rewards"].values()
            reward = sum(own["score"] * own.get("weight", 1.0) for own in rewards)
            key = (str(episode.get("group")), called, episode["id"] if called in within else "")
            peers[key].append(reward)
            numbered = called if seen[called] == 1 else f"{called}#{seen[called]}"
            agents[episode["id"], numbered] = key, reward
    channel = "payoff" if name == "kuhn-train" else "correct"
    credits = ot.credit(of(corpora, name), method="hierarchical_grpo", unit="agent", reward=channel)
    rows = credits.drop_nulls("credit").select("trace_id", pl.col("unit_id").cast(pl.String), "credit").rows()
    assert len(rows) == len(agents)
    for trace_id, agent, credit in rows:
        key, reward = agents[trace_id, agent]
        assert credit == pytest.approx(reward - fmean(peers[key]), abs=1e-12), (trace_id, agent)
