"""What a change of the code moves in results: over published corpora, the samples and planted ones.

    export ORCHESTRACE_CORPORA=...
    python benches/python/moved_results.py record before/     # with the code of before
    python benches/python/moved_results.py record after/      # with the code of now
    python benches/python/moved_results.py compare before/ after/

`record` writes the tables of the corpora and what every verb says of them, a Parquet file each: credit by
every method at every unit, an explanation by every method, metrics, replay, schedules, taint, effects, the
cells of a small study. `compare` prints a row for each file, format and column with a cell that moved: how
many of how many, and the largest difference of two numbers. Values are compared bit for bit, nothing is
timed.
The files hold data of the corpora: keep them out of the repository. Without ORCHESTRACE_CORPORA published
corpora are left out.
"""

import argparse
import hashlib
import inspect
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from contract.verbs import VERBS, answer  # noqa: E402  # one list of every verb, as tests ask them

UNITS = ("team", "role", "agent", "turn", "event", "message", "tool", "orchestrator")
#: Methods whose cost on long traces is beyond a bench, with what bounds it.
SAMPLED = {"samples": 16}
#: What a row of each file is known by, beside its trace.
KEYS: dict[str, list[str]] = {
    "events": ["seq"],
    "edges": ["src", "dst", "type"],
    "agents": ["agent"],
    "measures": ["kind", "name"],
    "findings": ["code"],
    "credit": ["method", "unit", "unit_id", "seq"],
    "metrics": [],
    "members": ["agent"],
    "replay": ["asked", "intervention", "unit_id"],
    "schedule": ["seq"],
    "slots": ["k"],
    "path": ["key"],
    "drag": ["key"],
    "taint": [],
    "explanations": ["asked"],
    "verb evaluation.compare_metrics all": ["metric"],
    "verb stopping.evaluate": ["method"],
    "verb metrics by task": ["task_id", "metric"],
}
#: Planted corpora, by what they are for.
PLANTED: dict[str, dict[str, Any]] = {
    "linear": {},
    "branches": {"branches": 2, "interaction": 0.5, "value_noise": 0.2, "dense": True, "seed": 1},
    "stop": {"stop_cost": 0.05, "spawn_effect": 0.3, "traces": 256, "length_spread": 0.5, "seed": 2},
}
STUDY = """
seed = 0
budget_s = 60.0
units = ["event", "agent"]
slots = [1, 4]
methods = ["uniform", "flow", "grpo", "difference", "vdn"]
[[sizes]]
events = 32
agents = 4
traces = 64
[[sizes]]
events = 64
agents = 8
traces = 32
[presets.additive]
outcome = "linear"
density = 1.0
[presets.gates]
outcome = "mixed"
topology = "hierarchical"
"""
#: Of a study, what a clock or the machine says.
MEASURED = ("second", "byte", "rss", "memory", "time", "peak", "started", "version")
#: Columns of the older code by the names that they have now; of every table, by their ends.
RENAMED: dict[str, dict[str, str]] = {}
ENDS = {"low": "lower", "high": "upper"}
#: Tables of the older code by the names that they have now.
TABLES: dict[str, str] = {
    "verb evaluation.ledger": "verb evaluation.reward_accounting",
    "verb evaluation.localization": "verb evaluation.failure_attribution",
    "verb rewards.hazards": "verb rewards.detect_hacking",
    "verb rewards.mix": "verb rewards.combine",
    "verb scaling.gap": "verb scaling.distance_to_published",
    "verb scaling.gap nearest": "verb scaling.distance_to_published nearest",
    "verb schedules.schedule": "verb schedules.simulate",
    "verb schedules.schedule slots": "verb schedules.simulate slots",
    "verb stopping.overlap": "verb stopping.support",
    "verb story": "verb summary",
    "verb report": "verb describe",
}
#: Words of the older code, in names of columns and in values, by their spelling now.
SPELT = {"set_value(": "do(", "remove(": "skip(", "serialize(": "run_sequentially("}
DROPPED = {"file", "line", "offset", "length", "seconds", "events_per_s"}


