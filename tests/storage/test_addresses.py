"""Addresses and patterns; what is said without the extra."""

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from orchestrace.base.extras import install
from orchestrace.corpus import reading
from orchestrace.storage import objects
from orchestrace.storage.addresses import address_of
from samples.examples import examples

NAMES = st.text("ab.1*[]-", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))


@pytest.mark.parametrize(
    ("url", "scheme", "place", "key"),
    [
        ("s3://lab/runs/a.jsonl", "s3", "lab", "runs/a.jsonl"),
        ("s3://lab/runs/", "s3", "lab", "runs"),
        ("S3://lab", "s3", "lab", ""),
        ("gs://lab/a?b.jsonl", "gs", "lab", "a?b.jsonl"),
        ("az://box/a b", "az", "box", "a b"),
        ("http://h.org:8080/a%20b/c.jsonl?x=1", "http", "h.org:8080", "a b/c.jsonl"),
        ("https://me:pw@h.org/c.jsonl", "https", "h.org", "c.jsonl"),
    ],
)
def test_an_address_has_its_parts(url: str, scheme: str, place: str, key: str) -> None:
    address = address_of(url)
    assert (address.scheme, address.place, address.key) == (scheme, place, key)


def test_nobody_is_shown_credentials() -> None:
    address = address_of("https://me:hidden1@h.org/c.jsonl?X-Amz-Signature=hidden2")
    assert "hidden" not in f"{address.url} {address!r}"
    assert address_of("https://h.org/c.jsonl").url == address.url


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "ftp://host/a",
            "unknown scheme 'ftp://', expected s3://, gs://, az://, http://, https:// or a path",
        ),
        ("s3a://lab/a", "did you mean s3://?"),
        ("s3://", "names no bucket"),
        ("az:///a", "names no container"),
        ("https:///a", "names no host"),
        ("http://h:port/a", "the web address is invalid"),
        ("s3://KEY:SECRET@lab/a", "the address begins with credentials"),
    ],
)
def test_what_is_no_address_is_one_line(url: str, said: str) -> None:
    for call in (ot.read_traces, ot.scan_events, ot.read_corpus, lambda one: ot.ingest("a.jsonl", one)):
        with pytest.raises(ot.ParameterError, match=re.escape(said)) as caught:
            call(url)
        assert "SECRET" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_path_that_lost_a_slash_is_told() -> None:
    with pytest.raises(ot.InputError, match="give an address as text, since a Path drops"):
        ot.read_traces(Path("s3://lab/a.jsonl"))


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    said = re.escape("s3:// needs the extra storage: " + install("storage"))
    for call in (ot.read_traces, ot.scan_traces, ot.read_corpus, lambda one: ot.ingest(__file__, one)):
        with pytest.raises(ot.InputError, match=f"^{said}$"):
            call("s3://lab/a.jsonl")


@given(
    st.lists(st.lists(NAMES, min_size=1, max_size=3).map("/".join), min_size=1, max_size=8, unique=True),
    st.lists(
        st.sampled_from(["*", "**", "a*", "?", "[ab]", "[!a]*", "*.1", ".*", "a", "b"]),
        min_size=1,
        max_size=3,
    ),
)
@examples(60)
def test_patterns_match_as_on_disk(keys: list[str], parts: list[str]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        made = []
        for key in keys:
            path = Path(folder, key)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            except (NotADirectoryError, FileExistsError, IsADirectoryError):
                continue  # a name is that of a file and of a folder, which only objects can be
            made.append(key)
        made = [key for key in made if Path(folder, key).is_file()]
        pattern = "/".join(parts)
        matches = {m for m in reading._matches(f"{folder}/{pattern}") if Path(m).is_file()}
        expected = sorted(str(Path(m).relative_to(folder)) for m in matches)
    compiled = objects._pattern(parts)
    assert sorted(key for key in made if compiled.fullmatch(key)) == expected
