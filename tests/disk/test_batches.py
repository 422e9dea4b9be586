"""Files of batches: an ingest that was cut short is read from them, repaired, and ended like any other."""

import io
import json
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace.base.schema import SCHEMAS
from orchestrace.corpus.on_disk import MANIFEST
from orchestrace.disk import batches, manifest, work
from orchestrace.disk.manifest import Manifest, Part, StoredFile
from samples import on_disk

PARTITIONS = 5


@dataclass
class Unfinished:
    """Inputs, a corpus of them that was cut short, and the rows that it has when it is whole."""

    inputs: Path
    folder: Path
    rows: dict[str, pl.DataFrame]

    def copy(self, folder: Path) -> Path:
        shutil.copytree(self.folder, folder)
        return folder


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory) -> Unfinished:
    place = tmp_path_factory.mktemp("batches")
    on_disk.write_recordings(place / "in")
    with pytest.MonkeyPatch.context() as patch:
        on_disk.make_small(patch.setattr)
        on_disk.cut_short(patch, place / "in", place / "cut", partitions=PARTITIONS, fields=on_disk.FIELDS)
        ot.ingest(place / "in", place / "whole", partitions=PARTITIONS, fields=on_disk.FIELDS)
    return Unfinished(place / "in", place / "cut", on_disk.rows(ot.read_corpus(place / "whole")))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    on_disk.make_small(monkeypatch.setattr)


def listed(folder: Path) -> Manifest:
    made = manifest.load(folder)
    assert made is not None
    return made


def test_a_batch_is_few_files(unfinished: Unfinished) -> None:
    """As many as groups of partitions, whatever tables there are; each byte of them is of one piece."""
    made = listed(unfinished.folder)
    shards = {part.shard for parts in made.parts.values() for part in parts}
    assert len(shards) > 5
    groups = -(-PARTITIONS // batches.TOGETHER)
    assert len(shards) < len(made.batches) <= len(shards) * groups
    assert not list(unfinished.folder.glob("part=*"))
    for batch in made.batches:
        parts = [part for of in made.parts.values() for part in of if part.batch == batch.name]
        pieces = sorted(piece for part in parts for piece in part.pieces.values())
        end = 0
        for offset, length in pieces:
            assert offset == end
            end += length
        assert end == (unfinished.folder / "batches" / f"{batch.name}.arrows").stat().st_size
        assert batch.rows == {"batches": sum(sum(part.rows.values()) for part in parts)}


def test_the_rows_can_be_read_before_they_are_merged(unfinished: Unfinished) -> None:
    corpus = ot.read_corpus(unfinished.folder)
    on_disk.assert_unmerged(on_disk.rows(corpus), unfinished.rows)
    events = unfinished.rows["events"]
    asked = pl.col("type") == "message"
    assert_frame_equal(
        corpus.events.filter(asked).select("trace", "seq", "id").sort("trace", "seq").collect(),
        events.filter(asked).select("trace", "seq", "id").sort("trace", "seq"),
    )
    assert corpus.events.select(pl.len()).collect(engine="streaming").item() == events.height
    assert corpus.events.head(7).collect().height == 7
    in_memory = ot.read_traces(unfinished.inputs, fields=on_disk.FIELDS)
    assert ot.describe(corpus)["formats"]["events"].sum() == ot.describe(in_memory)["formats"]["events"].sum()


def test_verbs_give_the_same_before_and_after_merging(unfinished: Unfinished, tmp_path: Path) -> None:
    folder = unfinished.copy(tmp_path / "corpus")
    order = ["trace", "unit_id"]
    before = ot.credit(ot.read_corpus(folder, memory="64MiB"), method="flow", unit="event").sort(order)
    ot.ingest(unfinished.inputs, folder)
    after = ot.credit(ot.read_corpus(folder, memory="64MiB"), method="flow", unit="event").sort(order)
    assert_frame_equal(before, after, check_exact=True, categorical_as_str=True)


def test_the_next_call_merges_them(unfinished: Unfinished, tmp_path: Path) -> None:
    folder = unfinished.copy(tmp_path / "corpus")
    report = ot.ingest(unfinished.inputs, folder)
    assert set(report.inputs["status"]) == {"unchanged"}
    on_disk.assert_tidy(folder)
    assert not listed(folder).batches and not (folder / "batches").exists()
    on_disk.assert_rows(ot.read_corpus(folder), unfinished.rows)


def test_what_comes_in_one_batch_is_written_as_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.jsonl").write_bytes(on_disk.generated("a", 60, 1))
    on_disk.cut_short(monkeypatch, tmp_path / "in.jsonl", tmp_path / "out", partitions=3)
    made = listed(tmp_path / "out")
    assert not made.batches and made.parts
    assert all(part.batch is None for parts in made.parts.values() for part in parts)


def test_large_parts_of_many_batches_are_files_of_their_own(
    unfinished: Unfinished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever way a batch is written, the corpus is the same."""
    monkeypatch.setattr(work, "ROW_GROUP", 1)
    out = tmp_path / "out"
    on_disk.cut_short(monkeypatch, unfinished.inputs, out, partitions=PARTITIONS, fields=on_disk.FIELDS)
    made = listed(out)
    assert len({part.shard for parts in made.parts.values() for part in parts}) > 5 and not made.batches
    ot.ingest(unfinished.inputs, out)
    on_disk.assert_tidy(out)
    on_disk.assert_rows(ot.read_corpus(out), unfinished.rows)


def test_an_input_that_changes_before_they_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of pieces that are no longer valid are left out, unmerged and merged."""
    source = tmp_path / "in"
    source.mkdir()
    for number, name in enumerate("abc"):
        (source / f"{name}.jsonl").write_bytes(on_disk.generated(name, 900, number))
    options = {"partitions": PARTITIONS, "fields": on_disk.FIELDS}
    on_disk.cut_short(monkeypatch, source, tmp_path / "out", **options)
    on_disk.touch(source / "b.jsonl", on_disk.generated("b", 700, 9))
    on_disk.cut_short(monkeypatch, source, tmp_path / "out")
    made = listed(tmp_path / "out")
    assert any(made.outdated(part) for parts in made.parts.values() for part in parts)
    ot.ingest(source, tmp_path / "fresh", **options)
    fresh = ot.read_corpus(tmp_path / "fresh")
    on_disk.assert_unmerged(on_disk.content(ot.read_corpus(tmp_path / "out")), on_disk.content(fresh))
    ot.ingest(source, tmp_path / "out")
    on_disk.assert_tidy(tmp_path / "out")
    on_disk.assert_content(ot.read_corpus(tmp_path / "out"), fresh)


def test_growth_in_many_batches(tmp_path: Path) -> None:
    """Parts that are files and parts that are pieces are merged together."""
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.jsonl").write_bytes(on_disk.generated("a", 900, 1))
    ot.ingest(source, tmp_path / "out", partitions=PARTITIONS, fields=on_disk.FIELDS)
    (source / "b.jsonl").write_bytes(on_disk.generated("b", 2500, 2))
    ot.ingest(source, tmp_path / "out")
    on_disk.assert_tidy(tmp_path / "out")
    ot.ingest(source, tmp_path / "fresh", partitions=PARTITIONS, fields=on_disk.FIELDS)
    on_disk.assert_content(ot.read_corpus(tmp_path / "out"), ot.read_corpus(tmp_path / "fresh"))


def damage(path: Path, way: str) -> None:
    data = path.read_bytes()
    if way == "gone":
        path.unlink()
    else:
        place = random.Random(way).randrange(len(data))
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])