def credits(corpus: ot.Corpus) -> Iterator[pl.DataFrame]:
    """Every method at four levels, of a reward of 1 that every trace is given."""
    for name, units, params in ot.list_methods().select("name", "units", "params").iter_rows():
        known = {one["name"] for one in params}
        options = {key: value for key, value in SAMPLED.items() if key in known}
        for unit in UNITS:
            if unit not in units:
                continue
            try:
                frame = ot.credit(corpus, method=name, unit=unit, reward="one", **options)
            except (ot.OrchestraceError, RuntimeWarning) as error:
                frame = pl.DataFrame({"method": [name], "unit": [unit], "reason": [type(error).__name__]})
            kept = [key for key in ("trace", "unit_id", "seq", "credit", "reason") if key in frame.columns]
            yield frame.select(*kept, method=pl.lit(name), unit=pl.lit(unit))


def explanations(corpus: ot.Corpus) -> Iterator[pl.DataFrame]:
    """Of every method and level, what made the credits in the middle and at three quarters of its rows."""
    for name, units in ot.list_methods().select("name", "units").iter_rows():
        for unit in units:
            try:
                credits = ot.credit(corpus, method=name, unit=unit, reward="team")
                known = credits.filter(pl.col("credit").is_not_null())
                for at in {known.height // 2, 3 * known.height // 4} if known.height else ():
                    row = known.row(at, named=True)
                    found = ot.explain(corpus, credits, row["unit_id"], trace=row["trace"])
                    yield found.with_columns(asked=pl.lit(f"{name} {unit} {at}"))
            except (ot.OrchestraceError, RuntimeWarning) as error:
                yield pl.DataFrame({"asked": [f"{name} {unit}"], "error": [type(error).__name__]})


def replays(corpus: ot.Corpus) -> Iterator[pl.DataFrame]:
    """Everything that can be dropped, once, and fewer slots."""
    for each in ("agent", "spawn", "role", "tool", "message"):
        yield ot.replay(corpus, ot.interventions.drop(each=each)).with_columns(asked=pl.lit(f"drop {each}"))
    yield ot.replay(corpus, ot.interventions.concurrency([1, 4])).with_columns(asked=pl.lit("slots"))


def keyed(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    return frame.rename({name: "key"})


def results(corpus: ot.Corpus) -> Iterator[tuple[str, Callable[[], pl.DataFrame]]]:
    """What is recorded, by the name of its file."""
    for name in ("traces", "events", "edges", "agents", "measures", "findings", "record_counts"):
        yield name, lambda name=name: getattr(corpus, name).collect()
    yield "metrics", lambda: ot.metrics(corpus)
    yield "members", lambda: ot.metrics(corpus, by="agent")
    yield "schedule", lambda: ot.schedules.simulate(corpus)
    yield "slots", lambda: ot.schedules.scaling_curve(corpus, [1, 2, 4, 8])
    yield "path", lambda: keyed(ot.schedules.critical_path(corpus, by="type"), "type")
    yield "taint", lambda: ot.taint(corpus)
    yield "replay", lambda: pl.concat(replays(corpus), how="diagonal_relaxed")
    yield "weights", lambda: told(ot.outcomes.fit(corpus, targets="outcome"))
    yield "credit", lambda: pl.concat(credits(corpus), how="diagonal_relaxed")


def every_verb(corpus: ot.Corpus) -> Iterator[tuple[str, Callable[[], pl.DataFrame]]]:
    """What the verbs of the tests say, one after the other."""
    for name, verb in VERBS.items():
        yield f"verb {name}", lambda verb=verb: told(answer(verb, corpus))


def told(answered: Any) -> pl.DataFrame:
    """An answer as a table: frames as they are, anything else by its kind and the hash of its text."""
    if isinstance(answered, pl.DataFrame):
        return answered
    if isinstance(answered, dict):
        parts = [plain(told(one)).with_columns(part=pl.lit(name)) for name, one in answered.items()]
        return pl.concat(parts, how="diagonal_relaxed")
    if isinstance(answered, ot.OrchestraceError):
        return pl.DataFrame({"error": [type(answered).__name__]})
    if isinstance(answered, ot.outcomes.FittedOutcome):
        return answered.weights
    text = answered if isinstance(answered, bytes) else str(answered).encode()
    return pl.DataFrame({"kind": [type(answered).__name__], "hash": [hashlib.sha256(text).hexdigest()]})


def studied() -> Iterator[tuple[str, Callable[[], pl.DataFrame]]]:
    """The tables of a small study, without what is measured by a clock."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "study.toml").write_text(STUDY)
        ot.study.run(folder / "study.toml", folder / "out", progress=False)
        for path in sorted((folder / "out").rglob("*.parquet")):
            frame = pl.read_parquet(path)
            yield (
                f"study {path.stem}",
                lambda frame=frame: frame.select(
                    pl.exclude([name for name in frame.columns if any(word in name for word in MEASURED)])
                ),
            )


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Without types that Parquet, or another version, has in other ways."""
    odd = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Struct | pl.List)]
    words = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Categorical | pl.Enum)]
    return frame.with_columns(
        pl.col(words).cast(pl.String),
        *(pl.Series(name, [str(cell) for cell in frame[name].to_list()], pl.String) for name in odd),
    )


