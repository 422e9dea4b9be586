"""Recordings in a bucket are read as those of a folder, whatever the network does meanwhile."""

import gzip
import re
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import polars as pl
import pytest
from typer.testing import CliRunner

import orchestrace as ot
from orchestrace.cli import app
from orchestrace.storage import fetching
from samples import on_disk
from storage import servers
from storage.servers import Bucket, named_as, proxied, rotating

pytestmark = pytest.mark.every_nth(3)


@pytest.fixture
def recordings(tmp_path: Path, bucket: Bucket) -> Path:
    """Recordings of every kind on disk, and the same below ``s3://runs/rec``."""
    folder = tmp_path / "rec"
    (folder / "spans").mkdir(parents=True)
    on_disk.write_recordings(folder, events=2000)
    on_disk.write_spans(folder / "spans", traces=12, files=3)
    (folder / "notes.txt").write_text("no recording")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "a.jsonl").write_bytes(on_disk.lines(on_disk.document("hidden")))
    bucket.put_folder(folder, "rec")
    return folder


def assert_same(corpus: ot.Corpus, local: ot.Corpus, folder: Path, url: str = "s3://runs/rec") -> None:
    """The tables are those of the files on disk, but for the names of the files."""
    on_disk.assert_rows(corpus, named_as(on_disk.rows(local), folder, url))


@pytest.mark.parametrize("below", ["", "/*.jsonl", "/**/*.jsonl", "/d", "/spans/spans-0?.jsonl", "/e.json"])
def test_a_source_is_read_as_on_disk(recordings: Path, tmp_path: Path, below: str) -> None:
    corpus, local = ot.read_traces(f"s3://runs/rec{below}"), ot.read_traces(f"{recordings}{below}")
    assert len(corpus) > 0
    assert_same(corpus, local, recordings)
    assert not list((tmp_path / "scratch").iterdir())


def test_objects_and_files_are_read_in_the_order_that_is_given(recordings: Path) -> None:
    mixed = ot.read_traces(["s3://runs/rec/c.json", recordings / "e.json", "s3://runs/rec/d"])
    local = ot.read_traces([recordings / "c.json", recordings / "e.json", recordings / "d"])
    columns = ["trace", "trace_id", "line", "offset"]
    assert mixed.traces.select(columns).collect().equals(local.traces.select(columns).collect())
    with open(recordings / "e.json", "rb") as stream, pytest.raises(ot.ParameterError, match="of their own"):
        ot.read_traces(["s3://runs/rec/c.json", stream])


def test_scans_are_those_of_files(recordings: Path) -> None:
    files = [recordings / "b.jsonl.gz", recordings / "c.json"]
    urls = ["s3://runs/rec/b.jsonl.gz", "s3://runs/rec/c.json"]
    events, local = ot.scan_events(urls), ot.scan_events(files)
    assert events.collect().equals(local.collect())
    calls = pl.col("type") == "tool_call"
    assert events.filter(calls).head(3).collect().equals(local.filter(calls).head(3).collect())
    named = ot.scan_traces(urls).select(pl.col("file").cast(pl.String).unique()).collect()
    assert set(named["file"]) == set(urls)