@pytest.mark.parametrize("way", ["gone", "flipped"])
def test_damage_is_named_and_repaired(unfinished: Unfinished, tmp_path: Path, way: str) -> None:
    folder = unfinished.copy(tmp_path / "corpus")
    name = sorted(path.name for path in (folder / "batches").iterdir())[3]
    damage(folder / "batches" / name, way)
    with pytest.raises(ot.InputError) as refused:
        on_disk.rows(ot.read_corpus(folder))
    message = str(refused.value)
    assert f"batches/{name}' is damaged (rows of batch " in message and "\n" not in message
    assert "repair it with ingest(" in message
    report = ot.ingest(unfinished.inputs, folder)
    assert report.repaired == (f"batches/{name}",)
    on_disk.assert_tidy(folder)
    on_disk.assert_rows(ot.read_corpus(folder), unfinished.rows)


def test_damage_without_its_inputs_changes_nothing(unfinished: Unfinished, tmp_path: Path) -> None:
    folder = unfinished.copy(tmp_path / "corpus")
    shutil.copytree(unfinished.inputs, tmp_path / "in")
    for entry in listed(folder).inputs:
        assert Path(entry.path).exists()
    path = sorted((folder / "batches").iterdir())[0]
    damage(path, "flipped")
    before = on_disk.files(folder)
    made = json.loads((folder / MANIFEST).read_text())
    for entry in made["inputs"]:
        entry["path"] = entry["path"].replace(str(unfinished.inputs), str(tmp_path / "moved"))
    on_disk.rewrite_manifest(folder, inputs=made["inputs"])
    before = on_disk.files(folder)
    with pytest.raises(ot.InputError, match=r"is damaged .* which is gone"):
        ot.ingest(tmp_path / "in", folder)
    assert on_disk.files(folder) == before


