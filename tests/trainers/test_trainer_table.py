"""Trainer tables against plain Python, and as verl and TRL take them."""

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace.corpus.units import TracesByNumber
from samples.random_runs import jsonl

#: What an agent decides, asks for or says.
WRITTEN = ("orchestrator_decision", "spawn", "message", "tool_call", "return", "aggregate")


def corpus_of(seed: int = 3, traces: int = 16) -> ot.Corpus:
    """Generated traces whose events wrote 0 to 4 tokens, every seventh unknown, some with probabilities."""
    corpus = ot.generate(traces=traces, seed=seed)
    events = corpus.events.select("trace", "seq").collect()
    place = pl.col("trace") * 7 + pl.col("seq") * 3
    wrote = pl.when(place % 7 != 0).then((place % 5).cast(pl.Int64))
    chosen = pl.when(place % 3 == 0).then(1.0 / (1 + place % 4))
    return corpus.with_fields(events.with_columns(tokens_out=wrote, p_behavior=chosen))


@pytest.fixture(scope="module")
def corpus() -> ot.Corpus:
    return corpus_of()


def expected(corpus: ot.Corpus, credits: pl.DataFrame, by_token: bool) -> list[dict[str, Any]]:
    """Rows by the definitions, trace by trace: advantages, rewards, masks, probabilities."""
    unit, method = str(credits["unit"][0]), str(credits["method"][0])
    share = dict(ot.list_methods().select("name", "quantity").rows())[method] == "share"
    traces = {row["trace"]: row for row in corpus.traces.collect().iter_rows(named=True)}
    team = corpus.measures.filter(pl.col("kind") == "reward", pl.col("name") == "team").select(
        "trace", "value"
    )
    outcome = dict(team.collect().rows())
    given = {
        (row["trace"], row["unit_id"] if unit == "turn" else row["seq"]): row
        for row in credits.iter_rows(named=True)
        if row["unit_id"] is not None
    }
    rows: list[dict[str, Any]] = []
    for number, trace in TracesByNumber(corpus).items():
        steps: dict[str, int] = {}
        before: dict[str, Any] | None = None
        early = 0.0
        written = [
            turn for turn in trace.turns if any(trace.columns["type"][seq] in WRITTEN for seq in turn.events)
        ]
        for index, turn in enumerate(trace.turns):
            if turn not in written:  # what it earned, the row before it did
                earned = math.fsum(trace.number("reward", seq) or 0.0 for seq in turn.events)
                if before is None:
                    early += earned
                elif before["reward"] is not None:
                    before["reward"] += earned
                continue
            wrote = {seq: int(trace.number("tokens_out", seq) or 0) for seq in turn.events}
            known = any(trace.number("tokens_out", seq) is not None for seq in turn.events)
            length = sum(wrote.values()) if known else None
            own = {seq: given.get((number, turn.unit_id if unit == "turn" else seq)) for seq in turn.events}
            values = [one["credit"] for one in own.values() if one is not None and one["credit"] is not None]
            advantage: Any = None
            if values:
                total = math.fsum(values)
                advantage = values[0] if unit == "turn" else total if share else total / len(values)
            if by_token:
                pieces: list[float | None] = []
                for seq, n in ((seq, n) for seq, n in wrote.items() if n):
                    one = own[seq]
                    credit = None if one is None else one["credit"]
                    parts = length if unit == "turn" else n
                    pieces += [None if credit is None else credit / parts if share else credit] * n
                advantage = None if None in pieces or not pieces else pieces
            paid = math.fsum(trace.number("reward", seq) or 0.0 for seq in turn.events)
            at_last = outcome.get(number) if turn is written[-1] else 0.0
            reward = None if at_last is None else paid + at_last + early
            early = 0.0
            p = [q for seq in turn.events if (q := trace.number("p_behavior", seq)) is not None]
            exact = [(n, trace.number("p_behavior", seq)) for seq, n in wrote.items() if n]
            rows.append(
                {
                    "trace": number,
                    "trajectory_id": traces[number]["trace_id"],
                    "group": traces[number]["group_id"],
                    "task_id": traces[number]["task_id"],
                    "agent": turn.owner,
                    "turn": turn.unit_id,
                    "turn_index": index,
                    "agent_step": steps.get(turn.owner, 0),
                    "seqs": turn.events,
                    "response_length": length,
                    "advantages": advantage,
                    "reward": reward,
                    "sequence_log_prob": math.fsum(map(math.log, p)) if p else None,
                    "trained": [
                        int(trace.columns["type"][s] in WRITTEN) for s, n in wrote.items() for _ in range(n)
                    ],
                    "log_probs": [math.log(q) for _, q in exact if q is not None]
                    if exact and all(n == 1 and q is not None for n, q in exact)
                    else None,
                }
            )
            before = rows[-1]
            steps[turn.owner] = steps.get(turn.owner, 0) + 1
    return rows


