"""Taint and cuts: what is asked, what is refused, and three drawn runs by hand."""

import io
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from samples.random_runs import Document, jsonl


def drawn(name: str, events: list[dict[str, Any]], edges: list[tuple[int, int, str]]) -> Document:
    return {
        "trace_id": name,
        "task_id": name,
        "events": [{"id": f"e{n}", "t": 2 * n, **event} for n, event in enumerate(events)],
        "edges": [{"src": f"e{u}", "dst": f"e{v}", "type": kind} for u, v, kind in edges],
        "rewards": {"team": 1.0},
        "costs": {"tokens": 0, "wall_clock_s": 0},
    }


def lead(type: str, **fields: Any) -> dict[str, Any]:
    return {"agent": "lead", "type": type, **fields}


def relay() -> Document:
    """A page that ann read goes by way of a message and a decision into a privileged call of bob."""
    events = [
        {"agent": "ann", "type": "tool_call", "tool": "web", "trusted": True, "sandbox_id": "a"},
        {"agent": "web", "type": "tool_result", "tool": "web", "trusted": False, "sandbox_id": "a"},
        {"agent": "ann", "type": "message", "to": "lead", "sandbox_id": "a"},
        lead("orchestrator_decision", sandbox_id="a"),
        lead("spawn", to="bob"),
        {"agent": "bob", "type": "tool_call", "tool": "pay", "privileged": True, "sandbox_id": "b"},
        lead("aggregate"),
    ]
    edges = [(0, 1, "return"), (1, 2, "causal"), (2, 3, "message"), (3, 4, "spawn"), (4, 5, "causal")]
    return drawn("relay", events, [*edges, (3, 6, "temporal"), (1, 2, "safety_flow")])


def fenced() -> Document:
    """The same page comes twice: a guard cleans one way to the outcome, the other stays open."""
    events = [
        lead("orchestrator_decision", trusted=True),
        {"agent": "web", "type": "tool_result", "tool": "web", "trusted": False},
        {"agent": "guard", "type": "safety_event", "sanitizer": True},
        {"agent": "ann", "type": "return", "to": "lead"},
        {"agent": "bob", "type": "return", "to": "lead"},
        lead("aggregate"),
    ]
    edges = [(1, 2, "safety_flow"), (2, 3, "causal"), (1, 4, "causal"), (3, 5, "return"), (4, 5, "return")]
    return drawn("fenced", events, edges)


def plain() -> Document:
    """Nobody says what is trusted."""
    tool = {"agent": "web", "type": "tool_result", "tool": "web"}
    return drawn(
        "plain",
        [lead("tool_call", tool="web"), tool, lead("aggregate")],
        [(0, 1, "return"), (1, 2, "causal")],
    )


def read(*documents: Document) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl(list(documents))), format="native", fields={"price": pl.Float64})


def test_three_runs_by_hand() -> None:
    one, two, three = ot.taint(read(relay(), fenced(), plain())).iter_rows(named=True)
    told = {
        "n_untrusted": 1,
        "n_trust_unknown": 5,
        "n_seeds": 1,
        "n_tainted": 5,
        "taint_share": 5 / 7,
        "outcome": "e6",
        "outcome_tainted": False,
        "seeds_to_outcome": 0,
        "n_tainted_lower": 2,
        "outcome_tainted_lower": False,
        "first_seed": "e1",
        "first_agent": "ann",
        "first_agent_event": "e2",
        "time_to_agent": 2.0,
        "first_decision": "e3",
        "time_to_decision": 4.0,
        "first_spawn": "e4",
        "time_to_spawn": 6.0,
        "first_privileged_call": "e5",
        "time_to_privileged_call": 8.0,
        "path": ["e1", "e2", "e3"],
        "taint_spread": 4 / 5,
        "sandbox_violations": 1,
        "outcome_probability": None,
        "reason": None,
    }
    assert {name: one[name] for name in told} == told
    assert (two["n_tainted"], two["outcome_tainted"], two["path"]) == (3, True, ["e1", "e4", "e5"])
    assert (two["first_agent"], two["sandbox_violations"], two["n_tainted_lower"]) == ("bob", None, 1)
    assert three["reason"] == "field.absent"
    assert all(
        value is None
        for name, value in three.items()
        if name not in ("trace", "trace_id", "task_id", "reason")
    )


