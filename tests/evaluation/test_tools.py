"""Comparing methods, credit at tokens, diagnostics of siblings: by hand, nulls, refusals."""

import math

import polars as pl
import pytest
from scipy import stats

import orchestrace as ot


@pytest.fixture(scope="module")
def corpus():
    return ot.generate(traces=40, preset="mixed", seed=1)


def truth_of(corpus, **columns):
    return corpus.events.select("trace", **columns).collect()


def test_a_row_per_method_in_the_order_given(corpus):
    given = ["grpo", "flow", ("flow", {"kernel": "edge_type"}), ("flow", {"kernel": "wrong"})]
    seen = []
    table = ot.compare(corpus, given, unit="agent", progress=lambda done, total: seen.append((done, total)))
    assert table["method"].to_list() == ["grpo", "flow", "flow", "flow"]
    assert table["quantity"].to_list() == ["advantage", "share", "share", "share"]
    assert table["error"].is_null().to_list() == [True, True, True, False]
    assert "wrong" in table["params"][3] and "unknown kernel 'wrong'" in table["error"][3]
    assert table["seconds"].is_null().to_list() == [False] * 3 + [True]
    assert (table["events_per_s"].drop_nulls() > 0).all()
    assert seen[0] == (0, 4) and seen[-1] == (4, 4)
    units = ot.credit(corpus, method="flow", unit="agent")["unit_id"].count()
    assert table["n_rows"].to_list()[:3] == [units] * 3
    assert "truth_spearman" not in table.columns and "step_accuracy" not in table.columns


def test_every_registered_method_runs_or_says_why(corpus):
    table = ot.compare(corpus, unit="turn")
    assert table["method"].to_list() == ot.list_methods()["name"].to_list()
    ran = table.filter(pl.col("error").is_null())
    assert ran["n_rows"].null_count() == 0
    assert ran.filter(pl.col("null_share") > 0)["reason"].null_count() == 0
    assert {"uniform", "flow", "grpo"} <= set(ran["method"])


def test_agreement_is_the_mean_over_the_others(corpus):
    table = ot.compare(corpus, ["flow", "discounted", ("flow", {"kernel": "edge_type"})], unit="event")
    frames = [
        ot.credit(corpus, method="flow", unit="event"),
        ot.credit(corpus, method="discounted", unit="event"),
        ot.credit(corpus, method="flow", unit="event", kernel="edge_type"),
    ]

    def rho(i, j):
        return ot.evaluation.agreement(corpus, frames[i], frames[j])["value"][1]

    want = [(rho(i, (i + 1) % 3) + rho(i, (i + 2) % 3)) / 2 for i in range(3)]
    assert table["agreement"].to_list() == pytest.approx(want)


def test_truth_that_is_the_credit_is_met(corpus):
    flow = ot.credit(corpus, method="flow", unit="event").filter(pl.col("credit") != 0)
    truth = flow.select("trace", "seq", contribution=2 * pl.col("credit"))
    row = ot.compare(corpus, ["flow"], unit="event", truth=truth).row(0, named=True)
    assert row["truth_spearman"] == row["truth_spearman_upper"] == 1.0
    assert -1.0 < row["truth_spearman_lower"] < 1.0 and row["interval_reason"] is None
    assert row["truth_sign_accuracy"] == 1.0
    agents = ot.credit(corpus, method="flow", unit="agent").drop_nulls("unit_id")
    by_unit = agents.select("trace", agent="unit_id", contribution="credit")
    assert ot.compare(corpus, ["flow"], unit="agent", truth=by_unit)["truth_spearman"][0] == 1.0
    by_name = flow.select("trace", "unit_id", contribution=-pl.col("credit"))
    row = ot.compare(corpus, ["flow"], unit="event", truth=by_name).row(0, named=True)
    assert (row["truth_spearman"], row["truth_sign_accuracy"]) == (-1.0, 0.0)


