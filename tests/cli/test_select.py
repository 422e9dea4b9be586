"""The command `select`: what it says beside its table, and what it writes."""

from pathlib import Path

from cli.commands import run
from samples.chat_runs import chat, sums, write_chats


def test_what_is_kept_is_counted_and_written(tmp_path: Path) -> None:
    silent = chat("sum-9", "late", "9 + 9?", [], 1.0)
    path = write_chats(tmp_path / "chats.jsonl", [*sums(2), silent])
    result = run(
        "select", str(path), "--for", "sft", "--validation", "0", "--to", str(tmp_path / "out"), "--csv"
    )
    assert result.stderr.splitlines() == [
        f"{tmp_path}/out/train.jsonl: 4 runs",
        "kept 4 of 9 runs; dropped: reward.low 4, run.partial 1",
    ]
    assert len((tmp_path / "out" / "train.jsonl").read_text().splitlines()) == 4
    assert result.stdout.count("\n") == 10
    again = run("select", str(path), "--to", str(tmp_path / "out"), code=1)
    assert "exists" in again.stderr and again.stdout == ""
    all_kept = run("select", str(path), "--success", "0", "--keep-duplicates", "--csv")
    assert all_kept.stderr == "kept 8 of 9 runs; dropped: run.partial 1\n"