def close(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12)
    return bool(a == b)


CASES = [
    ("grpo", "turn"),
    ("dr_mas", "event"),
    ("flow", "event"),
    ("uniform", "turn"),
    ("flow", "token"),
    ("grpo", "token"),
]


@pytest.mark.parametrize("per", ["turn", "token"])
@pytest.mark.parametrize(("method", "unit"), CASES)
def test_rows_follow_the_definitions(corpus: ot.Corpus, method: str, unit: Any, per: Any) -> None:
    credits = ot.credit(corpus, method=method, unit=unit)
    table = ot.trainers.trainer_table(corpus, credits, per=per).rename({"uid": "group"})
    if per == "token":
        table = table.rename({"response_mask": "trained", "old_log_probs": "log_probs"})
    rows = expected(corpus, credits, per == "token")
    assert table.height == len(rows)
    silent = 0
    for made, row in zip(table.iter_rows(named=True), rows, strict=True):
        for name, value in row.items():
            if name not in made:
                assert per == "turn" and name in ("trained", "log_probs")
                continue
            if name == "trained" and not value:
                value = None
            assert close(made[name], value), (name, made, value)
        assert (made["method"], made["channel"]) == (method, "team")
        assert made["advantages"] is not None or made["reason"] is not None  # a null says why
        silent += made["advantages"] is None
        if per == "token" and made["advantages"] is not None:
            assert len(made["advantages"]) == made["response_length"] == len(made["trained"])
            last = made["token_level_rewards"]
            assert last is None or (sum(last[:-1]) == 0.0 and last[-1] == made["reward"])
    assert silent < len(rows)
    assert silent or per == "turn"  # turns whose tokens nobody counted are in the corpus


def test_returns_are_given_or_follow_from_values(corpus: ot.Corpus) -> None:
    events = corpus.events.select("trace", "seq").collect()
    valued = corpus.with_fields(events.with_columns(value=(pl.col("seq") % 4) * 0.1))
    gae = ot.credit(valued, method="gae", unit="turn")
    table = ot.trainers.trainer_table(valued, gae)
    critic = valued.events.select("trace", "seq", "value").collect()
    first = table.select("trace", seq=pl.col("seqs").list.first()).join(
        critic, on=["trace", "seq"], how="left", maintain_order="left"
    )
    assert table["returns"].to_list() == (table["advantages"] + first["value"]).to_list()
    to_go = ot.credit(valued, method="return_to_go", unit="turn")
    assert ot.trainers.trainer_table(valued, to_go)["returns"].equals(
        ot.trainers.trainer_table(valued, to_go)["advantages"]
    )
    grpo = ot.credit(valued, method="grpo", unit="turn")
    assert ot.trainers.trainer_table(valued, grpo)["returns"].null_count() == table.height
    given = ot.trainers.trainer_table(valued, grpo, returns=to_go.lazy())
    assert given["returns"].equals(ot.trainers.trainer_table(valued, to_go)["advantages"])
    assert given["advantages"].equals(ot.trainers.trainer_table(valued, grpo)["advantages"])
    lists = ot.trainers.trainer_table(valued, grpo, returns=to_go, per="token").drop_nulls("returns")
    assert lists.height
    for returns, seqs, trace in lists.select("returns", "seqs", "trace").iter_rows():
        (one,) = given.filter(pl.col("trace") == trace, pl.col("seqs").list.first() == seqs[0])["returns"]
        assert set(returns) == {one}