def test_truth_by_hand(corpus):
    truth = truth_of(corpus, seq="seq", contribution=((pl.col("seq") * 7) % 11 - 5).cast(pl.Float64))
    row = ot.compare(corpus, ["discounted"], unit="event", truth=truth).row(0, named=True)
    ours = ot.credit(corpus, method="discounted", unit="event")
    both = ours.join(truth, on=["trace", "seq"]).filter(pl.col("credit").is_not_null())
    rhos, signs = [], []
    for _, own in both.group_by("trace"):
        if own["credit"].n_unique() > 1:
            rhos.append(stats.spearmanr(own["credit"], own["contribution"])[0])
        k = math.ceil(0.05 * own.height)
        size = own["contribution"].abs()
        cut = size.sort(descending=True)[k - 1]
        right = own["credit"].sign() == own["contribution"].sign()
        room = (k - (size > cut).sum()) / (size == cut).sum()
        signs.append(((right & (size > cut)).sum() + room * (right & (size == cut)).sum()) / k)
    assert row["truth_spearman"] == pytest.approx(sum(rhos) / len(rhos))
    assert row["truth_sign_accuracy"] == pytest.approx(sum(signs) / len(signs))
    assert row["truth_n_traces"] == len(rhos)


def test_labels_give_the_accuracies_of_localization(corpus):
    turns = ot.credit(corpus, method="flow", unit="turn").filter(pl.col("unit_id").is_not_null())
    first = turns.group_by("trace_id", maintain_order=True).agg(pl.col("unit_id").first())
    labels = first.select(
        "trace_id",
        annotator=pl.lit("me"),
        turn=pl.col("unit_id").str.extract(r"/(\d+)$").cast(pl.Int64),
        agent=pl.col("unit_id").str.extract(r"^(.*)/"),
    )
    row = ot.compare(corpus, ["flow"], unit="event", labels=labels).row(0, named=True)
    agents = ot.credit(corpus, method="flow", unit="agent")
    credits, tasks = pl.concat([turns, agents]), corpus.traces.select("trace_id", "task_id")
    own = ot.evaluation.failure_attribution(credits, labels, tasks=tasks).row(0, named=True)
    for name in ("agent_accuracy", "step_accuracy", "agent_accuracy_lower", "step_accuracy_upper"):
        assert row[name] == own[name]
    # rollouts of one task are not independent: without their tasks they would tell more than they do
    apart = ot.evaluation.failure_attribution(credits, labels).row(0, named=True)
    assert (own["n_traces"], own["n_tasks"], apart["n_tasks"]) == (40, 5, 40)
    assert apart["agent_accuracy_lower"] > own["agent_accuracy_lower"]
    lowest = ot.compare(corpus, ["flow"], labels=labels, blame="lowest").row(0, named=True)
    want = ot.evaluation.failure_attribution(pl.concat([turns, agents]), labels, blame="lowest").row(
        0, named=True
    )
    assert lowest["step_accuracy"] == want["step_accuracy"] != row["step_accuracy"]
    two = pl.concat([labels, labels.with_columns(annotator=pl.lit("you"))])
    with pytest.raises(ot.ParameterError, match="annotators me, you"):
        ot.compare(corpus, ["flow"], labels=two)
    with pytest.raises(ot.ParameterError, match="labels are of no trace of the corpus"):
        ot.compare(corpus, ["flow"], labels=labels.with_columns(trace_id=pl.lit("elsewhere")))


def test_methods_of_groups_see_siblings_that_nobody_labeled():
    """Only the four failing rollouts are labeled; without the passing ones no agent is suspicious."""
    rows = [
        {"trace": n, "id": f"e{k}", "t": float(k), "type": "message", "agent": who, "to": "user", "turn": k}
        for n in range(8)
        for k, who in enumerate(["lead", "good"] + ["bad"] * (n < 4))
    ]
    traces = pl.DataFrame({"trace": range(8), "trace_id": [f"r{n}" for n in range(8)], "task_id": "one"})
    events = pl.DataFrame(rows, schema_overrides={"turn": pl.UInt32})
    made = ot.Corpus.from_arrow(traces=traces, events=events)
    made = made.with_measures(pl.DataFrame({"trace": range(8), "team": [0.0] * 4 + [1.0] * 4}))
    labels = pl.DataFrame(
        {"trace_id": [f"r{n}" for n in range(4)], "annotator": "me", "turn": [2] * 4, "agent": "bad"}
    )
    own = [ot.credit(made, method="spectrum", unit=unit, by="agent") for unit in ("turn", "agent")]
    want = ot.evaluation.failure_attribution(pl.concat(own), labels, blame="lowest").row(0, named=True)
    table = ot.compare(made, [("spectrum", {"by": "agent"})], labels=labels, blame="lowest")
    row = table.row(0, named=True)
    assert row["error"] is None
    for name in ("agent_accuracy", "step_accuracy"):
        assert row[name] == want[name] == 1.0


