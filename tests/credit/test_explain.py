"""Explaining a credit: its parts make it, and what is told of a part makes the part, for every method."""

import math
from collections import defaultdict

import numpy as np
import polars as pl
import pytest

import orchestrace as ot
from orchestrace import _core
from orchestrace.base.schema import SCHEMAS, TYPE_WEIGHTS
from orchestrace.corpus.reward import reward_of
from orchestrace.corpus.units import TraceEvents, TracesByNumber
from orchestrace.credit.evidence.policy import POLICY
from orchestrace.decisions import rows
from reference import siblings
from reference.edges import flow_weights, received, trace_graph
from reference.trace import EDGE_WEIGHTS

# methods that tell what the amounts of their rows are made of
TOLD = {*(str(one["name"]) for one in _core.methods()), *POLICY}

# parameters beside the defaults, so that every branch of every rule is explained somewhere
VARIANTS = {
    "flow": [
        {"kernel": "edge_type", "retention": 0.3},
        {"kernel": "time_decay", "program_order": True},
        {"kernel": "time_decay", "tau": 0.0},
        {"kernel": "lrp", "epsilon": 0.2},
        {"kernel": "shapley_gate"},
        {"kernel": "edge_type", "weights": [0.0, 1, 2, 0.5, 0, 1, 1, 1]},
    ],
    "flow_discounted": [{"kernel": "lrp", "retention": 0.2, "gamma": 0.7}],
    "discounted": [{"gamma": 0.5, "weight": "tokens_out"}],
    "grpo": [{"ddof": 0, "epsilon": 0.1}, {"compat": "verl"}],
    "dr_grpo": [{"compat": "verl"}],
    "rloo": [{"compat": "verl"}],
    "pass_k": [{"norm_std": True}],
    "reinforce_pp": [
        {"baseline": True},
        {"baseline": True, "compat": "verl"},
        {"batch": "step"},
        {"batch": "step", "baseline": True},
    ],
    "shape_normalized": [{"kappa": 0.0}, {"kappa": 1.5, "ddof": 0, "program_order": True}],
    "dr_mas": [
        {"rows": "events", "epsilon": 0.01},
        {"ddof": 0, "epsilon": 0.01, "weight": "tokens_out"},
        {"compat": "verl"},
        {"compat": "verl", "rows": "events"},
    ],
    "marshal": [{"norm": "mean_std", "gamma": 0.8}],
    "gigpo": [{"context": "computed", "step_weight": 0.5}, {"context": "recorded", "norm": "mean"}],
    "return_to_go": [{"rows": "events", "gamma": 0.7}, {"gamma": 0.5, "weight": "tokens_out"}],
    "gae": [{"rows": "events", "lambda_": 0.6}, {"gamma": 0.9, "lambda_": 0.5}],
    "sequential_gae": [{"lambda_": 0.3}],
    "eligibility": [{"traces": "replacing", "lambda_": 0.7}],
    "dag_gae": [{"mode": "split", "lambda_": 0.6}, {"program_order": True}],
    "c3": [{"baseline": "mean"}, {"context": "computed"}, {"context": "recorded"}],
    "aristocrat": [{"context": "recorded"}],
    "coma": [{"critic": "value"}, {"context": "recorded"}],
    "difference": [{"scaled": True, "players": "no_root"}, {"outcome": "typed", "baseline": "mean"}],
    "shapley": [{"samples": 4, "sampler": "antithetic", "scaled": True}],
    "spectrum": [
        {"formula": "tarantula", "by": "agent"},
        {"formula": "dstar", "star": 3.0},
        {"formula": "kulczynski2", "by": "message", "threshold": 0.6},
    ],
}


def known_params(method):
    (entry,) = [one for one in ot.list_methods().iter_rows(named=True) if one["name"] == method]
    return {param["name"] for param in entry["params"]}


def runs():
    for method in ot.list_methods()["name"]:
        # exact values of games end at twenty players
        yield method, {"samples": 64} if "samples" in known_params(method) else {}
        for params in VARIANTS.get(method, []):  # type: ignore[attr-defined]
            yield method, params