def test_traces_without_credit_keep_their_rows_and_others_have_none(corpus: ot.Corpus) -> None:
    rewarded = corpus.traces.select("trace").collect()["trace"][:4].to_list()
    own = corpus.with_measures(pl.DataFrame({"trace": rewarded, "rare": [0.1, 0.5, 0.7, 0.9]}))
    credits = ot.credit(own, method="uniform", unit="turn", reward="rare")
    table = ot.trainers.trainer_table(own, credits)
    absent = table.filter(~pl.col("trace").is_in(rewarded))
    assert absent.height and absent["advantages"].null_count() == absent.height
    assert absent["reason"].unique().to_list() == ["reward.absent"]
    last = absent.group_by("trace").agg(pl.col("reward").sort_by("turn_index").last())
    assert last["reward"].null_count() == last.height  # an unknown outcome is not 0
    some = ot.trainers.trainer_table(own, credits.filter(pl.col("trace").is_in(rewarded)))
    assert_frame_equal(some, table.filter(pl.col("trace").is_in(rewarded)))
    degenerate = ot.trainers.trainer_table(own, ot.credit(own, method="grpo", unit="turn", reward="rare"))
    lone = degenerate.filter(pl.col("reason") == "group.degenerate")
    assert (lone["advantages"] == 0.0).all()


def test_tokens_of_tools_are_not_trained(tmp_path: Path) -> None:
    events = [
        {"id": "ask", "t": 0, "type": "tool_call", "agent": "a", "tool": "search", "tokens_out": 2},
        {"id": "got", "t": 1, "type": "tool_result", "agent": "search", "tool": "search", "tokens_out": 3},
        {"id": "say", "t": 2, "type": "return", "agent": "a", "to": "user", "tokens_out": 1},
    ]
    edges = [{"src": "ask", "dst": "got", "type": "return"}, {"src": "got", "dst": "say", "type": "causal"}]
    rest = {"edges": edges, "rewards": {"team": 1}, "costs": {"tokens": 0, "wall_clock_s": 0}}
    corpus = ot.read_traces(
        io.BytesIO(jsonl([{"trace_id": "one", "task_id": "t", "events": events, **rest}]))
    )
    credits = ot.credit(corpus, method="broadcast", unit="turn")
    verl = ot.trainers.trainer_table(corpus, credits, per="token")
    assert verl["response_mask"].to_list() == [[1, 1, 0, 0, 0], [1]]
    assert verl["token_level_rewards"].to_list() == [[0.0] * 5, [1.0]]
    trl = ot.trainers.trainer_table(corpus, credits, layout="trl", per="token")
    assert trl["tool_mask"].to_list() == [[1, 1, 0, 0, 0], [1]]
    assert trl["completion_mask"].to_list() == [[1] * 5, [1]]
    assert trl["group_id"].to_list() == ["t", "t"]


def run_of(events: list[dict[str, Any]], name: str = "one", team: float = 1.0) -> dict[str, Any]:
    rest = {"edges": [], "rewards": {"team": team}, "costs": {"tokens": 0, "wall_clock_s": 0}}
    own = [{"id": f"e{n}", "t": n, **event} for n, event in enumerate(events)]
    return {"trace_id": name, "task_id": "t", "events": own, **rest}


