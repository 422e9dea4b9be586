"""The survey's rules for benchmarks: each verdict by hand with its repaired twin, plain Python, on disk."""

import copy
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from orchestrace.evaluation.benchmark import COUNTS, VERDICTS, tasks_for
from orchestrace.evaluation.benchmark_evidence import DECADES, PARTS, REPLAYABLE, TOPOLOGIES
from reference.trace import Trace
from samples.examples import examples
from samples.random_runs import Document, corpora, jsonl

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"small": 10, "middle": 40, "large": 320}
RULES = {"B1": "pass", "B2": "pass", "B3": "pass", "B4": "pass", "B5": "pass"}


def document(task: str, topology: str, *, attacked: bool) -> Document:
    """A run of a lead and a worker, of whom every rule learns what it asks for."""
    size = SIZES[task]
    shared = {"duration_s": 1.0, "tokens": 5, "trusted": True, "corrupted": False}
    spoken = {"type": "message", "agent": "worker", "to": "lead"}
    events = [{"type": "spawn", "agent": "lead", "to": "worker"}]
    events += [{**spoken, "content_ref": f"c{n}", "content_hash": f"h{n}"} for n in range(size - 2)]
    events += [{"type": "aggregate", "agent": "lead", "to": "user"}]
    rows = [{"id": f"e{n}", "t": float(n), **shared, **event} for n, event in enumerate(events)]
    if attacked:
        rows[1] |= {"trusted": False, "corrupted": True}
    return {
        "trace_id": f"{task}/{topology}/{attacked}",
        "task_id": task,
        "topology": topology,
        "events": rows,
        "edges": [{"src": f"e{n}", "dst": f"e{n + 1}", "type": "message"} for n in range(size - 1)],
        "rewards": {"team": 1.0},
        "metrics": {"task_success": 1.0},
        "costs": {"tokens": 5 * size, "wall_clock_s": float(size)},
    }


def benchmark() -> list[Document]:
    """Three tasks, each under two topologies, with and without an attack."""
    return [
        document(task, topology, attacked=attacked)
        for task in SIZES
        for topology in ("centralized", "debate")
        for attacked in (False, True)
    ]


def read(documents: list[Document]) -> ot.Corpus:
    corpus = ot.read_traces(io.BytesIO(jsonl(documents)))
    assert corpus.records["used"] == len(documents)
    return corpus


def verdicts(documents: list[Document], **options: Any) -> dict[str, tuple[str, str, str]]:
    options = {"width": 1.0, "license": "CC0-1.0", **options}
    table = ot.evaluation.benchmark_verdict(read(documents), **options)
    assert table.schema == VERDICTS and table["rule"].to_list() == list(RULES)
    return {rule: rest for rule, *rest in table.drop("asks").iter_rows()}  # type: ignore[misc]


def without(*fields: str, of: str = "events") -> Callable[[Document], None]:
    def change(run: Document) -> None:
        for row in run[of] if isinstance(run[of], list) else [run[of]]:
            for field in fields:
                row.pop(field, None)

    return change


def setting(**values: Any) -> Callable[[Document], None]:
    return lambda run: run.update(values)


def setting_events(**values: Any) -> Callable[[Document], None]:
    def change(run: Document) -> None:
        for event in run["events"]:
            event.update(values)

    return change


def unattacked(run: Document) -> None:
    setting_events(corrupted=False)(run)


def unjudged(run: Document) -> None:
    without("task_success", of="metrics")(run)
    without("team", of="rewards")(run)


def alone(run: Document) -> None:
    without("to")(run)
    setting_events(agent="lead", type="orchestrator_decision")(run)


def cyclic(run: Document) -> None:
    run["edges"].append({"src": "e2", "dst": "e1", "type": "message"})


def answerless(run: Document) -> None:
    run["events"][-1]["type"] = "orchestrator_decision"