@pytest.mark.parametrize(
    ("methods", "options", "words"),
    [
        (["flwo"], {}, "did you mean 'flow'"),
        ("flow", {}, r"expected a list: \['flow'\]"),
        ([], {}, "methods is empty"),
        ([("flow", 3)], {}, "expected a name or a pair"),
        (["flow", "flow"], {}, "given twice"),
        (["flow"], {"unit": "agnet"}, "did you mean 'agent'"),
        (["flow"], {"truth": pl.DataFrame({"trace": [0]})}, "no column 'contribution'"),
        (
            ["flow"],
            {"truth": pl.DataFrame({"trace": [0], "seq": [0], "contribution": [1.0]})},
            "none of the columns unit_id, agent",
        ),
        (5, {}, "methods is 5, expected a list"),
        ([(["a"], {})], {}, "expected a name or a pair"),
        (
            [("flow", {"unit": "agent"})],
            {},
            "unit= is not a parameter of method 'flow': give unit= to compare",
        ),
        (
            ["flow"],
            {"truth": pl.DataFrame({"trace": ["x"], "unit_id": "a", "contribution": [1.0]})},
            "truth.trace has type String, expected numbers",
        ),
        (["flow"], {"blame": "least"}, "blame is 'least', expected"),
        (["flow"], {"confidence": 0}, "between 0 and 1"),
    ],
)
def test_what_compare_refuses(corpus, methods, options, words):
    with pytest.raises(ot.ParameterError, match=words):
        ot.compare(corpus, methods, **options)


def writing(value=None):
    """Two agents in two turns: a writes 2 and 3 tokens in its turn, b one token, a nothing at last."""
    rows = {
        "trace": [0] * 4,
        "id": ["e0", "e1", "e2", "e3"],
        "t": [0.0, 1.0, 2.0, 3.0],
        "type": ["message", "message", "message", "aggregate"],
        "agent": ["a", "a", "b", "a"],
        "to": ["b", "b", "a", None],
        "tokens_out": [2, 3, 1, None],
        "turn": [0, 0, 0, 1],
        "value": [value] * 4,
    }
    types = {"tokens_out": pl.Int64, "turn": pl.UInt32, "value": pl.Float64}
    events = pl.DataFrame(rows, schema_overrides=types)
    corpus = ot.Corpus.from_arrow(traces=pl.DataFrame({"trace": [0], "trace_id": ["x"]}), events=events)
    return corpus.with_measures(pl.DataFrame({"trace": [0], "team": [1.0]}))


def test_tokens_of_a_share_add_up_and_those_of_an_advantage_are_equal():
    corpus = writing()
    shares = ot.trainers.token_credits(corpus, ot.credit(corpus, method="uniform", unit="token"))
    assert shares["n_tokens"].to_list() == [2, 3, 1]
    assert shares["tokens"].to_list() == [[0.125] * 2, [pytest.approx(0.25 / 3)] * 3, [0.25]]
    assert shares["tokens"].list.sum().to_list() == pytest.approx(shares["credit"].to_list())
    advantages = ot.trainers.token_credits(
        corpus, ot.credit(corpus, method="discounted", unit="token", gamma=0.5)
    )
    assert advantages["tokens"].to_list() == [[0.125] * 2, [0.25] * 3, [0.5]]
    both = pl.concat([ot.credit(corpus, method=m, unit="token") for m in ("uniform", "discounted")])
    assert ot.trainers.token_credits(corpus, both)["tokens"].to_list()[:3] == shares["tokens"].to_list()


def test_a_null_credit_has_no_tokens():
    corpus = writing()
    frame = ot.credit(corpus, method="uniform", unit="token").with_columns(credit=pl.lit(None, pl.Float64))
    assert ot.trainers.token_credits(corpus, frame)["tokens"].to_list() == [None] * 3