def test_what_the_policy_did_not_write_is_no_row() -> None:
    """A terminal that also speaks, so that its results are its own; a guard; a user and an environment."""
    terminal = {"agent": "terminal", "tool": "shell", "reward": 0.25}
    events: list[dict[str, Any]] = [
        {"type": "tool_result", **terminal},
        {"type": "message", "agent": "user", "to": "a"},
        {"type": "tool_call", "agent": "a", "tool": "shell", "reward": 0.5},
        {"type": "message", "agent": "env", "role": "environment", "to": "a"},
        {"type": "safety_event", "agent": "guard"},
        {"type": "message", "agent": "terminal", "to": "a"},
        {"type": "message", "agent": "judge", "role": "scorer", "to": "a"},
        {"type": "return", "agent": "a", "to": "user"},
        {"type": "message", "agent": "b", "to": "terminal"},
        {"type": "message", "agent": "a", "to": "terminal"},
        {"type": "tool_result", **terminal},
        {"type": "tool_result", **terminal, "turn": 9},
    ]
    corpus = ot.read_traces(io.BytesIO(jsonl([run_of(events)])))
    credits = ot.credit(corpus, method="broadcast", unit="turn")
    table = ot.trainers.trainer_table(corpus, credits)
    kinds = dict(corpus.events.select("seq", pl.col("type").cast(pl.String)).collect().rows())
    assert all({kinds[seq] for seq in row} & set(WRITTEN) for row in table["seqs"])
    assert set(table["agent"]) == {"a", "b", "terminal"}
    assert table["advantages"].null_count() == 0 and table.height < credits["unit_id"].count()
    steps = {agent: own["agent_step"].to_list() for (agent,), own in table.group_by("agent")}
    assert all(own == list(range(len(own))) for own in steps.values()) and len(steps["a"]) > 1
    # nothing that was earned is lost: the outcome, and what tools' results earned
    assert table["reward"].sum() == 1.0 + 0.5 + 3 * 0.25
    masks = ot.trainers.trainer_table(corpus, credits, per="token")["response_mask"]
    assert masks.null_count() == len(masks)  # nobody counted tokens


def test_steps_of_rllm_are_found_again() -> None:
    """`agent_uid` and `agent_step` lead back to the trajectory and step that a row is about."""

    def step(number: int, said: str | None) -> dict[str, Any]:
        rest = {"thought": "", "action": None, "reward": 0.0, "done": False, "chat_completions": []}
        return {"observation": f"seen {number}", "model_response": said, **rest}

    said = {"u1": ["a", "", None, "d"], "u2": ["e", "f"], "u3": ["g"]}
    names = {"u1": "solver", "u2": "solver", "u3": "judge"}
    trajectories = [
        {
            "name": names[uid],
            "uid": uid,
            "reward": 1.0,
            "steps": [step(n, text) for n, text in enumerate(own)],
        }
        for uid, own in said.items()
    ]
    episodes = [
        {"training_step": 1, "epoch": 0, "episode_id": f"q:{k}", "task": {"q": 1}, "task_hash": "a"}
        | {"is_correct": bool(k), "termination_reason": "x", "metrics": {}, "timing": {}}
        | {"trajectories": trajectories}
        for k in range(2)
    ]
    corpus = ot.read_traces(io.BytesIO(jsonl(episodes)), format="rllm")
    for unit in ("turn", "event"):
        credits = ot.credit(corpus, method="grpo", unit=unit)
        table = ot.trainers.trainer_table(corpus, credits)
        found = table.select("trajectory_id", "agent_uid", "agent_step").rows()
        assert found == [
            (f"1:0:q:{k}", uid, n) for k in range(2) for uid, own in said.items() for n in range(len(own))
        ]
        assert table["advantages"].null_count() == 0
        n_events = corpus.events.select(pl.len()).collect().item()
        assert n_events > table.height, "observations are events, and no rows"