def write(folder: Path, name: str, compute: Callable[[], pl.DataFrame], known: pl.DataFrame | None) -> None:
    try:
        frame = compute()
    except ot.OrchestraceError as error:
        frame = told(error)
    if known is not None and "trace" in frame.columns:
        frame = frame.drop("trace_id", "importer", strict=False)
        frame = frame.with_columns(pl.col("trace").cast(pl.UInt32))
        frame = frame.join(known, on="trace", how="left", maintain_order="left")
    folder.mkdir(parents=True, exist_ok=True)
    plain(frame).write_parquet(folder / f"{name}.parquet")
    print(f"{folder.name}, {name}: {frame.height:,} rows", file=sys.stderr, flush=True)


def corpora() -> Iterator[tuple[str, ot.Corpus]]:
    yield "samples", ot.read_traces(ROOT / "data" / "samples")
    for name, options in PLANTED.items():
        yield f"planted {name}", ot.synthetic.planted(**options)[0]
    if root := os.environ.get("ORCHESTRACE_CORPORA"):
        yield "published", ot.read_traces(root)


def record(folder: Path) -> None:
    warnings.simplefilter("ignore")
    for name, compute in studied():
        write(folder / "study", name, compute, None)
    for place, corpus in corpora():
        known = corpus.traces.select("trace", "trace_id", "importer").collect()
        one = corpus.traces.select("trace").collect().with_columns(one=pl.lit(1.0))
        corpus = corpus.with_measures(one)
        for name, compute in (*results(corpus), *every_verb(corpus)):
            write(folder / place, name, compute, known)
        if place != "published":
            explained = lambda corpus=corpus: pl.concat(explanations(corpus), how="diagonal_relaxed")  # noqa: E731
            write(folder / place, "explanations", explained, None)