#: Which traces are changed, how, and what the rule says then.
CASES: dict[str, tuple[Callable[[Document], bool], Callable[[Document], None], str, str, str]] = {
    "no success": (lambda run: True, unjudged, "B1", "fail", "`task_success`"),
    "no success in some": (
        *(lambda run: run["task_id"] == "small", unjudged),
        *("B1", "inconclusive", "4 traces without E1 task success"),
    ),
    "a lone agent": (
        *(lambda run: True, alone),
        *("B1", "fail", "no trace has E3"),
    ),
    "one topology": (lambda run: True, setting(topology="swarm"), "B3", "fail", "all traces have swarm"),
    "a mixed topology": (lambda run: True, setting(topology="mixed"), "B3", "fail", "a mixed topology"),
    "one topology and mixed ones": (
        *(lambda run: run["topology"] == "debate", setting(topology="mixed")),
        *("B3", "fail", "6 traces with a mixed topology, all others centralized"),
    ),
    "topology not said": (
        *(lambda run: run["topology"] == "debate", setting(topology="unknown")),
        *("B3", "inconclusive", "6 traces without a `topology`"),
    ),
    "confounded with the task": (
        *(
            lambda run: True,
            lambda run: run.update(topology="swarm" if run["task_id"] == "small" else "debate"),
        ),
        *("B3", "inconclusive", "confounded with the task: none ran under two"),
    ),
    "one of three tasks under two": (
        *(lambda run: run["task_id"] != "small", setting(topology="debate")),
        *("B3", "inconclusive", "few tasks ran under several"),
    ),
    "no attack": (
        *(lambda run: True, setting_events(trusted=True, corrupted=False)),
        *("B4", "fail", "no attack, and nothing untrusted"),
    ),
    "untrusted without an attack": (
        *(lambda run: True, unattacked, "B4", "inconclusive", "untrusted content is no attack"),
    ),
    "nothing of safety": (
        *(lambda run: True, without("trusted", "corrupted"), "B4", "inconclusive", "do not say"),
    ),
    "no clean twin": (
        *(lambda run: True, setting_events(corrupted=True)),
        *("B4", "inconclusive", "without the attack, too"),
    ),
    "a twin that says nothing": (
        *(lambda run: run["trace_id"].endswith("False"), without("trusted", "corrupted")),
        *("B4", "inconclusive", "without the attack, too"),
    ),
    "no reward": (lambda run: True, without("team", of="rewards"), "B5", "fail", "without 'reward'"),
    "cycles": (lambda run: True, cyclic, "B5", "fail", "without 'acyclic'"),
    "no edges": (lambda run: True, setting(edges=[]), "B5", "fail", "without 'edges'"),
    "no contents": (lambda run: True, without("content_ref"), "B5", "fail", "without 'contents'"),
    "one text lost": (
        *(
            lambda run: run["task_id"] == "small",
            lambda run: without("content_ref")({"events": run["events"][:2]}),
        ),
        *("B5", "inconclusive", "4 traces without 'contents'"),
    ),
    "no outcome": (lambda run: run["task_id"] == "small", answerless, "B5", "inconclusive", "'outcome'"),
    "tasks without a name": (
        *(lambda run: True, lambda run: run.update(task_id=run["trace_id"])),
        *("B5", "fail", "without 'task named'"),
    ),
}


def test_a_benchmark_passes_every_rule() -> None:
    found = verdicts(benchmark())
    assert {rule: verdict for rule, (verdict, _, _) in found.items()} == RULES
    assert found["B1"][1] == "E1 100 %, E2 100 %, E3 100 %, E4 100 %, all 100 %"
    assert found["B2"][1] == "about 10: 1 task, about 100: 1 task and about 1000: 1 task"
    assert found["B3"][1] == "2 of 6 (centralized, debate), 3 of 3 tasks under several"
    assert found["B4"][1] == (
        "attack 50 %, of these 100 % with a clean twin, untrusted content 50 %, safety recorded 100 %"
    )
    assert found["B5"][1:] == ["replayable 100 %", "license as stated, not checked: CC0-1.0"]


