"""What a change of the code moves in results over published corpora.

    export ORCHESTRACE_CORPORA=...
    python benches/python/moved_results.py record before/     # with the code of before
    python benches/python/moved_results.py record after/      # with the code of now
    python benches/python/moved_results.py compare before/ after/

`record` writes the tables of the corpora and what credit, metrics, replay, schedules and taint say of them,
a Parquet file each. `compare` prints a row for each file, format and column with a cell that moved: how many
of how many, and the largest difference of two numbers. Values are compared bit for bit. Nothing is timed. The
files hold data of the corpora: keep them out of the repository.
"""

import argparse
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl

import orchestrace as ot

UNITS = ("team", "agent", "turn", "event")
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
}
#: Columns of the older code by the names that they have now.
RENAMED: dict[str, dict[str, str]] = {}
DROPPED = {"file", "line", "offset", "length", "params", "residual"}


def credits(corpus: ot.Corpus) -> Iterator[pl.DataFrame]:
    """Every method at four levels, of a reward of 1 that every trace is given."""
    for name, units, params in ot.methods().select("name", "units", "params").iter_rows():
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


def replays(corpus: ot.Corpus) -> Iterator[pl.DataFrame]:
    """Everything that can be dropped, once, and fewer slots."""
    for each in ("agent", "spawn", "role", "tool", "message"):
        yield ot.replay(corpus, ot.drop(each=each)).with_columns(asked=pl.lit(f"drop {each}"))
    yield ot.replay(corpus, ot.concurrency([1, 4])).with_columns(asked=pl.lit("slots"))


def keyed(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    return frame.rename({name: "key"})


def results(corpus: ot.Corpus) -> Iterator[tuple[str, Callable[[], pl.DataFrame]]]:
    """What is recorded, by the name of its file."""
    for name in ("traces", "events", "edges", "agents", "measures", "findings", "record_counts"):
        yield name, lambda name=name: getattr(corpus, name).collect()
    yield "metrics", lambda: ot.metrics(corpus)
    yield "members", lambda: ot.metrics(corpus, by="agent")
    yield "schedule", lambda: ot.schedule(corpus)
    yield "slots", lambda: ot.scaling_curve(corpus, [1, 2, 4, 8])
    yield "path", lambda: keyed(ot.critical_path(corpus, by="type"), "type")
    yield "taint", lambda: ot.taint(corpus)
    yield "replay", lambda: pl.concat(replays(corpus), how="diagonal_relaxed")
    yield "credit", lambda: pl.concat(credits(corpus), how="diagonal_relaxed")


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Without types that Parquet, or another version, has in other ways."""
    unpacked = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Struct)]
    for name in unpacked:
        fields = frame[name].struct.unnest()
        renamed = fields.rename({field: f"{field}.{name}" for field in fields.columns})
        frame = frame.drop(name).hstack(renamed.get_columns())
    words = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Categorical | pl.Enum)]
    nested = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List)]
    return frame.with_columns(
        pl.col(words).cast(pl.String), *(pl.col(n).cast(pl.List(pl.String)).list.join(" ") for n in nested)
    )


def record(folder: Path) -> None:
    root = os.environ.get("ORCHESTRACE_CORPORA")
    if not root:
        sys.exit("set ORCHESTRACE_CORPORA to the folder of the published corpora")
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    corpus = ot.read_traces(root)
    known = corpus.traces.select("trace", "trace_id", "importer").collect()
    one = corpus.traces.select("trace").collect().with_columns(one=pl.lit(1.0))
    corpus = corpus.with_measures(one)
    for name, compute in results(corpus):
        frame = compute()
        if "trace" in frame.columns:
            frame = frame.drop("trace_id", "importer", strict=False)
            frame = frame.join(known, on="trace", how="left", maintain_order="left")
        plain(frame).write_parquet(folder / f"{name}.parquet")
        print(f"{name}: {frame.height:,} rows", file=sys.stderr, flush=True)


def numbered(frame: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Rows of one key, told apart by their order."""
    return frame.with_columns(n=pl.int_range(pl.len()).over(keys))


def moved(name: str, before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """A row per format and column in which something moved."""
    before = before.rename(RENAMED.get(name, {}), strict=False)
    keys = ["importer", "trace_id", "trace", *KEYS.get(name, [])]
    keys = [key for key in keys if key in before.columns and key in after.columns]
    if "trace" not in keys:
        keys = [key for key in before.columns if key in after.columns and key != "count"]
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
    parts = joined.partition_by(group, as_dict=True, include_key=True).items() if group else [(("",), joined)]
    for (importer, *_), part in parts:
        both = part.filter(pl.col("old") & pl.col("new"))
        gone, added = (part.filter(pl.col(mark).is_null()).height for mark in ("new", "old"))
        if gone or added:
            out.append((name, importer, "(rows)", gone + added, part.height, f"{gone} gone, {added} new"))
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
    for path in sorted(before.glob("*.parquet")):
        if not (after / path.name).exists():
            print(f"{path.name} is missing in {after}")
            continue
        rows.append(moved(path.stem, pl.read_parquet(path), pl.read_parquet(after / path.name)))
    print("| table | format | column | moved | of | how |\n| --- | --- | --- | ---: | ---: | --- |")
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