def test_verl_takes_it_without_a_renaming(corpus: ot.Corpus) -> None:
    """What `DataProto.from_dict` and its check ask for, in NumPy: verl itself needs torch, ray and more."""
    credits = ot.credit(corpus, method="grpo", unit="turn")
    table = ot.trainers.trainer_table(corpus, credits, per="token").drop_nulls("advantages")
    width = max(table["response_length"].to_list())

    def padded(name: str) -> np.ndarray:
        made = np.zeros((table.height, width))
        for row, values in enumerate(table[name]):
            made[row, : len(values)] = values
        return made

    batch = {name: padded(name) for name in ("advantages", "token_level_rewards", "response_mask")}
    others = {
        name: table[name].to_numpy().astype(object) for name in ("uid", "trajectory_id", "agent", "turn")
    }
    assert {array.shape for array in batch.values()} == {(table.height, width)}
    for array in others.values():
        assert isinstance(array, np.ndarray) and array.dtype == object and array.shape == (table.height,)
    assert (batch["response_mask"].sum(axis=1) <= table["response_length"].to_numpy()).all()
    # the advantage of a turn, spread over the mask as verl does it, is the list
    scalar = ot.trainers.trainer_table(corpus, credits).join(
        table.select("trace", "turn"), on=["trace", "turn"], how="semi"
    )
    spread = scalar["advantages"].to_numpy()[:, None] * (
        np.arange(width) < table["response_length"].to_numpy()[:, None]
    )
    assert np.array_equal(spread, batch["advantages"])


def one_step_corpus() -> ot.Corpus:
    """Rollouts of one prompt: answers of two to five tokens, then one with a tool's result in its turn."""
    answer = {"type": "return", "agent": "a", "to": "user"}
    runs = [
        run_of([answer | {"tokens_out": 2 + n % 4}], f"run {n}", team=float(n % 3 == 0)) for n in range(8)
    ]
    call = {"type": "tool_call", "agent": "a", "tool": "web", "tokens_out": 2}
    got = {"type": "tool_result", "agent": "web", "tool": "web", "tokens_out": 3}
    mixed = run_of([call, got], "with a tool", team=0.0)
    return ot.read_traces(io.BytesIO(jsonl([*runs, mixed])))


@pytest.mark.filterwarnings("ignore")  # those of the reader are not ours
def test_verl_itself_takes_it() -> None:
    """The snippet of docs/exports.md, and what verl's own estimator and loss make of its batch."""
    reason = "verl (with torch, tensordict, ray) is not installed, which reads its tables"
    torch = pytest.importorskip("torch", reason=reason)
    verl = pytest.importorskip("verl", reason=reason)
    algos = pytest.importorskip("verl.trainer.ppo.core_algos", reason=reason)
    pad = torch.nn.utils.rnn.pad_sequence
    corpus = one_step_corpus()
    credits = ot.credit(corpus, method="grpo", unit="turn")
    table = ot.trainers.trainer_table(corpus, credits, per="token").drop_nulls("advantages")
    names = ["advantages", "token_level_rewards", "response_mask"]
    tensors = {name: pad([torch.tensor(row) for row in table[name]], batch_first=True) for name in names}
    others = {
        name: table[name].to_numpy().astype(object) for name in ("uid", "trajectory_id", "agent", "turn")
    }
    batch = verl.DataProto.from_dict(tensors=tensors, non_tensors=others)
    batch.check_consistency()
    assert len(batch) == table.height == 9
    back = verl.DataProto.concat(batch.chunk(3))
    assert torch.equal(back.batch["advantages"], batch.batch["advantages"])
    assert back.non_tensor_batch["trajectory_id"].tolist() == table["trajectory_id"].to_list()
    mask = batch.batch["response_mask"]
    ours = batch.batch["advantages"] * mask
    theirs, _ = algos.compute_grpo_outcome_advantage(
        batch.batch["token_level_rewards"], mask, batch.non_tensor_batch["uid"]
    )
    assert torch.allclose(ours.double(), theirs.double(), atol=1e-5)
    # what a tool gave back is masked out of the loss, whatever stands there
    assert mask[-1].tolist()[:5] == [1, 1, 0, 0, 0]
    loss = algos.agg_loss(loss_mat=-batch.batch["advantages"], loss_mask=mask, loss_agg_mode="token-mean")
    assert loss.item() == pytest.approx(-(ours.sum() / mask.sum()).item())