@pytest.mark.parametrize("case", CASES)
def test_a_rule_that_is_broken_and_its_repaired_twin(case: str) -> None:
    """The benchmark with one thing changed; without the change the rule passes."""
    chosen, change, rule, verdict, words = CASES[case]
    documents = copy.deepcopy(benchmark())
    for run in filter(chosen, documents):
        change(run)
    found = verdicts(documents)[rule]
    assert found[0] == verdict and words in found[2], found
    assert verdicts(benchmark())[rule][0] == "pass"


def test_strata_are_empty_thin_or_filled() -> None:
    documents = benchmark()
    assert verdicts([run for run in documents if run["task_id"] != "large"])["B2"] == [
        *("fail", "about 10: 1 task, about 100: 1 task and about 1000: 0 tasks"),
        "no trace has about 1000 events",
    ]
    # traces of a task are no independent trials: four of them are one
    thin = verdicts(documents, width=0.5)["B2"]
    assert thin[0] == "inconclusive"
    assert thin[2] == "each needs 12 tasks: more about 10, about 100 and about 1000"
    more = [
        run | {"task_id": f"{run['task_id']}{n}", "trace_id": f"{run['trace_id']}{n}"}
        for n in range(12)
        for run in documents[::4]
    ]
    assert verdicts(more, width=0.5)["B2"][0] == "pass"
    assert verdicts(more[:-3], width=0.5)["B2"][0] == "inconclusive"


@pytest.mark.parametrize(
    ("size", "stratum"),
    [
        *((3, "below about 10"), (4, "about 10"), (31, "about 10"), (32, "about 100")),
        *((316, "about 100"), (317, "about 1000"), (3162, "about 1000"), (3163, "above about 1000")),
    ],
)
def test_a_size_is_in_the_nearest_decade(size: int, stratum: str) -> None:
    run = document("small", "swarm", attacked=False) | {"edges": []}
    run["events"] = [{**run["events"][1], "id": f"e{n}", "t": float(n)} for n in range(size)]
    counts = ot.evaluation.benchmark_counts(read([run])).filter(rule="B2", n_traces=1)
    assert counts["part"].to_list() == [stratum]
    nearest = round(math.log10(size))
    assert stratum == {1: "about 10", 2: "about 100", 3: "about 1000"}.get(nearest, stratum)


@pytest.mark.parametrize("width", [0.05, 0.1, 0.2, 0.5, 0.9])
@pytest.mark.parametrize(("confidence", "z"), [(0.9, 1.6448536), (0.95, 1.9599640), (0.99, 2.5758293)])
def test_as_many_tasks_as_the_interval_needs(width: float, confidence: float, z: float) -> None:
    def widest(n: int) -> float:
        return max(
            2 * z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
            for p in (0.0, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0)
        )

    needed = tasks_for(width, confidence)
    assert widest(needed) <= width + 1e-9
    assert needed == 1 or widest(needed - 1) > width


def test_numbers_of_tasks_are_not_cut_off() -> None:
    """Beyond 32 bits, and with a confidence whose upper tail rounds to 1."""
    corpus = ot.generate(traces=1, seed=0)
    counts = ot.evaluation.benchmark_counts(corpus, width=1e-6).filter(rule="B2", part="about 10")
    assert counts["needed"].item() == tasks_for(1e-6, 0.95) == 3841458820691
    verdict = ot.evaluation.benchmark_verdict(corpus, confidence=1 - 1e-16)
    assert verdict.schema == VERDICTS
    assert 1500 < tasks_for(0.2, 1 - 1e-16) < 1800  # z is 8.2


@pytest.mark.parametrize(("n", "verdict"), [(14, "pass"), (13, "inconclusive")])
def test_a_share_that_is_met_exactly_is_enough(n: int, verdict: str) -> None:
    """14 of 25 is 0.56, though 0.56 times 25 is a little more than 14."""
    assert 0.56 * 25 > 14
    runs = [document("small", topology, attacked=False) for topology in ("centralized", "debate")]
    documents = [
        run | {"task_id": f"task{task}", "trace_id": f"{run['trace_id']}{task}"}
        for task in range(25)
        for run in runs[: 2 if task < n else 1]
    ]
    assert verdicts(documents, share=0.56)["B3"][0] == verdict