def test_a_turn_fades_towards_its_beginning():
    corpus = writing(value=0.5)
    # a critic of .5 all along and lambda 1: every turn has R - V
    frame = ot.credit(corpus, method="gae", unit="token", gamma=1.0, lambda_=1.0)
    assert frame["credit"].drop_nulls().to_list() == [0.5, 0.5, 0.5]
    tokens = ot.trainers.token_credits(corpus, frame, lambda_=0.5)["tokens"].to_list()
    assert tokens[0] == pytest.approx([0.5**5, 0.5**4])
    assert tokens[1] == pytest.approx([0.125, 0.25, 0.5])
    assert tokens[2] == [0.5]
    assert ot.trainers.token_credits(corpus, frame, lambda_=0.0)["tokens"].to_list() == [
        [0.0, 0.0],
        [0.0, 0.0, 0.5],
        [0.5],
    ]
    same = ot.trainers.token_credits(corpus, frame)
    assert same.equals(ot.trainers.token_credits(corpus, frame, lambda_=1.0))
    others = ot.credit(corpus, method="discounted", unit="token")
    assert ot.trainers.token_credits(corpus, others, lambda_=0.5).equals(
        ot.trainers.token_credits(corpus, others)
    )


def test_events_that_are_steps_fade_each_on_its_own():
    events = pl.DataFrame(
        {"trace": 0, "id": ["x", "y"], "t": [0.0, 1.0], "type": "message", "agent": "a", "to": "user"}
    ).with_columns(turn=pl.lit(0, pl.UInt32), tokens_out=pl.lit(2), value=pl.lit(0.0))
    made = ot.Corpus.from_arrow(traces=pl.DataFrame({"trace": [0], "trace_id": ["x"]}), events=events)
    made = made.with_measures(pl.DataFrame({"trace": [0], "team": [1.0]}))
    options = {"method": "gae", "unit": "token", "gamma": 1.0, "lambda_": 1.0}
    frame = ot.credit(made, **options, rows="events")
    assert frame["credit"].drop_nulls().to_list() == [1.0, 1.0]
    assert ot.trainers.token_credits(made, frame, lambda_=0.5)["tokens"].to_list() == [[0.5, 1.0], [0.5, 1.0]]
    both = pl.concat([ot.credit(made, **options), frame])
    lists = ot.trainers.token_credits(made, both, lambda_=0.5)["tokens"].to_list()
    assert lists[0] == pytest.approx([0.125, 0.25])
    assert lists[1:] == [[0.5, 1.0]] * 3


def test_what_tokens_refuse():
    corpus = writing()
    frame = ot.credit(corpus, method="uniform", unit="token")
    with pytest.raises(ot.ParameterError, match="at unit 'event'"):
        ot.trainers.token_credits(corpus, ot.credit(corpus, method="uniform", unit="event"))
    with pytest.raises(ot.ParameterError, match="would hold 6 tokens, 0 MiB, more than max_tokens=5"):
        ot.trainers.token_credits(corpus, frame, max_tokens=5)
    assert ot.trainers.token_credits(corpus, frame, max_tokens=6).height == 3
    with pytest.raises(ot.ParameterError, match="lambda_ is 2"):
        ot.trainers.token_credits(corpus, frame, lambda_=2)
    with pytest.raises(ot.ParameterError, match="event 'e0' of trace 0 has no tokens"):
        ot.trainers.token_credits(ot.generate(traces=1, seed=0), frame)
    with pytest.raises(ot.ParameterError, match="'mine' is not registered"):
        ot.trainers.token_credits(corpus, frame.with_columns(method=pl.lit("mine")).drop("quantity"))
    told = ot.trainers.token_credits(corpus, frame.with_columns(method=pl.lit("mine")))
    assert told["tokens"].to_list() == ot.trainers.token_credits(corpus, frame)["tokens"].to_list()


