"""What trainers dump: where each keeps its rewards, advantages, groups and masks.

Sources: verl 0.9.1, the columns of a `DataProto`; SkyRL 0.3.0, `compute_advantages_and_returns`; TRL 1.16.0,
the tables of ``log_completions``; verifiers 0.4.0, episodes with advantages of nodes; rLLM 0.3, episodes with
advantages of steps.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import polars as pl

from ..base.errors import InputError, ParameterError
from ..corpus.table_files import read_table

Trainer = Literal["verl", "skyrl", "trl", "rllm", "verifiers"]

_LISTS: Final = pl.List(pl.Float64)
_NODES: Final = {
    "step": pl.Int64,
    "task": pl.String,
    "episode": pl.String,
    "agent": pl.String,
    "trajectory": pl.String,
    "reward": pl.Float64,
    "advantages": _LISTS,
}
_STEPS: Final = {
    "step": pl.Int64,
    "task": pl.String,
    "episode": pl.String,
    "agent": pl.String,
    "trajectory": pl.String,
    "turn": pl.UInt32,
    "reward": pl.Float64,
    "step_reward": pl.Float64,
    "advantages": _LISTS,
}


class Dumped(NamedTuple):
    """How one trainer dumps.

    Parameters
    ----------
    named
        Of rows as they were read: the rows with all columns that an audit asks for, and its options, which
        name them.
    records
        Of a trainer that writes episodes: the rows of one, and their columns.
    tolerance
        How far a number may be from that of a rule.
    """

    named: Callable[[pl.DataFrame], tuple[pl.DataFrame, dict[str, Any]]]
    records: tuple[Callable[[dict[str, Any]], Iterator[tuple[Any, ...]]], dict[str, Any]] | None = None
    tolerance: float = 1e-5


def rows_of(path: Path, dumped: Dumped) -> pl.DataFrame:
    """The rows of a file, or of all files of a folder, by their names.

    Raises
    ------
    InputError
        A file cannot be read, or a record is no episode.
    ParameterError
        A folder has no such file.
    """
    records = dumped.records
    paths = [path]
    if path.is_dir():
        endings = (".parquet",) if records is None else (".json", ".jsonl")
        paths = sorted(file for file in path.rglob("*") if file.suffix in endings and file.is_file())
        if not paths:
            raise ParameterError(f"{path} has no file that ends in {' or '.join(endings)}")
    if records is None:
        return pl.concat([read_table(file, "advantages") for file in paths], how="diagonal_relaxed")
    of_record, schema = records
    rows: list[tuple[Any, ...]] = []
    for file in paths:
        for place, record in _records(file):
            try:
                rows += of_record(record)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise InputError(f"{file}, {place}: no episode of this trainer ({error!r})") from None
    try:
        return pl.DataFrame(rows, schema=schema, orient="row")
    except (TypeError, pl.exceptions.PolarsError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{path}: an episode has something else in place of a number ({reason})") from None


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Records of a file, a document or a line each, with their places."""
    try:
        if path.suffix == ".json":
            yield "the document", json.loads(path.read_bytes())
            return
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield f"line {number}", json.loads(line)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error})") from None


def _plain(rows: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Any]]:
    return rows, {"reward": "reward", "advantage": "advantage", "group": "group"}


def _of_verl(rows: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Any]]:
    names = {
        "reward": "token_level_rewards",
        "advantage": "advantages",
        "group": "uid",
        "mask": "response_mask",
    }
    optional = {"rollout": "episode_id", "step": "step"}
    return rows, names | {option: name for option, name in optional.items() if name in rows.columns}