def fixes(documents: list[Document], **options: Any) -> dict[str, str | None]:
    return dict(ot.evaluation.benchmark_counts(read(documents), **options).select("part", "fix").iter_rows())


def test_a_fix_stands_where_a_rule_needs_more() -> None:
    thin, enough = fixes(benchmark()), fixes(benchmark(), width=1.0)
    assert thin["about 1000"] == "run more tasks of about 1000 events"
    assert not any(enough.values())
    documents = benchmark()
    for run in documents:
        unjudged(run)
        run["topology"] = "unknown"
    found = fixes(documents)
    success = "give metrics a `task_success`, or rewards a `team`"
    assert found["E1 task success"] == found["all of E1 to E4"] == success
    assert found["replayable"] == found["reward"] == "give the trace `rewards`"
    assert found["topology not known"] == "give traces a `topology`"


def test_a_fix_fits_what_is_lacking() -> None:
    documents = benchmark()
    for run in documents:
        cyclic(run)
    found = fixes(documents)
    acyclic = "record edges that close no cycle"
    assert found["E2 parallelism efficiency"] == found["all of E1 to E4"] == found["acyclic"] == acyclic
    assert acyclic in verdicts(documents)["B1"][2]


@pytest.mark.parametrize("place", [None, False, "", " ", {"at": "tool"}, ["tool"], 3])
def test_a_safety_event_that_does_not_say_where_is_no_attack(place: object) -> None:
    """Nor is one that mentions the field in a text, or below another field."""
    mentions = {"x_note": '"x_injection": "tool"', "x_below": {"x_injection": "tool"}, "x_injection": place}
    documents = benchmark()
    for run in documents:
        unattacked(run)
        run["events"][1] |= {"type": "safety_event", **mentions}
    assert verdicts(documents)["B4"][0] != "pass"
    counts = ot.evaluation.benchmark_counts(read(documents)).filter(part="attack")
    assert counts["n_traces"].item() == 0
    documents[0]["events"][1]["x_injection"] = "tool"
    counts = ot.evaluation.benchmark_counts(read(documents)).filter(part="attack")
    assert counts["n_traces"].item() == 1


def test_a_license_is_stated_and_not_recorded() -> None:
    found = verdicts(benchmark(), license=None)["B5"]
    assert found[0] == "inconclusive" and found[2] == "no recording says its license: state it"


def test_the_share_decides_what_is_enough() -> None:
    documents = benchmark()
    unjudged(documents[0])
    assert verdicts(documents)["B1"][0] == "pass"  # eleven of twelve
    assert verdicts(documents, share=0.95)["B1"][0] == "inconclusive"


def test_an_outcome_is_a_success() -> None:
    """A `team` reward alone, or a `task_success` alone, is E1."""
    for change in (without("task_success", of="metrics"), without("team", of="rewards")):
        documents = benchmark()
        for run in documents:
            change(run)
        assert verdicts(documents)["B1"][0] == "pass"


def test_an_attack_is_known_by_a_label_too() -> None:
    """A metric `attack_success`, or a safety event that says where the injection was put."""
    documents = benchmark()
    for run in documents:
        unattacked(run)
    documents[1]["metrics"]["attack_success"] = 0.0
    documents[3]["events"][1] |= {"type": "safety_event", "x_injection": "tool"}
    documents[5]["events"][1] |= {"type": "safety_event"}  # a permission that was refused is no attack
    counts = ot.evaluation.benchmark_counts(read(documents)).filter(rule="B4")
    assert dict(counts.select("part", "n_traces").rows())["attack"] == 2