def browsing() -> Document:
    """What a page said leads to a shell, what a file said to a second one; both are untrusted."""
    results = {"web": "WebFetch", "read": "Read"}
    events: list[dict[str, Any]] = []
    for tool in results.values():
        events += [
            lead("tool_call", tool=tool),
            {"agent": tool, "type": "tool_result", "tool": tool, "trusted": False},
        ]
    events += [lead("tool_call", tool="Bash"), lead("tool_call", tool="Bash"), lead("tool_call", tool="Edit")]
    edges = [(0, 1, "return"), (2, 3, "return"), (1, 4, "causal"), (3, 5, "causal"), (4, 6, "causal")]
    return drawn("browsing", [*events, lead("return", to="user")], [*edges, (5, 7, "causal")])


def test_from_the_web_to_a_shell_is_one_question() -> None:
    corpus = read(browsing())
    asked: dict[str, Any] = {"untrusted_tools": ["Web*"], "trusted_tools": ["*"]}
    (row,) = ot.taint(corpus, **asked, privileged_tools=["Bash"]).iter_rows(named=True)
    assert (row["n_untrusted"], row["n_seeds"], row["first_seed"]) == (2, 1, "e1")
    assert (row["n_tainted_privileged"], row["privileged_path"]) == (1, ["e1", "e4"])
    assert (row["first_privileged_call"], row["time_to_privileged_call"]) == ("e4", 6.0)
    assert row["outcome_tainted"] is False and row["path"] == ["e1", "e4"]
    events = ot.safety.tainted_events(corpus, **asked, privileged_tools=["Bash", "Edit"])
    assert events.filter("privileged").select("source", "event_id", "tool").rows() == [
        ("e1", "e4", "Bash"),
        ("e1", "e6", "Edit"),
    ]
    # without them both results are where taint begins, and no call is privileged
    (plain,) = ot.taint(corpus).iter_rows(named=True)
    assert (plain["n_seeds"], plain["n_tainted_privileged"], plain["privileged_path"]) == (2, 0, None)
    assert ot.safety.tainted_events(corpus)["privileged"].to_list() == [False] * 6
    assert ot.taint(corpus, trusted_tools=["WebFetch", "Read"])["n_tainted"].to_list() == [0]
    assert ot.taint(corpus, trusted_tools=["Read"], untrusted_tools=["Read"])["n_seeds"].to_list() == [2]
    assert ot.safety.sanitizer_cut(corpus)["event_id"].to_list() == ["e3"]
    assert ot.safety.sanitizer_cut(corpus, **asked).height == 0, "nothing of the web reaches the outcome"


def test_metrics_are_told_of_tools_too() -> None:
    corpus = read(browsing())
    columns = ["n_untrusted", "n_tainted", "outcome_tainted", "time_to_tainted_action", "sanitizer_cut"]
    asked: dict[str, Any] = {"untrusted_tools": ["Web*"], "trusted_tools": ["*"]}
    table = ot.metrics(corpus, groups=["taint", "cut"], privileged_tools=["Bash"], **asked)
    assert table.select(columns).rows() == [(2, 3, False, 6.0, 0)]
    assert ot.metrics(corpus, groups=["taint", "cut"]).select(columns).rows() == [(2, 6, True, None, 1)]
    with pytest.raises(ot.ParameterError, match="trusted_tools has no effect with by='agent'"):
        ot.metrics(corpus, by="agent", trusted_tools=["Read"])