def test_sql_waits_for_the_end_of_the_ingest(unfinished: Unfinished, tmp_path: Path) -> None:
    folder = unfinished.copy(tmp_path / "corpus")
    with pytest.raises(ot.InputError, match=r"was cut short.*repeat the same ingest") as refused:
        ot.disk.sql_views(ot.read_corpus(folder))
    assert "\n" not in str(refused.value)
    ot.ingest(unfinished.inputs, folder)
    assert "read_parquet" in ot.disk.sql_views(ot.read_corpus(folder))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda made: made["batches"].clear(), "lies in a batch that is not listed"),
        (lambda made: made["batches"][0]["files"].clear(), "has no checksum"),
        (lambda made: made["batches"].append({**made["batches"][0], "name": "../x-00"}), "none of a corpus"),
        (lambda made: made["parts"]["001"][0]["pieces"].clear(), "does not say where its tables lie"),
        (
            lambda made: made["parts"]["001"][0]["pieces"].update(traces=[0, 2**62]),
            "lies beyond the end of its batch",
        ),
        (lambda made: made["parts"].update({"x": made["parts"]["001"]}), "partition 'x' lies in a batch"),
        (lambda made: made["index"][0].update(batch="000001-00"), "no partition lies in a batch"),
    ],
)
def test_a_manifest_that_cannot_be(unfinished: Unfinished, tmp_path: Path, change: Any, fault: str) -> None:
    folder = unfinished.copy(tmp_path / "corpus")
    made = json.loads((folder / MANIFEST).read_text())
    change(made)
    on_disk.rewrite_manifest(folder, parts=made["parts"], batches=made["batches"], index=made["index"])
    with pytest.raises(ot.SchemaError, match=fault) as refused:
        ot.read_corpus(folder)
    assert "\n" not in str(refused.value)


ENGINES: Final[tuple[Literal["in-memory", "streaming"], ...]] = ("in-memory", "streaming")
CODES = SCHEMAS["findings"]["code"]
FEWER = pl.Enum(CODES.categories[:3])  # type: ignore[attr-defined]


@settings(max_examples=60, deadline=None)
@given(
    frames=st.lists(
        st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2), st.booleans()), max_size=6), max_size=5
    ),
    columns=st.lists(st.sampled_from(["trace", "code", "count", "message"]), min_size=1, unique=True),
    least=st.none() | st.integers(0, 20),
    rows=st.none() | st.integers(0, 12),
)
def test_a_scan_of_pieces_is_their_rows(
    tmp_path_factory: pytest.TempPathFactory,
    frames: list[list[tuple[int, int, bool]]],
    columns: list[str],
    least: int | None,
    rows: int | None,
) -> None:
    """Each with the columns and words that its release had, against frames that are put together whole."""
    folder = tmp_path_factory.mktemp("pieces")
    schema = pl.Schema({name: SCHEMAS["findings"][name] for name in ("trace", "code", "count", "message")})
    written, pieces, expected = bytearray(), [], [pl.DataFrame(schema=schema)]
    for number, drawn in enumerate(frames):
        whole = pl.DataFrame(
            {
                "trace": [trace for trace, _, _ in drawn],
                "code": [FEWER.categories[code] for _, code, _ in drawn],
                "count": range(len(drawn)),
                "message": [None if null else f"{number}" for _, _, null in drawn],
            },
            schema=schema,
        )
        older = number % 2 == 1
        frame = whole.drop("message").with_columns(pl.col("code").cast(FEWER)) if older else whole
        expected.append(whole.with_columns(message=pl.lit(None, pl.String)) if older else whole)
        stream = io.BytesIO()
        frame.write_ipc_stream(stream, compression="lz4")
        part = Part(f"{number:06}", number, {"findings": frame.height}, 0, 20, batch="000001-00")
        place = (len(written), len(stream.getvalue()))
        file = StoredFile("batches/000001-00.arrows", "findings", "000", part, place)
        pieces.append((file, frame.schema))
        written += stream.getvalue()
    (folder / "batches").mkdir()
    (folder / "batches/000001-00.arrows").write_bytes(written)
    for file, present in pieces:
        assert batches.columns_of_piece(folder, file) == present
    scanned, whole = batches.scan_pieces(folder, pieces, schema), pl.concat(expected)
    if rows is not None:
        scanned, whole = scanned.head(rows), whole.head(rows)
    if least is not None:
        scanned, whole = scanned.filter(pl.col("trace") >= least), whole.filter(pl.col("trace") >= least)
    for engine in ENGINES:
        assert_frame_equal(scanned.select(columns).collect(engine=engine), whole.select(columns))
    window = (5, 15)
    assert_frame_equal(
        batches.read_pieces(folder, pieces, schema, window),
        pl.concat(expected).filter(pl.col("trace").is_between(*window)),
    )
