"""What a gate refuses: mistakes of published comparisons, each in one line with the word that allows it."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from samples.paired_runs import Outcomes, alike, corpus, written

BASE, NEW = alike(12)


def compared(folder: Path, base: Outcomes = BASE, new: Outcomes = NEW, **options: Any) -> pl.DataFrame:
    sides = corpus(folder / "base.jsonl", base), corpus(folder / "new.jsonl", new, shift=0.5)
    return ot.evaluation.gate(*sides, **options)


def refused(word: str, message: str, *sides: ot.Corpus, **options: Any) -> None:
    """The two sides are refused, and compared if the word allows it."""
    with pytest.raises(ot.InputError, match=message) as caught:
        ot.evaluation.gate(*sides, **options)
    assert str(caught.value).endswith(f"; to compare all the same, pass allow='{word}'")
    table = ot.evaluation.gate(*sides, **options, allow=word)
    assert table.height == 1


def test_tasks_that_one_side_has_not_run(tmp_path: Path) -> None:
    # embeddings-benchmark/mteb#4263: a mean over the tasks that were there, against one over all
    fewer = {task: values for task, values in NEW.items() if task not in ("t003", "t004")}
    base, new = corpus(tmp_path / "base.jsonl", BASE), corpus(tmp_path / "new.jsonl", fewer, shift=0.5)
    refused("tasks", r"tasks differ: only base has 't003', 't004'", base, new)
    assert ot.evaluation.gate(base, new, allow=["tasks"])["n_tasks"].item() == 10


def test_another_model(tmp_path: Path) -> None:
    # L. Chen et al., arXiv 2307.09009: one name, another model, another result
    base = corpus(tmp_path / "base.jsonl", BASE)
    new = corpus(tmp_path / "new.jsonl", NEW, shift=0.5, model="m-2")
    refused("model", "models differ: base has 'm-1', new has 'm-2'", base, new)
    unnamed = corpus(tmp_path / "unnamed.jsonl", NEW, shift=0.5, model=None)
    refused("model", "models differ: base has 'm-1', new has none recorded", base, unnamed)


def test_another_harness(tmp_path: Path) -> None:
    # huggingface/blog#1258: one benchmark, three harnesses, three rankings
    base = corpus(tmp_path / "base.jsonl", BASE)
    new = corpus(tmp_path / "new.jsonl", NEW, shift=0.5, harness_hash="h-2")
    refused("harness", "harnesses differ: base has 'h', new has 'h-2'", base, new)


def test_failed_runs_that_are_missing(tmp_path: Path) -> None:
    # UKGovernmentBEIS/inspect_ai#3707: errors leave the denominator, and accuracy rises
    lost: dict[str, list[float | None]] = {**NEW, "t002": [None, 1.0]}
    base, new = corpus(tmp_path / "base.jsonl", BASE), corpus(tmp_path / "new.jsonl", lost, shift=0.5)
    refused("missing", "of task 't002' base lacks 'success' of 0 and new 1", base, new)


def test_broken_runs_of_both_sides_are_left_out(tmp_path: Path) -> None:
    lost = [{**side, "t002": [None, 1.0]} for side in (BASE, NEW)]
    table = compared(tmp_path, *lost)
    assert (table["n_runs_base"].item(), table["n_runs_new"].item()) == (23, 23)


def test_records_that_could_not_be_read(tmp_path: Path) -> None:
    base, path = corpus(tmp_path / "base.jsonl", BASE), written(tmp_path / "new.jsonl", NEW, shift=0.5)
    path.write_text(path.read_text() + '{"trace_id": 3}\n')
    refused(
        "missing",
        "1 record of new could not be read, and may be runs that failed",
        base,
        ot.read_traces(path),
    )


def test_recordings_that_end_early_are_short_of_tokens_and_not_of_an_outcome(tmp_path: Path) -> None:
    base, path = corpus(tmp_path / "base.jsonl", BASE), written(tmp_path / "new.jsonl", NEW, shift=0.5)
    lines = path.read_text().splitlines()
    run = json.loads(lines[4])
    run["events"][0]["x_trace"] = {"partial": True}
    path.write_text("\n".join([*lines[:4], json.dumps(run), *lines[5:]]) + "\n")
    new = ot.read_traces(path)
    assert new.traces.filter("partial").select("task_id").collect()["task_id"].to_list() == ["t002"]
    refused(
        "missing", "recordings of task 't002' end early: 0 in base and 1 in new", base, new, metric="tokens"
    )
    assert ot.evaluation.gate(base, new).height == 1


def test_unequal_attempts(tmp_path: Path) -> None:
    # Kapoor et al., arXiv 2407.01502: agents that retry, against agents that do not
    more: dict[str, list[float | None]] = {**NEW, "t002": [*NEW["t002"], 1.0]}
    base, new = corpus(tmp_path / "base.jsonl", BASE), corpus(tmp_path / "new.jsonl", more, shift=0.5)
    refused("attempts", "attempts differ: task 't002' has 2 in base and 3 in new", base, new)


def test_a_recording_that_counts_twice(tmp_path: Path) -> None:
    # EleutherAI/lm-evaluation-harness#3046: repeats come out of a cache, k attempts are one
    base, path = corpus(tmp_path / "base.jsonl", BASE), written(tmp_path / "new.jsonl", NEW, shift=0.5)
    refused(
        "copies", "one recording counts twice: 'base-t000-0' of base and 'base-t000-0' of new", base, base
    )
    lines = path.read_text().splitlines()
    again = lines[0].replace("new-t000-0", "again"), lines[1].replace("new-t000-1", "again")
    path.write_text("\n".join([again[0], *lines[:1], *lines[2:]]) + "\n")
    refused("copies", "'again' of new and 'new-t000-0' of new are the same", base, ot.read_traces(path))
    path.write_text("\n".join([again[1], *lines[:1], *lines[2:]]) + "\n")
    assert ot.evaluation.gate(base, ot.read_traces(path)).height == 1


def test_a_metric_that_one_side_has_not_recorded(tmp_path: Path) -> None:
    base = corpus(tmp_path / "base.jsonl", BASE, cost_usd=0.5)
    new = corpus(tmp_path / "new.jsonl", NEW, shift=0.5)
    with pytest.raises(ot.InputError, match="metric 'dollars' is recorded in base and not in new"):
        ot.evaluation.gate(base, new, metric="dollars")


def test_sides_without_runs_or_rewards(tmp_path: Path) -> None:
    base, new = corpus(tmp_path / "base.jsonl", BASE), corpus(tmp_path / "new.jsonl", NEW, shift=0.5)
    nothing = new.filter(pl.col("trace") < 0)
    with pytest.raises(ot.InputError, match="new has no runs: nothing to compare"):
        ot.evaluation.gate(base, nothing)
    unpaid = {task: [None] * len(values) for task, values in NEW.items()}
    with pytest.raises(ot.ParameterError, match="new: unknown reward channel 'team'"):
        compared(tmp_path, BASE, unpaid)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "sucess"}, "unknown metric 'sucess'; did you mean 'success'"),
        ({"metric": "n_turns"}, "say which way is better: 'n_turns:lower' or 'n_turns:higher'"),
        ({"metric": "n_trns:lower"}, "unknown metric 'n_trns'; did you mean 'n_turns'"),
        ({"metric": []}, "metric is empty"),
        ({"metric": ["success", "success"]}, "metric has 'success' twice"),
        ({"margin": -0.1}, "margin is -0.1 for metric 'success', expected a number from 0"),
        ({"margin": 1.0}, "margin is 1 for metric 'success', expected a number from 0 to below 1"),
        ({"margin": {"sucess": 0.1}}, "unknown metric of a margin 'sucess'; did you mean 'success'"),
        ({"alpha": 0.5}, "alpha is 0.5, expected a number between 0 and 0.5"),
        ({"power": 0.04}, "power is 0.04, expected more than alpha, 0.05"),
        ({"looks": 2, "look": 3}, "look is 3, expected a whole number from 1 to 2"),
        ({"looks": 21}, "looks is 21, expected a whole number from 1 to 20"),
        ({"allow": "modl"}, "unknown check 'modl'; did you mean 'model'"),
        ({"broken": "drop"}, "broken is 'drop'"),
    ],
)
def test_mistakes(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ot.ParameterError, match=message):
        compared(tmp_path, **options)


def test_a_task_that_another_model_does_is_refused(tmp_path: Path) -> None:
    def swapped(path: Path, shift: float, first: str, rest: str) -> ot.Corpus:
        lines = written(path, BASE, shift=shift).read_text().splitlines()
        tasks = sorted(BASE)
        named = [line.replace('"m-1"', f'"{first if tasks[0] in line else rest}"') for line in lines]
        path.write_text("\n".join(named) + "\n")
        return ot.read_traces(path)

    base = swapped(tmp_path / "base.jsonl", 0.0, "small", "large")
    new = swapped(tmp_path / "new.jsonl", 0.5, "large", "small")
    refused("model", "is done by 'small' in base and by 'large' in new", base, new)


def test_tokens_of_events_are_not_compared_with_totals(tmp_path: Path) -> None:
    base = corpus(tmp_path / "base.jsonl", BASE)
    path = written(tmp_path / "new.jsonl", NEW, shift=0.5)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        for event in line["events"]:
            event.pop("tokens_in", None), event.pop("tokens_out", None)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    new = ot.read_traces(path)
    with pytest.raises(ot.InputError, match="tokens are not counted alike: base has 'events', new"):
        ot.evaluation.gate(base, new, metric="tokens")
    assert ot.evaluation.gate(base, new).height == 1  # success needs none


def test_attempts_without_tokens_were_not_measured(tmp_path: Path) -> None:
    base = corpus(tmp_path / "base.jsonl", BASE)
    path = written(tmp_path / "new.jsonl", NEW, shift=0.5)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for event in lines[0]["events"]:
        event |= {"tokens_in": 0, "tokens_out": 0}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ot.InputError, match="runs are missing on one side: of task 't000' base"):
        ot.evaluation.gate(base, ot.read_traces(path), metric="tokens")


def test_runs_that_earn_differently_are_no_copies(tmp_path: Path) -> None:
    base = corpus(tmp_path / "base.jsonl", {"t": [1.0], "u": [1.0]})
    path = written(tmp_path / "new.jsonl", {"t": [0.0], "u": [0.0]})
    path.write_text(path.read_text().replace("new-", "base-"))
    assert ot.evaluation.gate(base, ot.read_traces(path)).height == 1
