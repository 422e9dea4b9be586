"""Rollout dumps of trainers: told by content, grouped by prompt and step, ready for group advantages."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot

FORMATS = Path(__file__).resolve().parents[2] / "docs/formats"


def test_a_table_of_trl_is_read_as_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "completions").mkdir()
    for step in (1, 2):
        table = {
            "step": [step] * 4,
            "prompt": ["a?", "a?", "b?", "b?"],
            "completion": ["yes", "yes", "no", "so"],
            "accuracy": [1.0, 0.0, None, 0.5],
            "advantage": [0.7, -0.7, 0.0, 0.0],
        }
        pl.DataFrame(table).write_parquet(f"completions/completions_{step:05d}.parquet")
    page = (FORMATS / "trl.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    corpus = eval(line, {"ot": ot})  # the page is ours
    traces = corpus.traces.collect()
    assert traces["importer"].unique().to_list() == ["trl"]
    # Two completions that are the same text are two rollouts.
    assert traces.height == 8
    assert traces["group_id"].n_unique() == 4 and traces["task_id"].n_unique() == 2
    events = ot.read_traces("completions", fields={"x_advantage": pl.Float64}).events
    told = events.filter(pl.col("x_advantage").is_not_null()).select("x_advantage").collect()
    assert told["x_advantage"].to_list()[:2] == [0.7, -0.7] and told.height == 8
    rewards = corpus.measures.filter(kind="reward", name="team").collect()
    assert rewards["value"].to_list()[:3] == [1.0, 0.0, 0.5]


def test_advantages_are_those_of_the_groups_of_a_dump(tmp_path: Path) -> None:
    lines = [
        {"input": prompt, "output": f"{prompt}{score}", "gts": None, "score": score, "step": step}
        for step in (1, 2)
        for prompt, scores in (("a?", (0.0, 1.0)), ("b?", (1.0, 1.0)))
        for score in scores
    ]
    for step in (1, 2):
        dump = "".join(json.dumps(line) + "\n" for line in lines if line["step"] == step)
        (tmp_path / f"{step}.jsonl").write_text(dump)
    corpus = ot.read_traces(tmp_path)
    assert corpus.traces.collect()["importer"].unique().to_list() == ["verl"]
    # Both rollouts of 'b?' are word for word the same line at another place.
    assert corpus.records["used"] == 8
    credits = ot.credit(corpus, method="grpo", unit="team").sort("trace")
    signs = [round(value, 3) for value in credits["credit"].to_list()]
    assert signs == [-0.707, 0.707, 0.0, 0.0] * 2


def test_episodes_keep_their_agents_apart(tmp_path: Path) -> None:
    def trajectory(uid: str, name: str, answers: list[str]) -> dict[str, object]:
        steps = [{"observation": "", "model_response": text, "reward": 0.0} for text in answers]
        return {"uid": uid, "name": name, "reward": 1.0, "steps": steps}

    episode = {
        "id": "t:0",
        "task": {"q": 1},
        "is_correct": True,
        "termination_reason": None,
        "metrics": {},
        "trajectories": [trajectory("1", "solver", ["a", "b"]), trajectory("2", "solver", ["c"])],
    }
    folder = tmp_path / "train_step_1_epoch_0"
    folder.mkdir()
    (folder / "episode.json").write_text(json.dumps(episode, indent=2))
    summary = {"training_step": 1, "episode_files": ["episode.json"]}
    (folder / "batch_summary.json").write_text(json.dumps(summary))
    corpus = ot.read_traces(tmp_path)
    assert corpus.records == {"read": 4, "used": 3, "ignored": 1, "duplicate": 0, "quarantined": 0}
    assert corpus.events.collect()["agent"].to_list() == ["solver", "solver", "solver#2"]
