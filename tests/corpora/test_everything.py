"""All published corpora at once: no record is unaccounted for, and what is written is what was read."""

import io
import json
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot
from orchestrace.base.schema import SCHEMAS
from reference.validator import judge
from samples import on_disk

PLACES = ["file", "line", "offset", "length"]
KINDS = ("used", "ignored", "duplicate", "quarantined")


@pytest.fixture(scope="module")
def everything(corpora: Path) -> ot.Corpus:
    return ot.read_traces(corpora)


def test_one_ingest_takes_them_all(everything: ot.Corpus, corpora: Path, tmp_path: Path) -> None:
    report = ot.ingest(corpora, tmp_path / "out", memory="256MiB")
    records = report.records
    assert records["read"] == sum(records[kind] for kind in KINDS) > 12_000
    for row in report.inputs.iter_rows(named=True):
        assert row["records"] == sum(row[kind] for kind in KINDS), row
    on_disk.assert_tidy(tmp_path / "out")
    on_disk.assert_rows(ot.read_corpus(tmp_path / "out"), on_disk.rows(everything))
    assert set(ot.ingest(corpora, tmp_path / "out").inputs["status"]) == {"unchanged"}


def test_every_format_is_told(everything: ot.Corpus) -> None:
    found = ot.describe(everything)["formats"]
    read = dict(found.filter(pl.col("traces") > 0).select("importer", "records").iter_rows())
    expected = {"native", "otel", "codex", "claude_code", "inspect", "agentdojo", "tau_bench", "who_and_when"}
    assert expected <= read.keys()
    sums = [found[kind].sum() for kind in KINDS]
    assert found["records"].sum() == sum(sums) == everything.records["read"]


@pytest.mark.parametrize("threads", [2, 7])
def test_threads_change_nothing(everything: ot.Corpus, corpora: Path, threads: int) -> None:
    on_disk.assert_rows(ot.read_traces(corpora, threads=threads), on_disk.rows(everything))


def test_every_trace_is_valid(everything: ot.Corpus) -> None:
    out = io.BytesIO()
    everything.write_jsonl(out)
    for line in out.getvalue().splitlines():
        assert not judge(line), judge(line)


def test_what_is_written_is_what_was_read(everything: ot.Corpus) -> None:
    out = io.BytesIO()
    assert everything.write_jsonl(out) == len(everything)
    again = ot.read_traces(io.BytesIO(out.getvalue()))
    assert again.records["used"] == len(everything)
    whole, back = on_disk.rows(everything), on_disk.rows(again)
    # Labels of runs that nobody recorded here have no document to go with.
    known = whole["traces"].select("trace_id").unique()
    whole["labels"] = whole["labels"].join(known, on="trace_id", how="semi", maintain_order="left")
    for table in SCHEMAS:
        if table in ("quarantine", "record_counts"):
            continue
        left, right = (frames[table].drop(PLACES, strict=False) for frames in (whole, back))
        if table == "labels":
            left, right = (frame.sort(frame.columns) for frame in (left, right))
        on_disk.assert_table(table, right, left)
    second = io.BytesIO()
    again.write_jsonl(second)
    assert second.getvalue() == out.getvalue()


def test_trainers_are_given_what_the_policy_wrote(everything: ot.Corpus) -> None:
    credits = ot.credit(everything, method="broadcast", unit="turn")
    kinds = everything.agents.select("trace", pl.col("agent").cast(pl.String), "kind").collect()
    types = everything.events.select("trace", "seq", pl.col("type").cast(pl.String)).collect()
    for layout in ("verl", "trl"):
        table = ot.trainers.trainer_table(everything, credits, layout=layout)
        assert table.height > 5_000
        assert set(table.join(kinds, on=["trace", "agent"], how="left")["kind"]) == {"agent"}
        own = (
            table.select("trace", "turn", "agent", seq="seqs").explode("seq").join(types, on=["trace", "seq"])
        )
        said = ["orchestrator_decision", "spawn", "message", "tool_call", "return", "aggregate"]
        wrote = own.group_by("trace", "turn").agg(pl.col("type").is_in(said).any())
        assert wrote.height == table.height and wrote["type"].all()
        # what a terminal gave back alone is a turn, but nothing to train on
        assert 100 < credits["unit_id"].count() - table.height < 300
        steps = table.group_by("trace", "agent", maintain_order=True).agg("agent_step")["agent_step"]
        assert all(own == list(range(len(own))) for own in steps.to_list())


def test_an_event_of_every_format_leads_back_to_its_record(everything: ot.Corpus) -> None:
    names = everything.traces.select(pl.col("importer").cast(pl.String), "trace", "n_events").collect()
    firsts = names.sort("trace").group_by("importer", maintain_order=True).agg(pl.all().first())
    assert firsts.height > 8
    for importer, trace, n in firsts.rows():
        for seq in {0, n // 2, n - 1}:
            source = everything.source(trace, seq)
            assert isinstance(json.loads(source.text), dict), (importer, trace, seq)
            assert len(source.text.encode()) == source.length > 10 and source.line > 0