@pytest.mark.filterwarnings("ignore")
def test_trl_itself_takes_it(tmp_path: Path) -> None:
    """What GRPOTrainer does with a batch before its loss: padding, shuffling, splitting."""
    reason = "trl (with torch, datasets) is not installed, which reads its tables"
    torch = pytest.importorskip("torch", reason=reason)
    datasets = pytest.importorskip("datasets", reason=reason)
    theirs = pytest.importorskip("trl.trainer.utils", reason=reason)
    corpus = one_step_corpus()
    credits = ot.credit(corpus, method="grpo", unit="turn")
    ot.export(corpus, "trl", tmp_path / "turns.parquet", credits=credits, per="token")
    read = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "turns.parquet"), cache_dir=str(tmp_path / "cache")
    )["train"]
    table = ot.trainers.trainer_table(corpus, credits, layout="trl", per="token")
    assert read.to_list() == table.to_dicts()
    names = ["advantages", "completion_mask", "tool_mask"]
    batch = {name: theirs.pad([torch.tensor(row[name]) for row in read], padding_value=0) for name in names}
    shapes = {tensor.shape for tensor in batch.values()}
    assert shapes == {(9, max(table["response_length"]))}
    batch["number"] = torch.arange(9)
    parts = theirs.split_tensor_dict(theirs.shuffle_sequence_dict(batch), 3)
    numbers = torch.cat([part["number"] for part in parts])
    for name in names:
        assert torch.equal(torch.cat([part[name] for part in parts]), batch[name][numbers])
    loss_mask = batch["completion_mask"] * batch["tool_mask"]
    assert loss_mask[-1].tolist()[:5] == [1, 1, 0, 0, 0]


@pytest.mark.filterwarnings("ignore")  # those of the reader are not ours
@pytest.mark.parametrize("layout", ["verl", "trl"])
def test_datasets_opens_the_file(corpus: ot.Corpus, tmp_path: Path, layout: Any) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed, which TRL reads with")
    credits = ot.credit(corpus, method="grpo", unit="turn")
    ot.export(corpus, layout, tmp_path / "turns.parquet", credits=credits, per="token")
    table = ot.trainers.trainer_table(corpus, credits, layout=layout, per="token")
    read = datasets.Dataset.from_parquet(str(tmp_path / "turns.parquet"), cache_dir=str(tmp_path / "cache"))
    assert read.column_names == table.columns
    assert read.to_list() == table.to_dicts()
    assert datasets.Dataset.from_polars(table).to_list() == table.to_dicts()


@pytest.mark.parametrize("per", ["turn", "token"])
def test_a_corpus_on_disk_gives_the_same_rows(corpus: ot.Corpus, tmp_path: Path, per: Any) -> None:
    corpus.write_jsonl(tmp_path / "runs.jsonl")
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus", partitions=4)
    disk = ot.read_corpus(tmp_path / "corpus")
    asked: list[dict[str, Any]] = [{"method": "grpo", "unit": "turn"}, {"method": "flow", "unit": "token"}]
    for options in asked:
        credits = ot.credit(corpus, **options)
        memory = ot.trainers.trainer_table(corpus, credits, per=per)
        order = ["trace", "turn_index"]
        assert_frame_equal(ot.trainers.trainer_table(disk, credits.lazy(), per=per).sort(order), memory)
        ot.export(disk, "verl", tmp_path / "out.parquet", credits=credits, per=per, overwrite=True)
        assert_frame_equal(pl.read_parquet(tmp_path / "out.parquet").sort(order), memory)