def test_tools_that_nobody_called_are_named_with_those_that_are_known() -> None:
    corpus = read(browsing())
    known = r"\(known: Bash, Edit, Read, WebFetch\)"
    for verb in (ot.taint, ot.safety.tainted_events, ot.metrics):
        for option in ("untrusted_tools", "trusted_tools", "privileged_tools"):
            with pytest.raises(ot.ParameterError, match=f"^{option}: unknown tool 'mcp__\\*' {known}$"):
                verb(corpus, **{option: ["Bash", "mcp__*"]})  # type: ignore[operator]
            with pytest.raises(ot.ParameterError, match=f"{option}: unknown tools 'Bish', 'R' {known}$"):
                verb(corpus, **{option: ["Bish", "R", "Edit"]})  # type: ignore[operator]
            with pytest.raises(ot.ParameterError, match=f"{option} is 'Bash', expected a list of names"):
                verb(corpus, **{option: "Bash"})  # type: ignore[operator]
    starred = browsing()
    starred["events"][0]["tool"] = "a[*]"
    (row,) = ot.taint(read(starred), privileged_tools=["a[*]"]).iter_rows(named=True)
    assert row["n_tainted_privileged"] == 0, "a name is a name before it is a pattern"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"carry": "contxt"}, "carry is 'contxt', expected .*; did you mean 'context'"),
        ({"untrusted_tools": "web"}, r"untrusted_tools is 'web', expected a list of names: \['web'\]"),
        ({"untrusted_tools": 3}, "untrusted_tools is 3, expected a list of names$"),
        ({"untrusted_tools": ["web", 3]}, "untrusted_tools has 3, expected names"),
        ({"allow": None}, "allow is None, expected a list of names$"),
        ({"allow": "guard"}, r"allow is 'guard', expected a list of names: \['guard'\]"),
        ({"untrusted_tools": ["wep"]}, "unknown tool 'wep'; did you mean 'web'"),
        ({"allow": ["gard"]}, "unknown agent 'gard'; did you mean 'guard'"),
        ({"probabilistic": 0.5}, r"probabilistic is 0.5, expected two probabilities: \(t, leak\)"),
        ({"probabilistic": (2, 0)}, "probabilistic has t=2, expected a probability from 0 to 1"),
        ({"probabilistic": (1, float("nan"))}, "probabilistic has leak=NaN"),
        ({"threads": 0}, "threads is 0"),
    ],
)
def test_mistakes_are_told(options: dict[str, Any], said: str) -> None:
    corpus = read(fenced())
    for verb in (ot.taint, ot.safety.tainted_events):
        with pytest.raises(ot.ParameterError, match=said):
            verb(corpus, **options)


def test_costs_are_checked() -> None:
    corpus = read(fenced())
    for cost, said in (
        ("prize", "unknown column of events 'prize'; did you mean 'price'"),
        ("agent", "cost names the column 'agent' of type Categorical.*expected one of numbers"),
        (["price"], r"cost is \['price'\], expected the name of a column"),
        (pl.col("price"), "cost is a value of type Expr, expected the name of a column"),
        ("price", "a cost is null, expected numbers of at least 0: fill the column first"),
    ):
        with pytest.raises(ot.ParameterError, match=said):
            ot.safety.sanitizer_cut(corpus, cost=cost)  # type: ignore[arg-type]
    negative = fenced()
    for event in negative["events"]:
        event["price"] = -1.5
    with pytest.raises(ot.ParameterError, match=r"a cost is -1\.5, expected numbers of at least 0"):
        ot.safety.sanitizer_cut(read(negative), cost="price")


def test_edges_of_the_domain() -> None:
    nothing = read(fenced()).filter(False)
    for verb in (ot.taint, ot.safety.tainted_events, ot.safety.sanitizer_cut):
        assert verb(nothing).height == 0  # type: ignore[operator]
        assert verb(nothing).schema == verb(read(fenced())).schema  # type: ignore[operator]
    alone = drawn("alone", [lead("message", trusted=False)], [])
    assert ot.taint(read(alone)).select("n_tainted", "outcome", "outcome_tainted").rows() == [(1, None, True)]
    assert ot.safety.sanitizer_cut(read(alone))["event_id"].to_list() == ["e0"], (
        "a sink before a virtual outcome"
    )
    looped = fenced()
    looped["edges"].append({"src": "e5", "dst": "e1", "type": "temporal"})
    (row,) = ot.taint(read(looped)).iter_rows(named=True)
    assert (row["reason"], row["n_untrusted"], row["n_tainted"]) == ("graph.cycle", 1, None)


def test_a_conservative_recording_has_no_lower_bound(tmp_path: Path) -> None:
    corpus = read(fenced(), relay())
    tables = {name: getattr(corpus, name).collect() for name in ("traces", "events", "edges", "measures")}
    finding = {"trace": 1, "code": "safety.conservative", "count": 1, "message": "flows follow contexts"}
    cautious = ot.Corpus.from_arrow(**tables, findings=pl.DataFrame([finding]))
    assert ot.taint(cautious)["outcome_tainted_lower"].to_list() == [False, None]
    assert ot.metrics(cautious, groups=["taint"])["outcome_tainted_lower"].to_list() == [False, None]
    assert ot.taint(cautious)["n_tainted"].equals(ot.taint(corpus)["n_tainted"])
    assert ot.taint(cautious.filter(pl.col("trace") == 1))["n_tainted_lower"].to_list() == [None]