def test_a_recording_that_is_cut_off_has_the_outcome_that_it_shows() -> None:
    """An answer to the user is the outcome of a recording cut off later, too (D5); it has no end, though."""
    answers: list[Document] = [
        {"id": "e0", "t": 0, "type": "spawn", "agent": "lead", "to": "ann"},
        {"id": "e1", "t": 1, "type": "return", "agent": "ann", "to": "lead"},
    ]
    told: Document = {"id": "e2", "t": 2, "type": "return", "agent": "lead", "to": "user"}
    runs = []
    for name, events in (("cut before it", answers), ("cut after it", [*answers, told])):
        run = document(next(iter(SIZES)), "centralized", attacked=False)
        first = events[0] | {"x_trace": {"partial": True}}
        edges = [{"src": "e0", "dst": "e1", "type": "spawn"}]
        runs.append(run | {"trace_id": name, "events": [first, *events[1:]], "edges": edges})
    counts = ot.evaluation.benchmark_counts(read(runs)).filter(rule="B5")
    n_traces = dict(counts.select("part", "n_traces").rows())
    assert (n_traces["ends"], n_traces["outcome"], n_traces["replayable"]) == (0, 1, 0)


def test_no_traces_are_inconclusive() -> None:
    nothing = ot.generate(traces=2, seed=0).filter(pl.col("trace_id") == "nobody")
    assert ot.evaluation.benchmark_verdict(nothing)["verdict"].to_list() == ["inconclusive"] * 5
    counts = ot.evaluation.benchmark_counts(nothing)
    assert (
        counts.schema == COUNTS
        and counts["n_traces"].sum() == 0
        and counts["share"].null_count() == counts.height
    )


# --- against plain Python ---------------------------------------------------------------------------


def expected(documents: list[Document]) -> dict[str, set[int]]:
    """The traces that have each part, from the documents alone, but for the families."""
    parts: dict[str, set[int]] = {
        part: set() for rule, names in PARTS.items() if rule != "B1" for part in names
    }
    safe: dict[str, set[bool]] = {}
    topologies: dict[str, set[str]] = {}
    for n, run in enumerate(documents):
        events, trace = run["events"], Trace(run)
        topology = run.get("topology") or "unknown"
        attacked = any(event.get("corrupted") for event in events)
        recorded = any(event.get(field) is not None for event in events for field in ("trusted", "corrupted"))
        spoken = [event for event in events if event["type"] in ("message", "tool_result", "return")]
        size = round(math.log10(len(events)))
        acyclic = nx.is_directed_acyclic_graph(nx.DiGraph(trace.edges.keys()))
        has = {
            "below about 10": size < 1,
            **{name: 10**size == decade for name, decade in DECADES.items()},
            "above about 1000": size > 3,
            **{name: topology == name for name in (*TOPOLOGIES, "mixed")},
            "topology not known": topology == "unknown",
            "safety recorded": recorded,
            "untrusted content": any(event.get("trusted") is False for event in events),
            "attack": attacked,
            "edges": bool(run["edges"]),
            "contents": bool(spoken) and all(event.get("content_ref") for event in spoken),
            "reward": bool(run.get("rewards")),
            "ends": not trace.partial,
            "acyclic": acyclic,
            "outcome": trace.outcome is not None and acyclic,
            "task named": run["task_id"] != run["trace_id"],
        }
        has["replayable"] = all(has[part] for part in REPLAYABLE)
        for part, is_so in has.items():
            parts[part] |= {n} if is_so else set()
        if recorded:
            safe.setdefault(run["task_id"], set()).add(not attacked)
        topologies.setdefault(run["task_id"], set()).update({topology} & set(TOPOLOGIES))
    for n, run in enumerate(documents):
        if len(topologies[run["task_id"]]) > 1 and run.get("topology") in TOPOLOGIES:
            parts["task under several"].add(n)
    parts["attack with a clean twin"] = {n for n in parts["attack"] if True in safe[documents[n]["task_id"]]}
    return parts


