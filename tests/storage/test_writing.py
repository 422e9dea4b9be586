"""Objects are written whole or not at all, and on the condition that is given."""

import os
from pathlib import Path

import pytest

from orchestrace.storage import writing
from orchestrace.storage.addresses import address_of
from orchestrace.storage.stores import open_store
from storage.servers import Bucket, proxied, rotating

AT = address_of("s3://runs/written")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("start", range(3))
def test_large_files_come_whole_through_a_faulty_network(bucket: Bucket, tmp_path: Path, start: int) -> None:
    """They are written in parts."""
    files = []
    for number, size in enumerate([0, 1, writing.PART + 1, 2 * writing.PART + 12_345]):
        path = tmp_path / f"{number}"
        path.write_bytes(os.urandom(size))
        files.append((path, AT.below(path.name)))
    with proxied(bucket.endpoint, rotating(start, every=5)):
        tags = writing.upload(files, open_store(AT))
    for (path, address), tag in zip(files, tags, strict=True):
        assert bucket.get(address.key) == path.read_bytes()
        assert tag == bucket.client.head_object(Bucket="runs", Key=address.key)["ETag"]


def test_a_version_that_is_not_known_is_not_replaced(bucket: Bucket) -> None:
    store = open_store(AT)
    first = writing.replace(AT, b"first", None, store)
    with pytest.raises(writing.Overtaken):
        writing.replace(AT, b"another", None, store)
    second = writing.replace(AT, b"second", first, store)
    with pytest.raises(writing.Overtaken):
        writing.replace(AT, b"third", first, store)
    assert bucket.get(AT.key) == b"second"
    # Written already, as after an answer that was lost.
    assert writing.replace(AT, b"second", first, store) == second


def test_what_is_gone_already_is_removed(bucket: Bucket) -> None:
    bucket.put("written/a", b"a")
    writing.remove([AT.below("a"), AT.below("b")], open_store(AT))
    assert bucket.keys() == []