def _of_skyrl(rows: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Where rows are steps, a trajectory ends with each ``is_last_step``."""
    names = {"reward": "rewards", "advantage": "advantages", "group": "uids", "mask": "response_mask"}
    names |= {"step": "step"} if "step" in rows.columns else {}
    if "is_last_step" not in rows.columns:
        return rows, names
    ended = pl.col("is_last_step").cast(pl.UInt32).cum_sum().shift(1, fill_value=0)
    return rows.with_columns(trajectory=ended), {**names, "rollout": "trajectory"}


def _of_trl(rows: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Each function of rewards has a column; prompts that are conversations are lists of messages."""
    prompt = rows.get_column("prompt", default=None)
    if prompt is not None and prompt.dtype != pl.String:
        texts = pl.Series([json.dumps(messages, sort_keys=True) for messages in prompt.to_list()])
        rows = rows.with_columns(prompt=texts)
    paid = [name for name, kind in rows.schema.items() if kind.is_float() and name != "advantage"]
    names = {"reward": paid or "reward", "advantage": "advantage", "group": "prompt", "step": "step"}
    if not {"prompt", "step"} <= set(rows.columns):
        return rows, names
    return rows.with_columns(generation=_generations(rows)), {**names, "group": "generation"}


def _generations(rows: pl.DataFrame) -> pl.Expr:
    """Which completions were compared: so many in a row, however often their prompt comes in a step.

    So many is what stands side by side least often, where all other runs of a prompt are whole multiples.
    """
    runs = rows.select(run=pl.struct("step", "prompt").rle_id())["run"]
    sizes = runs.value_counts()["count"]
    size = int(sizes.to_numpy().min()) if len(sizes) else 1
    if size < 2 or (sizes % size != 0).any():  # a table that somebody took rows from
        return pl.col("prompt")
    place = pl.int_range(pl.len()) // size
    return pl.format("{} {}", "prompt", place)


def _by_agent(rows: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Any]]:
    names = {
        "reward": "reward",
        "advantage": "advantages",
        "rollout": "trajectory",
        "group": ["task", "agent"],
    }
    return rows, {**names, "step": "step"} if rows["step"].count() else names


def _nodes(episode: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """A row for each message that an algorithm looked at, of an episode of verifiers, or of a lone trace."""
    step = ((episode.get("run") or {}).get("work") or {}).get("step")
    env, group = episode.get("env"), (episode.get("group") or {}).get("id")
    for trace in episode.get("traces", [episode]):
        task = group or json.dumps([env, episode.get("task") or trace["task"]], sort_keys=True)
        rewards = [reward for reward in (trace.get("rewards") or {}).values() if reward is not None]
        paid = sum(reward["score"] * reward.get("weight", 1.0) for reward in rewards) if rewards else None
        agent = str((trace.get("agent") or {}).get("name", ""))
        for node in trace["nodes"]:
            if (values := node.get("advantages")) is not None:
                yield step, task, episode.get("id"), agent, trace["id"], paid, list(map(float, values))


def _steps(episode: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """A row for each step of rLLM that has an advantage: a number, or one for each token."""
    name = str(episode["id"] if "id" in episode else episode["episode_id"])
    task = episode.get("task_hash") or name.rpartition(":")[0] or name
    for place, path in enumerate(episode["trajectories"]):
        of_path = (episode.get("training_step"), task, name, str(path["name"]), f"{name} {place}")
        for turn, step in enumerate(path["steps"]):
            if (value := step.get("advantage")) is not None:
                tokens = max(len(step.get("response_ids") or ()), 1)
                values = list(map(float, value)) if isinstance(value, list) else [float(value)] * tokens
                yield *of_path, turn, path.get("reward"), step.get("reward"), values


PLAIN: Final = Dumped(_plain)
"""Columns of a caller's own, named as the options are."""
DUMPS: Final[dict[Trainer, Dumped]] = {
    "verl": Dumped(_of_verl),
    "skyrl": Dumped(_of_skyrl),
    "trl": Dumped(_of_trl),
    "rllm": Dumped(_by_agent, (_steps, _STEPS)),
    # numbers of tokens have four decimals in its files
    "verifiers": Dumped(_by_agent, (_nodes, _NODES), tolerance=6e-5),
}
"""By the name that `audit` takes."""