@examples(60)
@given(corpora(), st.randoms(use_true_random=False))
def test_counts_are_those_of_plain_python(documents: list[Document], draw: Any) -> None:
    for run in documents:
        run["topology"] = draw.choice([*TOPOLOGIES[:3], "mixed", "unknown"])
        for event in run["events"]:
            for field in ("trusted", "corrupted"):
                if draw.random() < 0.3:
                    event[field] = draw.random() < 0.5
    corpus = read(documents)
    table = ot.evaluation.benchmark_counts(corpus)
    found = {row["part"]: row for row in table.iter_rows(named=True)}
    for part, traces in expected(documents).items():
        assert found[part]["n_traces"] == len(traces), part
        assert found[part]["n_tasks"] == len({documents[n]["task_id"] for n in traces}), part
        assert found[part]["share"] == pytest.approx(len(traces) / len(documents))
    measured = ot.metrics(corpus)
    judged = pl.Series([bool({"team"} & set(run.get("rewards", {}))) for run in documents])
    judged |= measured["task_success"].is_not_null()
    others = measured["n_families"] - measured["task_success"].is_not_null().cast(pl.UInt8)
    assert found["E1 task success"]["n_traces"] == judged.sum()
    assert found["all of E1 to E4"]["n_traces"] == (judged & (others == 3)).sum()
    assert found["E2 parallelism efficiency"]["n_traces"] == measured["parallelism"].count()
    strata = table.filter(rule="B2")
    assert strata["n_traces"].sum() == len(documents)


def test_a_corpus_on_disk_has_the_same_verdicts(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_bytes(jsonl(benchmark()))
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus", partitions=3)
    here, there = ot.read_traces(tmp_path / "runs.jsonl"), ot.read_corpus(tmp_path / "corpus")
    for verb in (ot.evaluation.benchmark_verdict, ot.evaluation.benchmark_counts):
        expected_rows = verb(here, width=0.5)
        assert verb(there, width=0.5).equals(expected_rows)
        assert verb(there, width=0.5, engine=ot.distributed.processes(workers=1)).equals(expected_rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": 0}, "share is 0, expected a number"),
        ({"width": 1.5}, "width is 1.5, expected a number"),
        ({"confidence": 1}, "confidence is 1, expected a number"),
        ({"license": 3}, "license is 3, expected"),
        ({"license": ""}, "^license is '', expected its name$"),
        ({"license": "  "}, "^license is '  ', expected its name$"),
        ({"width": 1e-160}, "^width is 1e-160, expected a number from 1e-06 to 1$"),
        ({"width": 1e-300}, "^width is 1e-300, expected a number from 1e-06 to 1$"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ot.ParameterError, match=message):
        ot.evaluation.benchmark_verdict(ot.generate(traces=1, seed=0), **options)


@pytest.mark.corpora
def test_the_table_of_published_recordings_is_what_they_give(corpora: Path) -> None:
    """benches/results/benchmark_rules.json, from which docs/checklist.md is made."""
    rows = json.loads((ROOT / "benches/results/benchmark_rules.json").read_text())
    assert len(rows) >= 20
    for row in rows:
        corpus = ot.read_traces(corpora / row["corpus"])
        table = ot.evaluation.benchmark_verdict(corpus)
        counts = ot.evaluation.benchmark_counts(corpus)
        assert dict(table.select("rule", "verdict").iter_rows()) == row["verdicts"], row["corpus"]
        assert dict(counts.select("part", "n_traces").iter_rows()) == row["counts"], row["corpus"]
        assert counts.filter(rule="B2")["n_traces"].sum() == len(corpus) == row["traces"]


@pytest.mark.corpora
def test_verdicts_on_published_recordings(corpora: Path) -> None:
    """Of AgentDojo's runs of one agent, few are clean, and these of other tasks than the attacked ones."""
    table = ot.evaluation.benchmark_verdict(ot.read_traces(corpora / "agentdojo"))
    found = table["verdict"].to_list()
    assert found == ["fail", "fail", "inconclusive", "inconclusive", "inconclusive"]
    assert table["numbers"][3].startswith("attack 97 %, of these 0 % with a clean twin")