def test_an_event_leads_to_its_record(recordings: Path, tmp_path: Path) -> None:
    corpus, local = ot.read_traces("s3://runs/rec"), ot.read_traces(recordings)
    for trace in (0, len(corpus) // 2, len(corpus) - 1):
        found, expected = corpus.source(trace, 1), local.source(trace, 1)
        assert found.file == expected.file.replace(str(recordings), "s3://runs/rec")
        assert (found.line, found.offset, found.text) == (expected.line, expected.offset, expected.text)
    corpus.write_quarantined(tmp_path / "found")
    local.write_quarantined(tmp_path / "expected")
    assert (tmp_path / "found").read_bytes() == (tmp_path / "expected").read_bytes()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("start", range(3))
def test_faults_on_the_way_change_nothing(
    recordings: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    monkeypatch.setattr(fetching, "CHUNK", 5_000)  # so that an object comes in many ranges
    with proxied(bucket.endpoint, rotating(start)) as proxy:
        corpus = ot.read_traces("s3://runs/rec")
        assert {fault for _, _, fault in proxy.done} == {None, *servers.FAULTS}
    assert_same(corpus, ot.read_traces(recordings), recordings)


def test_an_object_that_changes_meanwhile_is_refused(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("one.jsonl", on_disk.lines(on_disk.document("a")))

    def plan(method: str, path: str) -> None:
        if method == "GET" and "one.jsonl" in path:
            bucket.put("one.jsonl", on_disk.lines(on_disk.document("b")))

    said = r"'s3://runs/one\.jsonl' has changed since it was listed"
    with proxied(bucket.endpoint, plan), pytest.raises(ot.InputError, match=said):
        ot.read_traces("s3://runs/one.jsonl")


def test_web_addresses_are_read_with_and_without_ranges(
    recordings: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signed address stands for a server that allows reading alone, and its signature is shown nowhere."""
    monkeypatch.setattr(fetching, "CHUNK", 10_000)
    local = ot.read_traces(recordings / "c.json")
    signed = bucket.client.generate_presigned_url("get_object", {"Bucket": "runs", "Key": "rec/c.json"})
    bucket.client.put_object_acl(Bucket="runs", Key="rec/c.json", ACL="public-read")
    place = f"http://{urlsplit(bucket.endpoint).netloc}/runs/rec"
    assert_same(ot.read_traces(signed), local, recordings, place)
    with servers.plain_files(recordings) as url:
        corpus = ot.read_traces(f"{url}/c.json")
        assert_same(corpus, local, recordings, url)
        with pytest.raises(ot.InputError, match=r"no such object: .*http:// has no listings: name each file"):
            ot.read_traces(f"{url}/none.jsonl")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://nobody/a.jsonl", "'s3://nobody/a.jsonl': there is no bucket 's3://nobody': create it first"),
        ("s3://runs/none.jsonl", "no such object or prefix: 's3://runs/none.jsonl'"),
        ("s3://runs/*.none", "no object matches 's3://runs/*.none'"),
        ("s3://runs/texts", "no recording (.eval, .json"),
    ],
)
def test_what_is_not_there_is_one_line(bucket: Bucket, url: str, said: str) -> None:
    bucket.put("texts/a.txt", b"a")
    with pytest.raises(ot.InputError, match=re.escape(said)):
        ot.read_traces(url)
    done = CliRunner().invoke(app, ["describe", url])
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ") and said in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("deny", "access denied to read it: check AWS_ACCESS_KEY_ID"),
        ("refuse", "the server answers with 503"),
        ("drop", "cannot be read: "),
        ("gone", "no connection to the server"),
    ],
)
def test_a_server_that_refuses_is_one_line_without_secrets(bucket: Bucket, fault: str, said: str) -> None:
    with proxied(bucket.endpoint, lambda method, path: fault), pytest.MonkeyPatch.context() as patch:
        if fault == "gone":
            patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        with pytest.raises(ot.InputError, match=re.escape(said)) as caught:
            ot.read_traces("s3://runs/a.jsonl")
    shown = str(caught.value)
    assert "AKIDTHAT" not in shown and "a secret" not in shown and "\n" not in shown
    # A traceback would show what a cause says.
    assert caught.value.__suppress_context__ and caught.value.__cause__ is None


def test_a_full_disk_is_one_line(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.put("a.jsonl", on_disk.lines(on_disk.document("a")))
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10}))
    with pytest.raises(ot.InputError, match="set TMPDIR to a folder with more room"):
        ot.read_traces("s3://runs/a.jsonl")


def test_empty_objects_and_keys_with_spaces_are_files_like_others(bucket: Bucket) -> None:
    bucket.put("odd/empty.jsonl", b"")
    bucket.put("odd/a name ü.jsonl", on_disk.lines(on_disk.document("a")))
    corpus = ot.read_traces("s3://runs/odd")
    assert corpus.traces.select(pl.col("file").cast(pl.String)).collect()["file"].to_list() == [
        "s3://runs/odd/a name ü.jsonl"
    ]


def test_a_mapping_is_checked_against_objects(bucket: Bucket, tmp_path: Path) -> None:
    line = b'{"run": 1, "ev": "llm", "text": "hi", "tokens": {"in": 7}}\n'
    house = {
        "trace": {"id": "/run"},
        "step": {"kind": "=response", "content": "/text", "tokens_in": "/tokns"},
    }
    bucket.put("house/a.jsonl", line)
    (tmp_path / "a.jsonl").write_bytes(line)
    found = ot.mapping.check(house, "s3://runs/house/a.jsonl")
    for name, frame in ot.mapping.check(house, tmp_path / "a.jsonl").items():
        assert found[name].equals(frame), name
    corpora = [ot.read_traces(one, mapping=house) for one in ("s3://runs/house", tmp_path / "a.jsonl")]
    assert corpora[0].mapping_counts.equals(corpora[1].mapping_counts)


def test_compressed_entries_of_archives_are_read_from_objects(bucket: Bucket, tmp_path: Path) -> None:
    path = tmp_path / "rec" / "runs.zip"
    path.parent.mkdir()
    text = b"log line\n" + on_disk.lines(on_disk.document("a"), on_disk.document("b"))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.jsonl.gz", gzip.compress(text))
        archive.writestr("README", "words")
    bucket.put_folder(path.parent, "rec")
    with pytest.warns(UserWarning, match=r"skipped 1 entry of an archive: s3://runs/rec/runs.zip/README "):
        corpus = ot.read_traces("s3://runs/rec")
    with pytest.warns(UserWarning, match="skipped 1 entry of an archive"):
        local = ot.read_traces(path)
    assert len(corpus) == 2 and corpus.records["quarantined"] == 1
    assert_same(corpus, local, path.parent)
    source = corpus.source(1, 0)
    assert (source.file, source.line) == ("s3://runs/rec/runs.zip/a.jsonl.gz", 3)
    assert text[source.offset :].startswith(source.text.encode())
