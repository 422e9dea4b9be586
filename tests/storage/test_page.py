"""What docs/object-storage.md shows runs, in a bucket of that name."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import orchestrace as ot
from document_workspace import commands
from orchestrace.cli import app
from storage.servers import Bucket

PAGE = (Path(__file__).parents[2] / "docs" / "object-storage.md").read_text(encoding="utf-8")


@pytest.fixture
def lab(bucket: Bucket, tmp_path: Path) -> None:
    """Recordings where the page has them, and no corpus yet."""
    if "lab" not in [one["Name"] for one in bucket.client.list_buckets()["Buckets"]]:
        bucket.client.create_bucket(Bucket="lab")
    for one in bucket.client.list_objects_v2(Bucket="lab").get("Contents", []):
        bucket.client.delete_object(Bucket="lab", Key=one["Key"])
    ot.generate(tmp_path / "a.jsonl.gz", traces=3, seed=0)
    data = (tmp_path / "a.jsonl.gz").read_bytes()
    bucket.client.put_object(Bucket="lab", Key="runs/2026-10/day/a.jsonl.gz", Body=data)


@pytest.mark.usefixtures("lab")
def test_calls_of_the_page_run() -> None:
    (code,) = [block.partition("```")[0] for block in PAGE.split("```python\n")[1:]]
    names: dict[str, Any] = {}
    exec(code, names)
    runs, credits = names["runs"], names["credits"]
    assert isinstance(runs, ot.Corpus) and len(runs) == 3
    assert credits.equals(ot.credit(runs, method="flow", unit="agent"))


@pytest.mark.usefixtures("lab")
def test_commands_of_the_page_run() -> None:
    found = list(commands(PAGE))
    assert len(found) == 3
    for words in found:
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, (words, done.output)