def test_gae_within_a_turn(corpus: ot.Corpus) -> None:
    events = corpus.events.select("trace", "seq").collect()
    valued = corpus.with_fields(events.with_columns(value=pl.lit(0.25)))
    credits = ot.credit(valued, method="gae", unit="token")
    tokens = ot.trainers.token_credits(valued, credits, lambda_=0.5)
    table = ot.trainers.trainer_table(valued, credits, per="token", lambda_=0.5).drop_nulls("advantages")
    lists = {(row["trace"], row["seq"]): row["tokens"] for row in tokens.iter_rows(named=True)}
    assert table.height
    for row in table.iter_rows(named=True):
        whole = [x for seq in row["seqs"] for x in lists.get((row["trace"], seq)) or []]
        assert row["advantages"] == whole
        assert row["returns"] == [x + 0.25 for x in whole]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"layout": "rllib"}, "layout is 'rllib', expected"),
    ({"per": "agent"}, "per is 'agent', expected 'turn' or 'token'"),
    ({"max_tokens": 3, "per": "token"}, "more than max_tokens=3 tokens"),
    ({"max_tokens": -1}, "max_tokens is -1"),
    ({"returns": 5}, "returns is 5, expected a frame or None"),
]


@pytest.mark.parametrize(("options", "said"), WRONG, ids=[said for _, said in WRONG])
def test_mistakes(corpus: ot.Corpus, options: dict[str, Any], said: str) -> None:
    credits = ot.credit(corpus, method="grpo", unit="turn")
    with pytest.raises(ot.ParameterError, match=said):
        ot.trainers.trainer_table(corpus, credits, **options)


def test_credits_that_are_no_table_of_turns(corpus: ot.Corpus) -> None:
    agents = ot.credit(corpus, method="grpo", unit="agent")
    turns = ot.credit(corpus, method="grpo", unit="turn")
    both = pl.concat([turns, ot.credit(corpus, method="rloo", unit="turn")])
    for given, said in (
        (agents, "credits is at unit 'agent': compute it with unit='turn', 'event' or 'token'"),
        (both, "several values of 'method'"),
        (turns.drop("reason"), "credits has no column 'reason'"),
        (turns.with_columns(method=pl.lit("mine")).drop("quantity"), "method 'mine' is not registered"),
        (pl.concat([turns, turns]), "credits has two rows for turn"),
        ([1, 2], r"credits is \[1, 2\], expected a frame"),
    ):
        with pytest.raises(ot.ParameterError, match=said):
            ot.trainers.trainer_table(corpus, given)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(ot.ParameterError, match="corpus is a value of type DataFrame, expected a corpus"):
        ot.trainers.trainer_table(turns, turns)  # type: ignore[arg-type]  # the mistake


def test_rewards_that_are_sums_are_told(corpus: ot.Corpus) -> None:
    channels = corpus.reward_channels()
    weights = dict.fromkeys(channels[:2], 0.5)
    credits = ot.credit(corpus, method="uniform", unit="turn", reward=weights)
    table = ot.trainers.trainer_table(corpus, credits)
    assert json.dumps(channels[0])[1:-1] in table["channel"][0]
    values = corpus.measures.filter(
        pl.col("kind") == "reward", pl.col("name").cast(pl.String).is_in(list(weights))
    )
    sums = dict(
        values.group_by("trace").agg(pl.when(pl.len() == 2).then(pl.col("value").sum() / 2)).collect().rows()
    )
    own = corpus.events.select("trace", "seq", "reward").collect()
    for row in table.filter(pl.col("turn_index") == pl.col("turn_index").max().over("trace")).iter_rows(
        named=True
    ):
        earned = own.filter(pl.col("trace") == row["trace"], pl.col("seq").is_in(row["seqs"]))["reward"].sum()
        known = sums.get(row["trace"])
        assert close(row["reward"], None if known is None else known + earned)
