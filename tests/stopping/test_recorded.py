"""Epochs of recordings: by hand, against plain Python, and without a look ahead."""

import io
import math
import random
from collections import Counter
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from reference.trace import Trace
from samples.examples import examples
from samples.random_runs import Document, jsonl, random_document

QUICK = examples(120, derandomize=True)


@st.composite
def recordings(draw: st.DrawFn) -> list[Document]:
    r = random.Random(draw(st.integers(0, 2**32 - 1)))
    documents = []
    for number in range(draw(st.integers(1, 3))):
        filled = {
            name: r.choice([0.0, 0.5, 1.0]) for name in ("content_hash", "args_hash", "score", "tokens_out")
        }
        one = random_document(r, number, r.randrange(1, 14), filled) | {"trace_id": f"t{number}"}
        drafted, judged, deciding = r.choice([0.0, 0.7]), r.choice([0.0, 0.5]), r.choice([0.0, 0.7])
        for event in one["events"]:
            if event["type"] in ("orchestrator_decision", "aggregate") and r.random() < drafted:
                event["draft_score"] = r.choice([0.0, 0.25, 0.5, 1.0])
            if event["type"] == "orchestrator_decision" and r.random() < deciding:
                event["action"] = r.choice(["stop", "continue", "spawn"])
            if r.random() < 0.3:
                event["ok"] = r.random() < 0.5
            if r.random() < judged:
                event["trusted"] = r.random() < 0.6
                event["sanitizer"] = r.random() < 0.2
            if r.random() < 0.3:
                event["cost_usd"] = r.randrange(8) / 4
        documents.append(one)
    return documents


def read(documents: list[Document], basis: str = "seconds") -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl(documents)), time_basis=basis)


def expected(document: Document, source: str | None) -> list[dict[str, Any]]:
    """The epochs of a trace and what is known at each, event by event."""
    trace = Trace(document)
    events, order = trace.events, trace.order
    last_of_turn = {
        max(turn.events, key=trace.rank.__getitem__) for turn in trace.turns if turn.owner == trace.root
    }
    marks = {
        "draft": {
            v
            for v in order
            if events[v]["type"] in ("orchestrator_decision", "aggregate")
            and document["events"][v].get("draft_score") is not None
        },
        "decision": {
            v
            for v in order
            if events[v]["type"] == "orchestrator_decision" and events[v]["action"] in ("stop", "continue")
        },
        "score": {v for v in order if events[v]["score"] is not None and trace.owner[v] is not None},
        "turn": last_of_turn,
    }
    names = ["draft", "decision", "score", "turn"] if source is None else [source]
    chosen = next((name for name in names if marks[name]), None)
    found: list[dict[str, Any]] = []
    tokens = usd = errors = run = calls = results = 0
    told: set[str] = set()
    distinct, spawned, ended, owners = set(), {}, set(), set()
    returns: list[str] = []
    unchanged = -1
    before: str | None = None
    for place, v in enumerate(order):
        event, raw = events[v], document["events"][v]
        owner, kind = trace.owner[v], event["type"]
        if event["tokens"] is not None:
            told.add("tokens")
            tokens += event["tokens"]
        if raw.get("cost_usd") is not None:
            told.add("usd")
            usd += raw["cost_usd"]
        if event["ok"] is not None:
            told.add("ok")
            errors += not event["ok"]
            run = 0 if event["ok"] else run + 1
        content = event["content_hash"] or event["content_ref"]
        if kind == "tool_call":
            key = event["args_hash"] or event["content_ref"]
            if event["tool"] is not None and key is not None:
                calls += 1
                distinct.add((event["tool"], key))
        results += (kind == "tool_call") - (kind == "tool_result")
        if kind == "spawn" and event["to"] is not None:
            spawned.setdefault(event["to"], place)
        closing = owner if kind == "return" else event["to"] if kind == "despawn" else None
        if closing is not None and closing in spawned and spawned[closing] < place:
            ended.add(closing)
        if owner is not None:
            owners.add(owner)
        if kind == "return" and content is not None:
            returns.append(content)
        if chosen is None or v not in marks[chosen]:
            continue
        unchanged = (unchanged + 1 if content == before else 0) if content is not None else -1
        counts = Counter(returns)
        found.append(
            {
                "seq": v,
                "source": chosen,
                "q": raw.get("draft_score") if chosen in ("draft", "decision") else None,
                "end": "unknown",
                "s": event["score"] if chosen != "turn" else None,
                "tokens": tokens if "tokens" in told else None,
                "usd": usd if "usd" in told else None,
                "seconds": event["t"] - events[order[0]]["t"],
                "x_open_agents": len(spawned) - len(ended),
                "x_pending": max(0, results),
                "x_agreement": max(counts.values()) / sum(counts.values()) if counts else None,
                "x_duplicate_calls": 1 - len(distinct) / calls if calls else None,
                "x_errors": errors if "ok" in told else None,
                "x_error_run": run if "ok" in told else None,
                "x_n_agents": len(owners),
                "x_tainted": tainted(trace, order[: place + 1]),
                "x_unchanged": unchanged if content is not None else None,
            }
        )
        before = content
        returns = []
    for k, row in enumerate(found):
        quality = [one["q"] for one in found[: k + 1]]
        # of decisions some have a quality
        row["x_q_best"] = max(q for q in quality if q is not None) if row["q"] is not None else None
        both = k and row["q"] is not None and quality[-2] is not None
        row["x_q_delta1"] = quality[-1] - quality[-2] if both else None
    if chosen == "decision" and events[found[-1]["seq"]]["action"] == "stop":
        found = [row | {"end": "agent"} for row in found]
    return found