def numbered(frame: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Rows of one key, told apart by their order."""
    place = pl.int_range(pl.len())
    return frame.with_columns(n=place.over(keys) if keys else place)


def respelt(frame: pl.DataFrame) -> pl.DataFrame:
    """With the words of now, wherever they stand in names and in values."""

    def spelt(name: str) -> str:
        for old, new in SPELT.items():
            name = name.replace(old, new)
        return name

    texts = pl.col(pl.String).str.replace_many(list(SPELT), list(SPELT.values()))
    return frame.with_columns(texts).rename(spelt)


def moved(name: str, before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """A row per format and column in which something moved."""
    before = respelt(before.rename(RENAMED.get(name, {}), strict=False))
    ends = {one: one.rpartition("_") for one in before.columns if one.rpartition("_")[2] in ENDS}
    before = before.rename({one: f"{head}{mark}{ENDS[end]}" for one, (head, mark, end) in ends.items()})
    keys = ["importer", "trace_id", "trace", *KEYS.get(name, [])]
    keys = [key for key in keys if key in before.columns and key in after.columns]
    sides = [numbered(side, keys) for side in (before, after)]
    on = [*keys, "n"]
    joined = sides[0].join(sides[1], on=on, how="full", suffix="|after", nulls_equal=True, coalesce=True)
    held = [
        side.select(*on, pl.lit(True).alias(mark)) for side, mark in zip(sides, ("old", "new"), strict=True)
    ]
    for side in held:
        joined = joined.join(side, on=on, how="left", nulls_equal=True)
    out = []
    group = "importer" if "importer" in joined.columns else None
    parts = [(("",), joined)]
    if group:
        parts = list(joined.partition_by(group, as_dict=True, include_key=True).items())
    for (importer, *_), part in parts:
        both = part.filter(pl.col("old") & pl.col("new"))
        gone, added = (part.filter(pl.col(mark).is_null()).height for mark in ("new", "old"))
        if gone or added:
            out.append((name, importer, "(rows)", gone + added, part.height, f"{gone} gone, {added} new"))
        if importer == parts[0][0][0]:
            lost = [one for one in sides[0].columns if one not in sides[1].columns and one not in DROPPED]
            out.extend((name, "", one, part.height, part.height, "the column is gone") for one in lost)
        for column in sides[0].columns:
            other = f"{column}|after"
            if column in on or column in DROPPED or other not in both.columns:
                continue
            left, right = both[column], both[other]
            if left.dtype != right.dtype:
                left, right = left.cast(pl.String), right.cast(pl.String)
            changed = left.ne_missing(right)
            if left.dtype.is_float():
                changed &= ~(left.is_nan() & right.is_nan()).fill_null(False)
            n = int(changed.sum())
            if n:
                numbers = left.dtype.is_numeric()
                most = (left.cast(pl.Float64) - right.cast(pl.Float64)).abs().max() if numbers else None
                nulls = (
                    int((left.is_null() & right.is_not_null()).sum()),
                    int((left.is_not_null() & right.is_null()).sum()),
                )
                note = f"{nulls[0]} were null, {nulls[1]} are null" + (
                    "" if most is None else f", at most {most:.6g}"
                )
                out.append((name, importer, column, n, both.height, note))
    return pl.DataFrame(out, schema=["table", "format", "column", "moved", "of", "how"], orient="row")


def compare(before: Path, after: Path) -> None:
    rows = []
    for path in sorted(before.rglob("*.parquet")):
        name = path.relative_to(before).with_stem(TABLES.get(path.stem, path.stem))
        if not (after / name).exists():
            print(f"{name} is missing in {after}")
            continue
        found = moved(path.stem, pl.read_parquet(path), pl.read_parquet(after / name))
        rows.append(found.with_columns(corpus=pl.lit(path.parent.name)))
    print(f"{len(rows)} tables compared")
    print("| table | format | column | moved | of | how | corpus |")
    print("| --- | --- | --- | ---: | ---: | --- | --- |")
    for row in pl.concat(rows, how="vertical_relaxed").iter_rows():
        print("| " + " | ".join(map(str, row)) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[__name__]))
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("record").add_argument("folder", type=Path)
    two = commands.add_parser("compare")
    two.add_argument("before", type=Path)
    two.add_argument("after", type=Path)
    asked = parser.parse_args()
    if asked.command == "record":
        record(asked.folder)
    else:
        compare(asked.before, asked.after)


if __name__ == "__main__":
    main()