@pytest.fixture
def siblings(monkeypatch):
    """Buckets by hand in place of those that the core finds: a row is (choice, next choice, reward)."""

    def make(rows, *, group="g", values=None, **options):
        n = len(rows)
        ids = [i for i in range(n) for _ in range(2)]
        events = pl.DataFrame(
            {
                "trace": ids,
                "id": ["e0", "e1"] * n,
                "t": [0.0, 1.0] * n,
                "type": ["message"] * (2 * n),
                "agent": ["a", "b"] * n,
                "group_id": [group if isinstance(group, str) else group(i) for i in ids],
                "value": [None if values is None or i % 2 else values[i // 2] for i in range(2 * n)],
            },
            schema_overrides={"value": pl.Float64},
        )
        traces = pl.DataFrame({"trace": range(n), "trace_id": [f"x{i}" for i in range(n)]})
        corpus = ot.Corpus.from_arrow(traces=traces, events=events)
        rewards = {"trace": range(n), "team": [reward for _, _, reward in rows]}
        corpus = corpus.with_measures(pl.DataFrame(rewards, schema_overrides={"team": pl.Float64}))
        found = pl.DataFrame(
            {
                "trace": ids,
                "seq": [0, 1] * n,
                "context": ["h", None] * n,
                "choice": [word for choice, following, _ in rows for word in (choice, following)],
                "role": ["lead", "coder"] * n,
            }
        )
        monkeypatch.setattr("orchestrace.evaluation.siblings.contexts", lambda corpus, context="auto": found)
        return ot.evaluation.sibling_diagnostics(corpus, **options)

    return make


def test_a_bucket_by_hand(siblings):
    rows = [
        ("x", "u", 1.0),
        ("x", "u", 0.0),
        ("x", "v", 1.0),
        ("y", "v", 0.0),
        ("z", "v", 1.0),
        ("z", "v", 0.0),
    ]
    (row,) = siblings(rows).iter_rows(named=True)
    assert (row["n_decisions"], row["n_candidates"], row["n_traces"]) == (6, 3, 6)
    assert (row["group_id"], row["role"], row["reason"]) == ("g", "lead", None)
    assert row["mean_outcome"] == 0.5
    # means 2/3, 0, 1/2 with weights 3, 1, 2 and total 3
    credit = [2 / 3 - 1 / 3, 0 - 3 / 5, 1 / 2 - 2 / 4]
    mean = sum(credit) / 3
    assert row["variance"] == pytest.approx(sum((a - mean) ** 2 for a in credit) / 3)
    assert row["fidelity"] == pytest.approx(stats.spearmanr(credit, [2 / 3, 0, 1 / 2])[0])
    joint = {("x", "u"): 2, ("x", "v"): 1, ("y", "v"): 1, ("z", "v"): 2}
    of_j, of_y = {"x": 3, "y": 1, "z": 2}, {"u": 2, "v": 4}
    want = sum(n / 6 * math.log(n * 6 / of_j[j] / of_y[y]) for (j, y), n in joint.items())
    assert row["influence"] == pytest.approx(want)


def test_smoothing_and_the_rest_of_the_symbols(siblings):
    rows = [("x", "u", 1.0), ("x", "v", 0.0), ("y", "v", 0.0), ("y", "w", 1.0)]
    alpha = 0.5
    (row,) = siblings(rows, alpha=alpha, k=1).iter_rows(named=True)
    # v is the one symbol of its own, u and w are the other one; each candidate has one of each
    assert row["influence"] == pytest.approx(0.0, abs=1e-12)
    (row,) = siblings(rows, alpha=alpha, k=2).iter_rows(named=True)
    # u (first of the equals), v and the rest: x 1 1 0, y 0 1 1
    given = {"x": [1.5 / 3.5, 1.5 / 3.5, 0.5 / 3.5], "y": [0.5 / 3.5, 1.5 / 3.5, 1.5 / 3.5]}
    whole = [(a + b) / 2 for a, b in zip(given["x"], given["y"], strict=True)]
    want = sum(0.5 * p * math.log(p / q) for one in given.values() for p, q in zip(one, whole, strict=True))
    assert row["influence"] == pytest.approx(want)


def test_bounds_of_influence(siblings):
    told = siblings([("x", "u", 1.0), ("y", "v", 0.0), ("z", "w", 0.0)])
    assert told["influence"][0] == pytest.approx(math.log(3))
    free = siblings([("x", "u", 1.0), ("x", "v", 0.0), ("y", "u", 0.0), ("y", "v", 1.0)], alpha=2.0)
    assert free["influence"][0] == pytest.approx(0.0, abs=1e-12)


def test_fidelity_to_a_recorded_critic(siblings):
    rows = [("x", "u", 1.0), ("y", "u", 0.5), ("z", "u", 0.0)]
    assert siblings(rows)["fidelity"][0] == pytest.approx(1.0)
    assert siblings(rows, value="recorded", values=[3.0, 1.0, 0.0])["fidelity"][0] == pytest.approx(-1.0)
    assert siblings(rows, value="recorded")["fidelity"][0] is None
    assert siblings(rows, value="recorded", values=[1.0, None, 0.0])["fidelity"][0] is None


def test_buckets_that_say_nothing(siblings):
    alone = siblings([("x", "u", 1.0), ("x", "v", 0.0)]).row(0, named=True)
    assert (alone["variance"], alone["influence"], alone["fidelity"]) == (0.0, 0.0, None)
    assert alone["reason"] == "group.degenerate"
    equal = siblings([("x", "u", 1.0), ("y", "v", 1.0)]).row(0, named=True)
    assert (equal["variance"], equal["fidelity"], equal["reason"]) == (0.0, None, None)
    partly = siblings([("x", "u", 1.0), ("y", "v", None), ("z", "v", 0.0)]).row(0, named=True)
    assert (partly["n_decisions"], partly["mean_outcome"]) == (3, 0.5)


def test_most_groups_of_one_are_told(siblings):
    with pytest.warns(UserWarning, match="2 of 2 groups have one rollout"):
        table = siblings([("x", "u", 1.0), ("y", "v", 0.0)], group=lambda i: f"g{i}")
    assert table["n_candidates"].to_list() == [1, 1]


def test_the_variance_is_that_of_the_credit_among_siblings():
    made = ot.generate(traces=24, preset="mixed", seed=5)
    words = pl.format("w{}", (pl.col("trace") * 7 + pl.col("seq")) % 2)
    corpus = made.with_fields(
        made.events.select("trace", "seq", content_hash=words, args_hash=words, prefix_key=words).collect()
    )
    table = ot.evaluation.sibling_diagnostics(corpus)
    groups = corpus.traces.select("trace", "group_id").collect()
    credit = ot.credit(corpus, method="c3", unit="event").join(groups, on="trace")
    found = ot.decisions.contexts(corpus).join(
        credit.select("trace", "seq", "credit", "group_id"), on=["trace", "seq"]
    )
    per_choice = found.group_by("group_id", "context", "role", "choice").agg(pl.col("credit").first())
    want = per_choice.group_by("group_id", "context", "role").agg(want=pl.col("credit").var(ddof=0))
    both = table.join(want, on=["group_id", "context", "role"], nulls_equal=True)
    assert both.height == table.height and (table["variance"] > 1e-3).sum() > 5
    assert both["variance"].to_list() == pytest.approx(both["want"].to_list(), abs=1e-12)


@pytest.mark.parametrize(
    "options", [{"value": "critic"}, {"alpha": -1}, {"k": -1}, {"k": 0}, {"reward": "taem"}]
)
def test_what_sibling_diagnostics_refuse(siblings, options):
    with pytest.raises(ot.ParameterError):
        siblings([("x", "u", 1.0), ("y", "v", 0.0)], **options)


def test_what_is_no_corpus_is_refused(corpus):
    frame = ot.credit(corpus, method="flow", unit="event")
    for call in (
        lambda: ot.evaluation.agreement(None, frame, frame),
        lambda: ot.decisions.contexts(None),
        lambda: ot.compare(None),
        lambda: ot.evaluation.reward_accounting(None, frame),
        lambda: ot.evaluation.faithfulness(None, frame),
        lambda: ot.evaluation.sibling_diagnostics(None),
    ):
        with pytest.raises(ot.ParameterError, match="corpus is None, expected a corpus"):
            call()


def test_faithfulness_takes_credits_on_disk(corpus):
    frame = ot.credit(corpus, method="flow", unit="event")
    assert ot.evaluation.faithfulness(corpus, frame.lazy(), orders=1).equals(
        ot.evaluation.faithfulness(corpus, frame, orders=1)
    )


@pytest.mark.parametrize("options", [{"interaction": 1e308}, {"interaction": -1}, {"dense": "x"}])
def test_planted_options_out_of_range(options):
    with pytest.raises(ot.ParameterError, match=f"{next(iter(options))} is .*, expected"):
        ot.synthetic.planted(traces=1, **options)


def test_a_corpus_without_traces_gives_tables_without_rows(corpus):
    empty = corpus.filter(pl.lit(False))
    none = ot.credit(empty, method="flow", unit="token")
    assert ot.evaluation.reward_accounting(empty, none).height == ot.evaluation.free_ride(none).height == 0
    assert (
        ot.evaluation.sibling_diagnostics(empty).height == ot.trainers.token_credits(empty, none).height == 0
    )
    table = ot.compare(empty, ["flow", "grpo"])
    assert table["n_rows"].to_list() == [0, 0] and table["error"].null_count() == 2
