"""A corpus in a bucket is the one that a folder would have, whatever happens on the way."""

import json
import os
import pickle
import re
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import orchestrace as ot
from orchestrace.cli import app
from orchestrace.disk import manifest
from orchestrace.disk.home import Home
from orchestrace.storage.addresses import address_of
from samples import on_disk
from storage import servers
from storage.servers import Bucket, named_as, proxied, rotating

pytestmark = pytest.mark.every_nth(3)
OUT = "s3://runs/corpus"
OPTIONS = {"partitions": 3, "threads": 2, "fields": on_disk.FIELDS}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several batches, parts and merges."""
    on_disk.make_small(monkeypatch.setattr, slice_rows=700)


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """Recordings of every kind."""
    folder = tmp_path / "rec"
    (folder / "spans").mkdir(parents=True)
    on_disk.write_recordings(folder, events=2500)
    on_disk.write_spans(folder / "spans", traces=8, files=2)
    return folder


@pytest.fixture
def expected(recordings: Path, tmp_path: Path) -> ot.Corpus:
    """The corpus that a folder has."""
    ot.ingest(recordings, tmp_path / "local", **OPTIONS)
    return ot.read_corpus(tmp_path / "local", memory="64MiB")


def opened(monkeypatch: pytest.MonkeyPatch, cache: Path) -> ot.Corpus:
    """The corpus as a machine opens it that has no copies yet."""
    monkeypatch.setenv("ORCHESTRACE_CACHE", str(cache))
    return ot.read_corpus(OUT, memory="64MiB")


def assert_tidy(bucket: Bucket) -> None:
    """The bucket has the objects that the manifest lists and no other."""
    made = manifest.load_home(Home(address_of(OUT)))
    assert made is not None and made.complete
    listed = {f"corpus/{name}" for name in made.files()}
    assert set(bucket.keys("corpus/")) == listed | {"corpus/manifest.json"}


def test_a_corpus_is_the_one_of_a_folder(
    recordings: Path, expected: ot.Corpus, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put_folder(recordings, "rec")
    report = ot.ingest("s3://runs/rec", OUT, **OPTIONS)
    assert report.path == OUT and set(report.inputs["status"]) == {"new"}
    assert_tidy(bucket)
    corpus = opened(monkeypatch, tmp_path / "another")
    tables = named_as(on_disk.rows(expected), recordings, "s3://runs/rec")
    on_disk.assert_rows(corpus, tables)
    for verb in (ot.metrics, lambda one: ot.credit(one, method="flow", unit="agent")):
        assert verb(corpus).equals(verb(expected))
    assert not list((tmp_path / "scratch").iterdir())
    assert corpus.source(0, 1).text == expected.source(0, 1).text
    again = ot.ingest("s3://runs/rec", OUT, **OPTIONS)
    assert set(again.inputs["status"]) == {"unchanged"} and again.records == report.records


def test_inputs_that_come_and_change_are_added_and_replaced(
    recordings: Path, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put_folder(recordings, "rec")
    local = tmp_path / "local"
    for folder, out in (("s3://runs/rec", OUT), (recordings, local)):
        ot.ingest(f"{folder}/d", out, **OPTIONS)
    changed = on_disk.lines(on_disk.document("noted", 4), on_disk.document("other"))
    on_disk.touch(recordings / "d" / "ünï.jsonl", changed)
    bucket.put("rec/d/ünï.jsonl", changed)
    for folder, out in (("s3://runs/rec", OUT), (recordings, local)):
        report = ot.ingest(folder, out, **OPTIONS)
        assert set(report.inputs["status"]) == {"new", "replaced", "unchanged"}
    assert_tidy(bucket)
    tables = named_as(on_disk.rows(ot.read_corpus(local)), recordings, "s3://runs/rec")
    on_disk.assert_rows(opened(monkeypatch, tmp_path / "another"), tables)


@pytest.mark.nightly
@pytest.mark.every_nth(6)
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("start", range(6))
def test_faults_on_the_way_change_nothing(
    recordings: Path,
    expected: ot.Corpus,
    bucket: Bucket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    start: int,
) -> None:
    """Answers that are lost after the manifest was written are among them."""
    bucket.put_folder(recordings, "rec")
    with proxied(bucket.endpoint, rotating(start, every=8)) as proxy:
        ot.ingest("s3://runs/rec", OUT, **OPTIONS)
        assert_tidy(bucket)
        corpus = opened(monkeypatch, tmp_path / "another")
        on_disk.assert_rows(corpus, named_as(on_disk.rows(expected), recordings, "s3://runs/rec"))
        assert {fault for _, _, fault in proxy.done} == {None, *servers.FAULTS}


@pytest.mark.nightly
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", ["lose", "stall", "drop"])
def test_a_manifest_whose_answer_is_lost_is_written_once(
    recordings: Path, expected: ot.Corpus, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    seen: set[int] = set()

    def plan(method: str, path: str) -> str | None:
        if method != "PUT" or not path.endswith("manifest.json"):
            return None
        seen.add(len(seen))
        return fault if len(seen) % 2 else None

    with proxied(bucket.endpoint, plan):
        ot.ingest(recordings, OUT, **OPTIONS)
    assert len(seen) > 2
    on_disk.assert_rows(ot.read_corpus(OUT), on_disk.rows(expected))


@pytest.mark.nightly
def test_files_are_copied_once_and_the_oldest_go_first(
    recordings: Path, expected: ot.Corpus, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ot.ingest(recordings, OUT, **OPTIONS)
    with proxied(bucket.endpoint, lambda method, path: None) as proxy:
        corpus = opened(monkeypatch, tmp_path / "another")
        assert not [path for _, path, _ in proxy.done if path.endswith(".parquet")]
        first = ot.credit(corpus, method="flow", unit="agent")
        read = {path for _, path, _ in proxy.done if path.endswith(".parquet")}
        assert read and not [path for path in read if "/agents/" in path]
        proxy.done.clear()
        ot.credit(ot.read_corpus(OUT, memory="64MiB"), method="flow", unit="agent")
        assert not [path for _, path, _ in proxy.done if path.endswith(".parquet")]
        kept = [path.stat().st_size for path in (tmp_path / "another").rglob("*.parquet")]
        monkeypatch.setenv("ORCHESTRACE_CACHE_LIMIT", str(max(kept)))
        corpus = opened(monkeypatch, tmp_path / "small")
        assert ot.credit(corpus, method="flow", unit="agent").equals(first)
        left = sum(path.stat().st_size for path in (tmp_path / "small").rglob("*.parquet"))
        assert left < sum(kept)
    monkeypatch.setenv("ORCHESTRACE_CACHE_LIMIT", "some")
    with pytest.raises(ot.ParameterError, match="ORCHESTRACE_CACHE_LIMIT is 'some', expected a number"):
        on_disk.rows(opened(monkeypatch, tmp_path / "third"))


def test_a_corpus_that_was_cut_short_is_read_and_ended(
    recordings: Path, expected: ot.Corpus, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of batches are objects like others, and copies of them go when there is no room."""
    on_disk.cut_short(monkeypatch, recordings, OUT, **OPTIONS)
    whole = {key for key in bucket.keys("corpus/batches/") if key.endswith(".arrows")}
    assert whole
    rows = on_disk.rows(expected)
    on_disk.assert_unmerged(on_disk.rows(opened(monkeypatch, tmp_path / "another")), rows)
    copies = list((tmp_path / "another").rglob("*.arrows"))
    assert len(copies) == len(whole)
    monkeypatch.setenv("ORCHESTRACE_CACHE_LIMIT", str(sum(path.stat().st_size for path in copies) // 2))
    on_disk.assert_unmerged(on_disk.rows(opened(monkeypatch, tmp_path / "small")), rows)
    assert len(list((tmp_path / "small").rglob("*.arrows"))) < len(whole)
    monkeypatch.delenv("ORCHESTRACE_CACHE_LIMIT")
    ot.ingest(recordings, OUT, **OPTIONS)
    assert_tidy(bucket)
    on_disk.assert_rows(opened(monkeypatch, tmp_path / "third"), rows)


@pytest.mark.nightly
def test_damage_in_the_bucket_is_told_and_repaired(
    recordings: Path, expected: ot.Corpus, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, said in enumerate(["its BLAKE3 is", "bytes, expected", "it is gone, expected"]):
        ot.ingest(recordings, OUT, **OPTIONS)
        key = next(key for key in bucket.keys("corpus/") if "/events/" in key)
        data = bytearray(bucket.get(key))
        data[len(data) // 2] ^= 1
        if number == 2:
            bucket.client.delete_object(Bucket="runs", Key=key)
        else:
            bucket.put(key, bytes(data[: len(data) - 9 * number]))
        with pytest.raises(ot.InputError, match=re.escape(f"'s3://runs/{key}' is damaged")) as caught:
            on_disk.rows(opened(monkeypatch, tmp_path / f"another {number}"))
        assert said in str(caught.value) and f"repair it with ingest(inputs, '{OUT}')" in str(caught.value)
        report = ot.ingest(recordings, OUT, **OPTIONS)
        assert report.repaired == (key.removeprefix("corpus/"),)
        on_disk.assert_rows(ot.read_corpus(OUT), on_disk.rows(expected))
        assert_tidy(bucket)


def test_a_damaged_copy_is_fetched_again(
    recordings: Path, expected: ot.Corpus, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ot.ingest(recordings, OUT, **OPTIONS)
    on_disk.rows(opened(monkeypatch, tmp_path / "another"))
    copies = list((tmp_path / "another").rglob("*.parquet"))
    assert copies
    for path in copies:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    on_disk.assert_rows(ot.read_corpus(OUT), on_disk.rows(expected))


def test_of_two_ingests_the_later_one_goes_on(
    recordings: Path, expected: ot.Corpus, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one runs, from beginning to end, when the first has written parts and not their manifest."""
    other = servers.ingest_elsewhere(recordings, OUT, tmp_path / "elsewhere")
    manifests = 0

    def plan(method: str, path: str) -> None:
        nonlocal manifests
        if method == "PUT" and path.endswith("manifest.json"):
            manifests += 1
            if manifests == 3:
                other(bucket.endpoint)

    said = r"another ingest is writing to .* and has taken over"
    with proxied(bucket.endpoint, plan), pytest.raises(ot.InputError, match=said):
        ot.ingest(recordings, OUT, **OPTIONS)
    on_disk.assert_rows(opened(monkeypatch, tmp_path / "another"), on_disk.rows(expected))
    ot.ingest(recordings, OUT, **OPTIONS)
    assert_tidy(bucket)


def test_an_open_corpus_goes_to_another_machine(
    recordings: Path, expected: ot.Corpus, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ot.ingest(recordings, OUT, **OPTIONS)
    packed = pickle.dumps(ot.read_corpus(OUT).filter(pl.col("trace") < 50))
    assert b"a secret" not in packed
    monkeypatch.setenv("ORCHESTRACE_CACHE", str(tmp_path / "another"))
    on_disk.assert_rows(pickle.loads(packed), on_disk.rows(expected.filter(pl.col("trace") < 50)))
    assert (tmp_path / "another").is_dir()


@pytest.mark.parametrize(
    ("out", "kind", "said"),
    [
        (
            "https://host.org/corpus",
            ot.ParameterError,
            "a corpus cannot be written to https://: give",
        ),
        ("s3://nobody/corpus", ot.InputError, "there is no bucket 's3://nobody': create it first"),
        ("s3://runs/taken", ot.ParameterError, "folder 's3://runs/taken' is not empty and is not a corpus"),
    ],
)
def test_where_a_corpus_cannot_be_is_one_line(
    bucket: Bucket, recordings: Path, out: str, kind: type[Exception], said: str
) -> None:
    bucket.put("taken/a.txt", b"a")
    with pytest.raises(kind, match=re.escape(said)):
        ot.ingest(recordings, out, **OPTIONS)
    with pytest.raises(ot.InputError, match="no corpus in 's3://runs/taken': it has no manifest"):
        ot.read_corpus("s3://runs/taken")


def test_commands_take_addresses(recordings: Path, bucket: Bucket) -> None:
    bucket.put_folder(recordings, "rec")
    run = CliRunner().invoke
    done = run(app, ["ingest", "s3://runs/rec/d/who.jsonl", "-o", OUT, "--json"])
    assert done.exit_code == 0 and json.loads(done.stdout)["records"]["used"] == 8
    shown = [
        run(app, ["credit", url, "--method", "uniform", "--json"])
        for url in (OUT, "s3://runs/rec/d/who.jsonl")
    ]
    assert [one.exit_code for one in shown] == [0, 0] and shown[0].stdout == shown[1].stdout
    done = run(app, ["describe", "s3://runs"])
    assert done.exit_code == 0, done.stderr  # the corpus below is no recording
    done = run(app, ["ingest", "s3://runs/rec", "-o", "s3://nobody/corpus"])
    assert done.exit_code == 1 and done.stderr.startswith("error: 's3://nobody/corpus")
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in done.stderr