def tainted(trace: Trace, known: list[int]) -> bool | None:
    """Whether the closure of untrusted content over these events has more than seeds; null if untold."""
    events = trace.events
    if all(events[v]["trusted"] is None for v in known):
        return None
    clean = {v for v in known if events[v]["sanitizer"] or events[v]["type"] == "human_intervention"}
    seeds = {v for v in known if events[v]["trusted"] is False} - clean
    reached, open_ends = set(seeds), list(seeds)
    while open_ends:
        u = open_ends.pop()
        for (src, dst), kinds in trace.edges.items():
            carries = src == u and any(kind != "temporal" for kind in kinds)
            if carries and dst in known and dst not in clean | reached:
                reached.add(dst)
                open_ends.append(dst)
    return reached > seeds


@QUICK
@given(recordings(), st.sampled_from([None, "draft", "decision", "score", "turn"]))
def test_epochs_are_those_of_plain_python(documents: list[Document], source: Any) -> None:
    corpus = read(documents)
    table, partial = ot.stopping.epochs(corpus, source), corpus.traces.collect()["partial"]
    for number, document in enumerate(documents):
        rows = table.filter(trace=number).to_dicts()
        told = expected(document, source)
        if partial[number]:
            told = [one | {"end": "budget"} for one in told]
        assert [row["seq"] for row in rows] == [row["seq"] for row in told]
        assert [row["k"] for row in rows] == list(range(1, len(told) + 1))
        assert [row["last"] for row in rows] == [k == len(told) for k in range(1, len(told) + 1)]
        for row, one in zip(rows, told, strict=True):
            for name, value in one.items():
                if isinstance(value, float):
                    assert math.isclose(row[name], value, abs_tol=1e-12), (name, row[name], value)
                else:
                    assert row[name] == value, (name, row[name], value)
                if name.startswith("x_") and f"{name}_missing" in row:
                    assert row[f"{name}_missing"] == (value is None)


@QUICK
@given(recordings(), st.sampled_from(["draft", "score"]), st.integers(0, 12))
def test_nothing_after_an_epoch_is_known_there(documents: list[Document], source: Any, at: int) -> None:
    budget = {"epochs": 4, "tokens": 20, "usd": 1.5}
    whole = ot.stopping.epochs(read(documents[:1]), source, budget=budget)
    if at >= whole.height:
        return
    [document] = documents[:1]
    end = whole["seq"][at]
    rank = {v: place for place, v in enumerate(Trace(document).order)}
    kept = [v for v in range(len(document["events"])) if rank[v] <= rank[end]]
    ids = {document["events"][v]["id"] for v in kept}
    cut = document | {
        "events": [document["events"][v] for v in kept],
        "edges": [edge for edge in document["edges"] if edge["src"] in ids and edge["dst"] in ids],
    }
    # who owns a result, and who is an agent at all, may hang on what comes later: these are left out
    if Trace(cut).owner != [Trace(document).owner[v] for v in kept]:
        return
    part = ot.stopping.epochs(read([cut]), source, budget=budget)
    features = [
        name for name in whole.columns if name.startswith("x_") or name in ("q", "s", "tokens", "usd")
    ]
    assert part.select(features).equals(whole.head(at + 1).select(features))


