"""GraphML as NetworkX reads it, beside the tables of the corpus."""

import io
import math
from pathlib import Path
from typing import Any

import networkx as nx
import polars as pl
import pytest

import orchestrace as ot
from samples.hand_runs import event, read, run
from samples.random_runs import jsonl

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "samples"


def written(corpus: ot.Corpus, folder: Path, **options: Any) -> Any:
    path = folder / "run.graphml"
    assert ot.export(corpus, "graphml", path, overwrite=True, **options) == path.stat().st_size
    return nx.read_graphml(path, node_type=int, force_multigraph=True)


def present(row: dict[str, Any]) -> dict[str, Any]:
    """What a row has to say: texts that are not empty, which NetworkX leaves out, and finite numbers."""
    values = {name: str(value) if isinstance(value, list) else value for name, value in row.items()}
    return {
        name: value
        for name, value in values.items()
        if value not in (None, "") and not (isinstance(value, float) and not math.isfinite(value))
    }


def assert_is_the_tables(graph: Any, corpus: ot.Corpus) -> None:
    """Nodes, edges and facts, with the types that Python has of them."""
    events = {row.pop("seq"): present(row) for row in corpus.events.drop("trace").collect().to_dicts()}
    assert dict(graph.nodes(data=True)) == events
    types = {(name, type(value)) for row in events.values() for name, value in row.items()}
    assert {(name, type(value)) for _, row in graph.nodes(data=True) for name, value in row.items()} == types
    edges = corpus.edges.select("src", "dst", pl.col("type").cast(pl.String)).collect().rows()
    assert sorted((u, v, row["type"]) for u, v, row in graph.edges(data=True)) == sorted(edges)
    measures = corpus.measures.select("kind", "name", "value").collect().rows()
    facts = corpus.traces.select("trace_id", "task_id", "importer", "topology").collect().to_dicts()[0]
    assert graph.graph.items() >= present(facts).items()
    assert {name: value for name, value in graph.graph.items() if "." in name} == {
        f"{kind}.{name}": value for kind, name, value in measures if math.isfinite(value)
    }


@pytest.mark.parametrize("at", range(0, 37, 4))
def test_the_graph_is_the_tables_of_the_run(at: int, tmp_path: Path) -> None:
    samples = ot.read_traces(SAMPLES)
    number, name = samples.traces.select("trace", "trace_id").collect().row(at)
    graph = written(samples, tmp_path, trace_id=name)
    assert_is_the_tables(graph, samples.filter(pl.col("trace") == number))


def test_any_text_reads_back(tmp_path: Path) -> None:
    texts = ["<a href='x'>&amp;</a>", "]]>", 'quote " end', "a\r\nb\tc", " spaces ", "雪 🦉", "\u202eturned"]
    events = [event(n, text, "tool_call", tool=text) for n, text in enumerate(texts)]
    document = {**run(0, 1.0, events, [(0, 1), (0, 1), (1, 0)]), "rewards": {'team" <&>\n': 0.5}}
    corpus = ot.read_traces(io.BytesIO(jsonl([document])))
    graph = written(corpus, tmp_path)
    assert_is_the_tables(graph, corpus)  # with edges that close a cycle, of which nothing has a schedule
    assert [graph.nodes[n]["tool"] for n in graph] == texts


def test_what_xml_cannot_say_is_an_escape(tmp_path: Path) -> None:
    corpus = read([run(0, 1.0, [event(0, "nul \x00 bell \x07", "message")], [])])
    assert written(corpus, tmp_path).nodes[0]["agent"] == "nul \\x00 bell \\x07"


def test_lists_and_own_fields_are_attributes(tmp_path: Path) -> None:
    events = [event(0, "a", "message", p_actions=[0.25, 0.75], x_n=7), event(1, "b", "message", ok=False)]
    corpus = ot.read_traces(io.BytesIO(jsonl([run(0, 1.0, events, [])])), fields={"x_n": pl.Int64})
    graph = written(corpus, tmp_path)
    assert graph.nodes[0]["p_actions"] == "[0.25, 0.75]" and graph.nodes[0]["x_n"] == 7
    assert graph.nodes[1]["ok"] is False and "x_n" not in graph.nodes[1]


def test_credits_are_attributes_of_events(tmp_path: Path) -> None:
    corpus = ot.generate(traces=1, seed=3)
    credits = ot.credit(corpus, method="flow", unit="event")
    graph = written(corpus, tmp_path, credits=credits)
    assert [graph.nodes[seq]["credit"] for seq in credits["seq"]] == credits["credit"].to_list()


def test_a_graph_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ot.ParameterError, match=r"would have [\d,]+ bytes"):
        ot.export(ot.generate(traces=1, seed=3), "graphml", tmp_path / "x", max_bytes=100)
    assert not list(tmp_path.iterdir())