@pytest.fixture(scope="module")
def corpus():
    """Generated traces with every field that some method reads, groups of six and one of one."""
    made = ot.generate(traces=18, preset="mixed", seed=2)
    # trace 1 does what trace 0 does, so that some shape occurs twice
    again = {
        name: pl.concat(
            [
                made._table(name).filter(pl.col("trace") != 1),
                made._table(name).filter(pl.col("trace") == 0).with_columns(trace=pl.lit(1, pl.UInt32)),
            ]
        ).collect()
        for name in ("events", "edges")
    }
    made = ot.Corpus.from_arrow(traces=made.traces.collect(), measures=made.measures.collect(), **again)
    # few words, so that contexts, anchors and classes are shared
    rng = np.random.default_rng(0)
    events = made.events.select("trace", "seq", "type").collect()
    n = events.height
    words = pl.Series([f"k{i}" for i in rng.integers(0, 3, n)])
    fields = events.select("trace", "seq").with_columns(
        value=pl.Series(rng.normal(size=n)),
        reward=pl.Series(np.where(rng.random(n) < 0.3, rng.normal(size=n), np.nan)).fill_nan(None),
        score=pl.Series(np.where(rng.random(n) < 0.3, rng.random(n), np.nan)).fill_nan(None),
        tokens_out=pl.Series(rng.integers(0, 4, n)),
        content_hash=words,
        args_hash=words,
        state_key=pl.when(pl.col("trace") % 3 > 0).then(words),
        prefix_key=pl.when(pl.col("trace") % 3 > 0).then(words),
        group_id=pl.when(pl.col("trace") < 17)
        .then(pl.format("group {}", pl.col("trace") // 6))
        .otherwise(pl.lit("alone")),
    )
    shares = {"go": 0.5, "stay": 0.3, "turn": 0.2}
    taken = pl.Series("action", rng.choice(list(shares), n))
    fields = fields.with_columns(taken, p_behavior=taken.replace_strict(shares, return_dtype=pl.Float64))
    traces = made.traces.select("trace").collect()
    earned = rng.random(18).round(1)
    earned[0] = 1.5  # the best of its group
    rewards = traces.with_columns(
        team=pl.Series(earned), extra=pl.lit(0.5), verdict=pl.Series((earned > 0.5).astype(float))
    )
    steps = traces.select(
        "trace", name=pl.lit("step"), kind=pl.lit("metric"), value=(pl.col("trace") % 2) * 1.0
    )
    return made.with_fields(fields).with_measures(rewards).with_measures(steps)


def check(corpus, row):
    """The parts of one credit make it, and the terms of each part make the part."""
    table = ot.explain(corpus, row, row["unit_id"][0], int(row["trace"][0]))
    credit = row["credit"][0]
    if credit is None:
        assert table["kind"].to_list() == ["reason"]
        assert table["other"][0] == row["reason"][0] and table["rule"][0]
        return 0
    values = table.filter(pl.col("kind") == "value")
    made = math.fsum((values["weight"] * values["amount"]).to_list())
    assert made == pytest.approx(credit, abs=1e-9, rel=1e-9)
    if row["method"][0] not in TOLD:
        assert set(table["kind"]) <= {"value", "fit", "method"} and "method" in table["kind"]
        return 0
    terms = defaultdict(list)
    told = table.filter(pl.col("part").is_not_null() & (pl.col("kind") != "value"))
    for part, weight, amount in told.select("part", "weight", "amount").iter_rows():
        if weight is not None:
            terms[part].append(weight * amount)
    held = values.filter(pl.col("other").ne_missing(pl.lit("remainder")))
    for part, amount in held.select("part", "amount").iter_rows():
        assert math.fsum(terms[part]) == pytest.approx(amount, abs=1e-9, rel=1e-9), (part, table)
    assert told["rule"].null_count() == 0
    return (held["amount"] != 0).sum()


@pytest.mark.every_nth(17)
@pytest.mark.parametrize(("method", "params"), list(runs()))
def test_parts_make_the_credit_and_terms_make_the_parts(corpus, method, params):
    if missing := params.keys() - known_params(method):
        pytest.fail(f"{method} has no parameter {missing}")
    checked = 0
    (units,) = ot.list_methods().filter(name=method)["units"]
    for unit in units:
        reward = {"verdict": 1.0} if method == "maxrl" else {"team": 1.0, "extra": 0.2}
        credits = ot.credit(corpus, method=method, unit=unit, reward=reward, **params)
        wanted = credits.filter(pl.col("trace").is_in([0, 1, 17])).filter(
            pl.int_range(pl.len()).over("trace") < 2
        )
        nobody = credits.filter((pl.col("trace") == 1) & pl.col("unit_id").is_null())
        for i in range(wanted.height):
            checked += check(corpus, wanted[i])
        if nobody.height:
            checked += check(corpus, nobody)
    assert checked > 5 or method not in TOLD  # that many are not zero


def test_columns_and_types(corpus):
    credits = ot.credit(corpus, method="grpo", unit="team")
    table = ot.explain(corpus, credits, "team", 0)
    assert table.columns == ["part", "kind", "seq", "event", "other", "weight", "amount", "rule"]
    group = corpus.traces.filter(pl.col("group_id") == "group 0").collect()
    told = table.filter(pl.col("kind") == "rollout")
    assert told["other"].to_list() == group["trace_id"].to_list()
    rewards = corpus.measures.filter(pl.col("name") == "team", pl.col("trace") < 6).collect()["value"]
    assert told["amount"].to_list() == rewards.to_list()
    (mean,) = table.filter(pl.col("kind") == "mean")["amount"]
    (deviation,) = table.filter(pl.col("kind") == "deviation")["amount"]
    assert mean == pytest.approx(rewards.mean())
    assert deviation == pytest.approx(rewards.std() + 1e-6)


def test_edges_name_both_ends():
    rows = {"trace": 0, "id": ["x", "y"], "t": [0.0, 1.0], "type": ["message", "aggregate"], "agent": "a"}
    corpus = ot.Corpus.from_arrow(
        traces=pl.DataFrame({"trace": [0], "trace_id": ["one"]}),
        events=pl.DataFrame(rows),
        edges=pl.DataFrame({"trace": [0], "src": [0], "dst": [1], "type": ["causal"]}),
    ).with_measures(pl.DataFrame({"trace": [0], "team": [2.0]}))
    credits = ot.credit(corpus, method="flow", unit="event", retention=0.25)
    first = ot.explain(corpus, credits, "x").drop("rule").rows()
    assert first == [
        (0, "value", 0, "x", None, 1.0, 1.5),
        (0, "edge", 0, "x", "y", 1.0, 1.5),
    ]
    last = ot.explain(corpus, credits, "y", "one").drop("rule").rows()
    assert last == [(0, "value", 1, "y", None, 1.0, 0.5), (0, "outcome", 1, "y", None, 0.25, 2.0)]


def test_a_null_credit_says_why():
    rows = {"trace": 0, "id": ["x", "y"], "t": [0.0, 1.0], "type": "message", "agent": "a"}
    edges = pl.DataFrame({"trace": [0, 0], "src": [0, 1], "dst": [1, 0], "type": ["causal"] * 2})
    corpus = ot.Corpus.from_arrow(
        traces=pl.DataFrame({"trace": [0], "trace_id": ["one"]}), events=pl.DataFrame(rows), edges=edges
    ).with_measures(pl.DataFrame({"trace": [0], "team": [2.0]}))
    table = ot.explain(corpus, ot.credit(corpus, method="flow", unit="agent"), "a")
    meaning = dict((code, text) for kind, code, _, text in _core.codes() if kind == "reason")
    assert table.select("kind", "other", "rule").rows() == [("reason", "graph.cycle", meaning["graph.cycle"])]


def test_the_row_without_a_unit(corpus):
    credits = ot.credit(corpus, method="flow", unit="message")
    nobody = credits.filter(pl.col("unit_id").is_null() & (pl.col("trace") == 0))
    table = ot.explain(corpus, credits, None, 0).filter(pl.col("kind") == "value")
    assert table.height > 1
    assert math.fsum(table["amount"]) == pytest.approx(nobody["credit"][0])
    advantage = ot.credit(corpus, method="grpo", unit="message")
    assert ot.explain(corpus, advantage, None, 0)["other"].to_list() == ["unit.none"]


def test_a_corpus_on_disk_is_explained_alike(corpus, tmp_path):
    corpus.write_jsonl(tmp_path / "runs.jsonl")
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus")
    disk = ot.read_corpus(tmp_path / "corpus")
    for method in ("flow", "grpo"):
        credits = ot.credit(disk, method=method, unit="agent")
        row = credits.filter(pl.col("unit_id").is_not_null())[0]
        assert check(disk, row) > 0


def test_what_explain_refuses(corpus):
    credits = ot.credit(corpus, method="flow", unit="agent")
    name = credits["unit_id"].drop_nulls()[0]
    several = credits.filter(pl.col("unit_id") == name)["trace"].n_unique()
    assert several > 1
    with pytest.raises(ot.ParameterError, match=f"{several} traces have unit '{name}': give trace="):
        ot.explain(corpus, credits, name)
    with pytest.raises(ot.ParameterError, match=f"unknown unit '{name}x'; did you mean '{name}'\\?"):
        ot.explain(corpus, credits, f"{name}x")
    with pytest.raises(ot.ParameterError, match="no row of unit 'ghost' in trace 0"):
        ot.explain(corpus, credits, "ghost", 0)
    both = pl.concat([credits, ot.credit(corpus, method="uniform", unit="agent")])
    with pytest.raises(ot.ParameterError, match=r"2 rows of unit .* filter them"):
        ot.explain(corpus, both, name, 0)
    with pytest.raises(ot.ParameterError, match="no column 'params'"):
        ot.explain(corpus, credits.drop("params"), name, 0)
    with pytest.raises(ot.ParameterError, match="'mine' is not registered"):
        ot.explain(corpus, credits.with_columns(method=pl.lit("mine")), name, 0)
    other = corpus.with_measures(pl.DataFrame({"trace": [0], "team": [7.5]}))
    with pytest.raises(ot.ParameterError, match="give the corpus that it was computed from"):
        ot.explain(other, credits, name, 0)
    with pytest.raises(ot.ParameterError, match="trace 0 of the credits is not in the corpus"):
        ot.explain(corpus.filter(pl.col("trace") > 3), credits, name, 0)


@pytest.mark.parametrize("method", ["grpo", "reinforce_pp", "magrpo", "gigpo", "spectrum"])
def test_rollouts_are_looked_into_by_the_core_alone(corpus, method, monkeypatch):
    looked = []

    def counted(columns, edges, ids):
        looked.append(columns["id"][0])
        return TraceEvents(columns, edges, ids)

    monkeypatch.setattr("orchestrace.corpus.units.TraceEvents", counted)
    row = ot.credit(corpus, method=method, unit="agent").filter(pl.col("trace") == 0)[0]
    ot.explain(corpus, row, row["unit_id"][0])
    assert len(looked) == 1


def test_labels_of_rewards_are_read_back(corpus):
    names = {"a + b": 1.0, "c*d": 2.0, "a": 3.0}
    odd = corpus.with_measures(pl.DataFrame({"trace": [0], **{name: [1.0] for name in names}}))
    for weights in ({"a + b": 0.5, "a": -1.5}, {"c*d": 1e-9}, names, {"team": 1.0}):
        label = str(ot.credit(odd, method="uniform", unit="team", reward=weights)["reward"][0])
        assert reward_of(label, odd) == dict(sorted(weights.items()))
    assert reward_of("team", odd) == "team" and reward_of(None, odd) == "team"
    for wrong in ("2.0*ghost", "team + extra", "x*team"):
        with pytest.raises(ot.ParameterError, match="no reward"):
            reward_of(wrong, odd)


def test_types_of_weights_are_those_of_the_schema():
    kinds = SCHEMAS["edges"]["type"]
    assert isinstance(kinds, pl.Enum)
    assert list(TYPE_WEIGHTS) == kinds.categories.to_list()
    assert TYPE_WEIGHTS == EDGE_WEIGHTS


def test_types_of_decisions_are_those_of_the_reference():
    assert set(rows.DECISIONS) == set(siblings.DECISIONS)


@pytest.mark.parametrize("method", ["return_to_go", "gae", "sequential_gae", "eligibility"])
def test_of_many_turns_the_next_stands_for_the_rest(method):
    kinds = {}
    for turns in (300, 301):
        rows = {
            "trace": 0,
            "id": [f"e{v}" for v in range(turns)],
            "t": [float(v) for v in range(turns)],
            "type": "message",
            "agent": ["a", "b", "c"] * (turns // 3) + ["a"] * (turns % 3),
            "turn": pl.Series(range(turns), dtype=pl.UInt32),
            "value": [v / 100 for v in range(turns)],
        }
        made = ot.Corpus.from_arrow(
            traces=pl.DataFrame({"trace": [0], "trace_id": ["one"]}), events=pl.DataFrame(rows)
        ).with_measures(pl.DataFrame({"trace": [0], "team": [2.0]}))
        row = ot.credit(made, method=method, unit="turn")[0]
        assert check(made, row) == 1
        kinds[turns] = ot.explain(made, row, row["unit_id"][0])["kind"].value_counts().sort("kind").rows()
    assert kinds[300] == [("turn", 300), ("value", 1)]
    critic = [] if method == "return_to_go" else [("critic", 2)]
    assert kinds[301] == [*critic, ("reward", 1), ("successor", 1), ("value", 1)]


@pytest.mark.parametrize(
    ("kernel", "epsilon", "sent"),
    [
        # scores 1/2 and 1, edges of equal weight, hence w = 1/2 each: z = 1/4 and 1/2
        ("uniform", 0.0, [0.45, 0.45]),
        ("edge_type", 0.0, [0.45, 0.45]),
        ("time_decay", 0.0, [0.9 / (1 + math.exp(5)), 0.9 / (1 + math.exp(-5))]),
        ("lrp", 0.0, [0.3, 0.6]),
        ("lrp", 0.25, [0.225, 0.45]),
        # each has its own and half of the overlap less: 1/4 - 1/16 and 1/2 - 1/16
        ("shapley_gate", 0.0, [0.27, 0.63]),
    ],
)
def test_kernels_of_the_flow_by_hand(kernel, epsilon, sent):
    rows = {
        "trace": 0,
        "id": ["u", "v", "y"],
        "t": [0.0, 1.0, 2.0],
        "type": ["message", "message", "aggregate"],
        "agent": ["a", "b", "a"],
        "score": [0.5, None, None],
    }
    made = ot.Corpus.from_arrow(
        traces=pl.DataFrame({"trace": [0], "trace_id": ["one"]}),
        events=pl.DataFrame(rows),
        edges=pl.DataFrame({"trace": [0, 0], "src": [0, 1], "dst": [2, 2], "type": ["causal"] * 2}),
    )
    trace = TracesByNumber(made)[0]
    graph = trace_graph(trace)
    assert graph is not None and trace.outcome == 2
    # the default time constant is a tenth of the range, so a gap of 1 is five of them
    weights = flow_weights(trace, graph, kernel, None)
    credit, by_edge = received(graph, 2, 1.0, weights, sent=0.9, epsilon=epsilon)
    assert [by_edge[0][2], by_edge[1][2]] == pytest.approx(sent) and credit == pytest.approx([*sent, 1.0])


@pytest.mark.parametrize("params", [{}, *VARIANTS["flow"]])
def test_edges_of_the_flow_are_the_reference(corpus, params):
    made = {"weights": params.get("weights"), "program_order": params.get("program_order", False)}
    kappa = params.get("retention", 0.1)
    credits = ot.credit(corpus, method="flow", unit="event", **params)
    n_edges = 0
    for number in (0, 2, 17):
        trace = TracesByNumber(corpus)[number]
        graph = trace_graph(trace, **made)
        assert graph is not None
        kernel = params.get("kernel", "uniform")
        weights = flow_weights(trace, graph, kernel, params.get("tau"))
        amount = corpus.measures.filter(trace=number, name="team").collect()["value"][0]
        options = {"sent": 1.0 - kappa, "epsilon": params.get("epsilon", 0.0)}
        _, by_edge = received(graph, trace.outcome, amount, weights, **options)
        for seq in range(0, len(trace), 7):
            told = ot.explain(corpus, credits, trace.text("id", seq), number).filter(kind="edge")
            wanted = {trace.text("id", v): came for v, came in by_edge[seq].items()}
            assert dict(told.select("other", "amount").iter_rows()) == pytest.approx(wanted, abs=1e-12)
            assert told["other"].to_list() == list(wanted)
            n_edges += len(wanted)
    assert n_edges > 10


def group_of(*runs, rewards, edges=()):
    """A group of runs, each a list of events: type, agent, and fields."""
    rows = []
    for trace, events in enumerate(runs):
        for v, (kind, agent, fields) in enumerate(events):
            rows.append(
                {"trace": trace, "id": f"e{v}", "t": float(v), "type": kind, "agent": agent, **fields}
            )
    n = range(len(runs))
    traces = pl.DataFrame({"trace": n, "trace_id": [f"run {i}" for i in n], "task_id": "one task"})
    schema = {"trace": pl.UInt32, "src": pl.UInt32, "dst": pl.UInt32, "type": pl.String}
    made = ot.Corpus.from_arrow(
        traces=traces,
        events=pl.DataFrame(rows, infer_schema_length=None),
        edges=pl.DataFrame(list(edges), schema=schema, orient="row"),
    )
    known = [(trace, reward) for trace, reward in enumerate(rewards) if reward is not None]
    return made.with_measures(pl.DataFrame(known, schema=["trace", "team"], orient="row"))


def told(corpus, method, unit_id, trace=0, unit="event", **params):
    credits = ot.credit(corpus, method=method, unit=unit, **params)
    check(corpus, credits.filter(trace=trace, unit_id=unit_id))
    table = ot.explain(corpus, credits, unit_id, trace).filter(pl.col("kind") != "value")
    return table.select("kind", "seq", "other", "weight", "amount").rows()


def call(text, agent="a", **fields):
    return ("tool_call", agent, {"tool": "web", "args_hash": text, **fields})


def test_siblings_are_named_by_the_first_who_chose_alike():
    runs = [[call("x")], [call("y")], [call("x")], [call("z")]]
    found = told(group_of(*runs, rewards=[1.0, 1.0, 0.0, 0.25]), "c3", "e0")
    assert found == [
        ("sibling", None, "run 0: e0 (2 of 4), this choice", 1.0, 0.5),
        ("sibling", None, "run 1: e0 (1 of 4)", -0.5, 1.0),
        ("sibling", None, "run 3: e0 (1 of 4)", -0.5, 0.25),
    ]


def test_counts_are_those_of_rollouts_with_the_class():
    runs = [[call("x"), ("message", "a", {})], [call("x")], [("message", "a", {})], [("message", "a", {})]]
    made = group_of(*runs, rewards=[0.0, 1.0, 0.0, 0.0])
    assert told(made, "spectrum", "e0", formula="tarantula") == [
        ("count", None, "ef", None, 1.0),
        ("count", None, "ep", None, 1.0),
        ("count", None, "nf", None, 2.0),
        ("count", None, "np", None, 0.0),
        ("suspicion", None, "tarantula", -1.0, 0.25),
    ]
    table = ot.explain(made, ot.credit(made, method="spectrum", unit="event"), "e0", 0)
    assert table.filter(kind="value")["other"].to_list() == ["tool_call, web"]


def test_rollouts_of_one_shape_are_told():
    runs = [[call("x")], [call("y")], [call("x"), call("y", "b")]]
    found = told(group_of(*runs, rewards=[1.0, 0.0, 0.5]), "shape_normalized", "a", unit="agent", kappa=1.0)
    assert [row[2] for row in found] == ["run 0 (same shape)", "run 1 (same shape)", "run 2", "divisor"]
    # the mean of two alike and of the group, which counts as one more
    divisor = found[3][4]
    weights = [(1 - 1 / 3 - 1 / 9) / divisor, (-1 / 3 - 1 / 9) / divisor, -1 / 9 / divisor]
    assert [row[3] for row in found[:3]] == pytest.approx(weights)
    assert divisor == pytest.approx(math.sqrt((2 * 0.5 + 0.25) / 3) + 1e-6)


def test_turns_of_other_rollouts_are_named_and_own_ones_placed():
    runs = [[call("x", turn=1), call("y", turn=2)], [call("x", turn=1)]]
    made = group_of(*runs, rewards=[1.0, 0.0])
    assert [row[:3] for row in told(made, "dr_mas", "a/1", unit="turn")] == [
        ("turn", 0, "run 0: a/1"),
        ("turn", 1, "run 0: a/2"),
        ("turn", None, "run 1: a/1"),
        ("mean", None, "of 3"),
        ("deviation", None, "divisor"),
    ]
    # step by step, the second rollout has no second turn
    assert [row[:4] for row in told(made, "magrpo", "a/2", unit="turn")] == [
        ("rollout", None, "run 0", 0.0),
        ("mean", None, "of 1", None),
    ]
    assert [row[:3] for row in told(made, "gigpo", "a/1", unit="turn", norm="mean")] == [
        ("rollout", None, "run 0"),
        ("rollout", None, "run 1"),
        ("mean", None, "of 2"),
        ("turn", 0, "run 0: a/1"),
        ("turn", None, "run 1: a/1"),
        ("mean", None, "of 2"),
    ]


@pytest.mark.parametrize("method", ["gigpo", "spectrum", "dr_mas", "at_grpo"])
def test_rollouts_without_rows_count_as_the_method_counts_them(method):
    """One has a cycle, and so no contexts; one nobody acts in."""
    runs = [[call("x")], [call("x")], [call("x"), call("y")], [("message", "user", {})]]
    cycle = [(2, 0, 1, "causal"), (2, 1, 0, "causal")]
    made = group_of(*runs, rewards=[1.0, 0.0, 0.25, 0.0], edges=cycle)
    assert told(made, method, "e0")


def test_a_game_needs_no_reward_to_be_explained():
    made = group_of([call("x"), ("aggregate", "a", {})], [call("x")], rewards=[None, 1.0])
    assert [row[0] for row in told(made, "shapley", "a", unit="agent")] == ["game"]


def question(corpus, method, trace=0, **params):
    return {
        "method": method,
        "trace": trace,
        "reward": {"team": 1.0},
        "params": params,
        "elsewhere": corpus.reward_channels(),
    }


def test_own_rows_are_those_that_the_method_compares(corpus):
    def rows(method, **params):
        return pl.DataFrame(_core.own_rows(corpus._store, **question(corpus, method, **params)))

    trace = TracesByNumber(corpus)[0]
    turns = [None if t is None else trace.turns[t].unit_id for t in trace.turn_of]
    everything = list(range(len(trace)))
    for method in ("gae", "dr_mas", "gigpo"):
        table = rows(method)
        assert table.columns == ["seq", "row", "label"] and table["seq"].to_list() == everything
        assert table["row"].to_list() == trace.turn_of and table["label"].to_list() == turns
    for method in ("flow", "dag_gae"):
        table = rows(method)
        assert table["row"].to_list() == everything and table["label"].null_count() == len(trace)
    by_events = rows("gae", rows="events")
    assert by_events["row"].to_list() == everything
    whole = rows("grpo")
    assert set(whole["row"]) == {0} and whole["label"].n_unique() == 1
    agents = rows("spectrum", by="agent")["label"].to_list()
    assert agents == trace.owner == rows("sharp")["label"].to_list()
    decisions = pl.DataFrame(_core.contexts(corpus._store)).filter(trace=0)["seq"].to_list()
    assert rows("c3")["row"].drop_nulls().to_list() == decisions
    kinds = [
        None if owner is None else kind + (f", {tool}" if tool else "")
        for owner, kind, tool in zip(trace.owner, *(trace.columns[c] for c in ("type", "tool")), strict=True)
    ]
    assert rows("spectrum")["label"].to_list() == kinds


def test_what_the_core_refuses_to_explain(corpus):
    with pytest.raises(ot.ParameterError, match="no trace 99"):
        _core.own_rows(corpus._store, **question(corpus, "flow", 99))
    with pytest.raises(ot.ParameterError, match="event 9999 of trace 0"):
        _core.terms(corpus._store, [9999], **question(corpus, "flow"))
    with pytest.raises(ot.ParameterError, match="did you mean 'flow'"):
        _core.terms(corpus._store, [0], **question(corpus, "flwo"))
    with pytest.raises(ot.ParameterError, match="kernel"):
        _core.terms(corpus._store, [0], **question(corpus, "flow", kernel="none"))
    lacking = question(corpus, "flow")
    del lacking["trace"]
    with pytest.raises(KeyError, match="trace"):
        _core.terms(corpus._store, [0], **lacking)
    # a game is no sum of what others did
    assert pl.DataFrame(_core.terms(corpus._store, [0], **question(corpus, "shapley"))).is_empty()


def test_terms_do_not_hang_on_the_number_of_threads(corpus):
    for method in ("flow", "gigpo", "c3", "reinforce_pp"):
        one, many = (
            pl.DataFrame(_core.terms(corpus._store, [0, 3], **question(corpus, method), threads=threads))
            for threads in (1, 4)
        )
        assert one.equals(many) and one.columns == [
            "part",
            "kind",
            "seq",
            "other",
            "weight",
            "amount",
            "rule",
        ]