def test_what_untrusted_content_reached_is_that_of_taint() -> None:
    """At the last event of all, the prefix is the run: `taint` reaches more than its seeds, or not."""
    corpus = ot.generate(traces=60, seed=5)
    last = corpus.events.group_by("trace").agg(pl.col("seq").sort_by("t", "seq").last()).collect()
    scored = corpus.with_fields(last.with_columns(score=0.5))
    table = ot.stopping.epochs(scored, "score").group_by("trace").agg(pl.col("x_tainted", "k").last())
    told = ot.taint(corpus).select("trace", reaches=pl.col("n_tainted") > pl.col("n_seeds"))
    both = table.join(told, on="trace", how="inner")
    assert both.height == 60 and 0 < both["reaches"].sum() < 60
    assert both["x_tainted"].cast(pl.Boolean).equals(both["reaches"].rename("x_tainted"))


def test_what_is_left_of_a_budget() -> None:
    runs = [attempt("b", "x", 0.5, 3), attempt("a", "x", 0.0, 5), attempt("d", "y", 1.0, 2)]
    corpus = read(runs)
    table = ot.stopping.epochs(corpus, "attempt", budget=10)
    assert table["x_budget_left"].to_list() == pytest.approx([0.5, 0.2, 0.8])
    table = ot.stopping.epochs(corpus, "attempt", budget={"tokens": 4, "epochs": 2})
    assert table["x_budget_left"].to_list() == pytest.approx([-0.25, -1.0, 0.5])
    # nothing tells what a run cost in dollars
    table = ot.stopping.epochs(corpus, "attempt", budget={"usd": 1.0})
    assert table["x_budget_left"].null_count() == 3 and table["x_budget_left_missing"].sum() == 3
    assert "x_budget_left" not in ot.stopping.epochs(corpus, "attempt").columns
    budgets: list[tuple[Any, str]] = [
        (0, "budget is 0 tokens, expected a finite number above 0"),
        (math.inf, "budget is inf tokens"),
        (True, "budget is True tokens"),
        ({"tokns": 1}, "did you mean 'tokens'?"),
    ]
    for budget, said in budgets:
        with pytest.raises(ot.ParameterError) as error:
            ot.stopping.epochs(corpus, "attempt", budget=budget)
        assert said in str(error.value)


def attempt(name: str, task: str, team: float | None, tokens: int) -> Document:
    event = {"id": "e", "t": 2.0, "agent": "a", "type": "return", "to": "user", "tokens": tokens}
    return {
        **{"trace_id": name, "task_id": task, "events": [event], "edges": []},
        **{"rewards": {"other": 1.0} | ({} if team is None else {"team": team})},
        "costs": {"tokens": 0, "wall_clock_s": 0},
    }


def test_attempts_are_epochs_of_their_group() -> None:
    runs = [
        ("b", "x", 0.5, 3),
        ("a", "x", 0.0, 5),
        ("c", "x", 0.2, 1),
        ("d", "y", 1.0, 2),
        ("e", "y", None, 9),
    ]
    table = ot.stopping.epochs(read([attempt(*run) for run in runs]), "attempt")
    assert table.select("task_id", "k", "q", "tokens", "last", "y").rows() == [
        ("x", 1, 0.0, 5.0, False, 0.5),
        ("x", 2, 0.5, 8.0, False, 0.5),
        ("x", 3, 0.5, 9.0, True, 0.5),
        ("y", 1, 1.0, 2.0, True, 1.0),
    ]
    told = ot.stopping.evaluate(table, ["recorded", "oracle"], price=0.01, cost="tokens", n_boot=10)
    assert told["value"].to_list() == pytest.approx([(0.41 + 0.98) / 2, (0.42 + 0.98) / 2])


def test_mistakes() -> None:
    corpus = ot.generate(traces=2, seed=0)
    with pytest.raises(ot.ParameterError, match="did you mean 'draft'"):
        ot.stopping.epochs(corpus, "drfat")
    with pytest.raises(ot.ParameterError, match="unknown reward channel 'taem'"):
        ot.stopping.epochs(corpus, reward="taem")
    assert ot.stopping.epochs(corpus, "draft").height == 0
    assert ot.stopping.epochs(corpus.filter(pl.lit(False))).height == 0
