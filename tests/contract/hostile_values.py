"""Calls of every public verb that work, and values that none of their parameters is meant for."""

import io
import math
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import orchestrace as ot
from example_calls import Call, example_of, parameters
from orchestrace.base.verbs import all_verbs

APART = frozenset({"credit_method"})
"""What it is given stays registered; `tests/credit/test_own_methods.py` judges its arguments."""


def calls(folder: Path) -> dict[str, Call]:
    """A call of every public function and method that takes something."""
    return {**examples(), **calls_by_hand(folder)}


def examples() -> dict[str, Call]:
    """The calls that docstrings show, by the name of the verb."""
    verbs = {about.name: about.function for about in all_verbs() if about.name not in APART}
    return {name: example_of(verb) for name, verb in verbs.items() if parameters(verb)}


def calls_by_hand(folder: Path) -> dict[str, Call]:
    """Methods, and calls that lead elsewhere than the example of a verb: what is on disk, other branches,
    and frames of all columns, or in parameters for which the example has none."""
    recorded, stored = folder / "runs.jsonl", folder / "stored"
    ot.generate(recorded, traces=6, seed=3)
    ot.ingest(recorded, stored)
    corpus, on_disk = ot.read_traces(recorded), ot.read_corpus(stored)
    credits, agents = ot.credit(corpus), ot.credit(corpus, unit="agent")
    turns = ot.credit(corpus, method="broadcast", unit="turn")
    rng = random.Random(0)
    ids = corpus.traces.select("trace_id").collect()["trace_id"]
    tables = {
        name: getattr(corpus, name).collect() for name in ("traces", "events", "edges", "measures", "labels")
    }
    labels = pl.DataFrame({"trace_id": ids, "annotator": "me", "turn": 1, "agent": "orchestrator"})
    measures = pl.DataFrame({"trace_id": ids, "quality": [float(n) for n in range(len(ids))]})
    fields = tables["events"].select("trace", "seq", cost_usd=pl.lit(0.5))

    def on(verb: Callable[..., Any], *several: Any, **named: Any) -> Call:
        return Call(verb, {"corpus": corpus, **named}, several)

    def written(format: str, path: Path, **named: Any) -> Call:
        return on(ot.export, format=format, path=path, overwrite=True, **named)

    effects = ot.replay(corpus, ot.interventions.drop(each="agent"))
    reached, cut = ot.safety.tainted_events(corpus), ot.safety.sanitizer_cut(corpus)
    scored = pl.DataFrame(
        [
            {"run": f"r{n:02}", "step": k, "score": rng.random(), "success": n % 3 > 0, "tokens": k}
            for n in range(40)
            for k in (1, 2, 3)
        ]
    )
    epochs = ot.stopping.epochs_from_frame(scored, tokens="tokens")
    rule = ot.stopping.fit_abort(epochs, alpha=0.3)
    release = ot.stopping.fit_release(epochs, alpha=0.3)
    answers, _ = ot.synthetic.stops(runs=40, seed=1)
    few = {"epochs": answers, "methods": ["fixed", "lsm"], "n_boot": 10}
    chosen, worth = ot.synthetic.choices(runs=60, steps=2, seed=1)
    spawning = pl.DataFrame({"action": ["spawn", "no_spawn"], "p": [0.4, 0.6], "q": [0.5, 0.4]})
    return {
        "AbortRule.apply": Call(rule.apply, {"epochs": epochs}),
        "AbortRule.at": Call(rule.at, {"alpha": 0.2}),
        "ChoiceTruth.value": Call(worth.value, {"spawn": {"easy": 0.5, "hard": 0.5}}),
        "Corpus.from_arrow": Call(ot.Corpus.from_arrow, dict(tables)),
        "Corpus.source": Call(corpus.source, {"trace": 0, "seq": 0}),
        "Corpus.to_arrow": Call(corpus.to_arrow, {"table": "events"}),
        "Corpus.to_numpy": Call(corpus.to_numpy, {"table": "edges"}),
        "Corpus.with_fields": Call(corpus.with_fields, {"frame": fields}),
        "Corpus.with_measures": Call(corpus.with_measures, {"frame": measures}),
        "Corpus.write_jsonl": Call(corpus.write_jsonl, {"target": folder / "w.jsonl", "overwrite": True}),
        "Corpus.write_quarantined": Call(
            corpus.write_quarantined, {"target": folder / "q.jsonl", "overwrite": True}
        ),
        "Param": Call(ot.Param, {"name": "gamma", "default": 0.5, "doc": "a number", "low": 0, "high": 1}),
        "PartitionedCorpus.with_fields": Call(on_disk.with_fields, {"frame": fields}),
        "PartitionedCorpus.with_measures": Call(on_disk.with_measures, {"frame": measures}),
        "PartitionedCorpus.write_jsonl": Call(
            on_disk.write_jsonl, {"target": folder / "p.jsonl", "overwrite": True}
        ),
        "ReleaseRule.apply": Call(release.apply, {"epochs": epochs}),
        "StoppingRule.apply": Call(ot.stopping.fit(answers, "lsm").apply, {"epochs": answers}),
        "Summary.sentences": Call(ot.summary(corpus).sentences, {"path": "x"}),
        "Summary.text": Call(ot.summary(corpus).text, {"path": "x", "width": 70}),
        "compare on disk": Call(ot.compare, {"corpus": on_disk, "methods": ["uniform"]}),
        "credit on disk": Call(ot.credit, {"corpus": on_disk, "method": "uniform"}),
        "decisions.table credits": on(ot.decisions.table, kind="spawn", credits=agents),
        "decisions.table stop": on(ot.decisions.table, kind="stop", source="turn", bounds=(-9.0, 9.0)),
        "distributed.plan on disk": Call(
            ot.distributed.plan, {"corpus": on_disk, "verb": "metrics", "folder": folder / "metrics plan"}
        ),
        "distributed.plan of an ingest": Call(
            ot.distributed.plan,
            {
                "corpus": recorded,
                "verb": "ingest",
                "folder": folder / "reading",
                "out": folder / "joined",
                "memory": "64MiB",
                "partitions": 2,
                "group": "group_id",
                "format": "native",
            },
        ),
        "effects.policy_values model": Call(
            ot.effects.policy_values,
            {
                "decisions": chosen,
                "policy": spawning.drop("q"),
                "outcome_model": spawning.drop("p"),
                "n_boot": 10,
            },
        ),
        "effects.policy_values sequence": Call(
            ot.effects.policy_values,
            {
                "decisions": chosen,
                "policy": "p_actions",
                "unit": "sequence",
                "reward": "reward",
                "n_boot": 10,
            },
        ),
        "evaluation.against_single_agent corpora": Call(
            ot.evaluation.against_single_agent, {"team": corpus, "single": corpus}
        ),
        "evaluation.free_ride credits": Call(ot.evaluation.free_ride, {"credits": agents}),
        "evaluation.failure_attribution credits": Call(
            ot.evaluation.failure_attribution, {"credits": turns, "labels": labels}
        ),
        "export dot": written("dot", folder / "x.dot", trace_id=ids[0], effects=effects),
        "export parquet": written("parquet", folder / "x"),
        "export verl": written("verl", folder / "v", credits=turns),
        "outcomes.fit folds": on(ot.outcomes.fit, targets="outcome", folds=2),
        "plot.envelopes table": Call(
            ot.plot.envelopes, {"table": ot.scaling.list_envelopes(), "corpora": {"mine": corpus}}
        ),
        "plot.stopping values": Call(ot.plot.stopping, {"frame": ot.stopping.evaluate(**few)}),
        "plot.taint frames": on(ot.plot.taint, trace=0, events=reached, cut=cut),
        "plot.timeline credit": on(ot.plot.timeline, trace=0, credit=credits),
        "read_traces file": Call(ot.read_traces, {"source": recorded}),
        "replay schedule": on(ot.replay, ot.interventions.speed_up(2.0, type="tool_call")),
        "scaling.diffusion_law methods": Call(
            ot.scaling.diffusion_law, {"lengths": (4, 8), "rollouts": 8, "replicates": 2, "n_boot": 10}
        ),
        "scaling.distance_to_published corpus": Call(ot.scaling.distance_to_published, {"data": corpus}),
        "stopping.evaluate uncapped": Call(ot.stopping.evaluate, {**few, "estimand": "uncapped"}),
        "stopping.evaluate_abort rule": Call(
            ot.stopping.evaluate_abort, {"epochs": epochs, "rules": rule, "n_boot": 10}
        ),
        "stopping.evaluate_abort alarms": Call(
            ot.stopping.evaluate_abort, {"epochs": epochs, "rules": rule.apply(epochs), "n_boot": 10}
        ),
        "stopping.fit learned": Call(ot.stopping.fit, {"epochs": answers}),
        "stopping.fit_abort ville": Call(ot.stopping.fit_abort, {"epochs": epochs, "method": "ville"}),
        "stopping.epochs_from_frame tokens": Call(
            ot.stopping.epochs_from_frame, {"frame": scored, "tokens": "tokens"}
        ),
        "stopping.unused_runs tokens": Call(ot.stopping.unused_runs, {"frame": scored, "tokens": "tokens"}),
    }


HOSTILE: dict[str, Any] = {
    "none": None,
    "empty text": "",
    "unknown word": "nope",
    "nul": "a\0b",
    "escape": "\x1b[31mred",
    "lines": "two\nlines",
    "surrogate": "\ud800",
    "long": "x" * 300,
    "bytes": b"x",
    "true": True,
    "zero": 0,
    "negative": -1,
    "huge": 10**30,
    "nan": math.nan,
    "infinite": math.inf,
    "largest": 1.7e308,
    "fraction": 0.3,
    "complex": 1j,
    "object": object(),
    "type": int,
    "callable": lambda *args: None,
    "no list": [],
    "list of none": [None],
    "list of numbers": [3, -1],
    "list of nan": [math.nan],
    "list of words": ["nope"],
    "list of lists": [[]],
    "tuple": ("nope", {"nope": 1}),
    "three": (1, 2, 3),
    "set": {"nope"},
    "no dict": {},
    "dict": {"nope": 1},
    "dict of numbers": {1: 2},
    "dict of nan": {"team": math.nan},
    "dict of none": {"team": None},
    "scalar": np.array(3),
    "array": np.array([[1.0, math.nan]]),
    "expression": pl.col("nope"),
    "type of expression": pl.col("trace").cast(pl.Date) + pl.lit("x"),
    "frame": pl.DataFrame(),
    "other frame": pl.DataFrame({"x": [1]}),
    "lazy frame": pl.LazyFrame({"x": [1]}).select("y"),
    "series": pl.Series("x", [1, 2]),
    "file": io.BytesIO(b"{}"),
    "text file": io.StringIO("{}"),
    "drop": ot.interventions.drop(each="agent"),
}
"""What a parameter of any kind may be given by mistake."""


def damaged(frame: pl.DataFrame, rng: random.Random) -> Iterator[tuple[str, Any]]:
    """The frame, with one thing wrong."""
    yield "no row", frame.clear()
    yield "twice", pl.concat([frame, frame])
    yield "unknown column", frame.with_columns(pl.lit(1).alias("nope"))
    yield "nul column", frame.with_columns(pl.lit(1).alias("a\0b"))
    yield "control column", frame.with_columns(pl.lit(1).alias("\x1b[31m"))
    yield "not a plan that works", frame.lazy().with_columns(pl.col("nope"))
    yield "arrow", frame.to_arrow() if all(str(t) != "Object" for t in frame.dtypes) else frame
    for name in frame.columns:
        yield f"without {name}", frame.drop(name)
        yield f"{name} renamed", frame.rename({name: name.upper() + "x"})
        odd: dict[str, Any] = {
            "null": pl.lit(None),
            "typed null": pl.lit(None, frame.schema[name]),
            "text": pl.lit("nope"),
            "integer": pl.lit(-1),
            "large": pl.lit(2**63, pl.UInt64),
            "nan": pl.lit(math.nan),
            "infinite": pl.lit(math.inf),
            "bool": pl.lit(True),
            "date": pl.lit("2026-01-01").str.to_date(),
            "list": pl.concat_list(pl.lit(1), pl.lit(2)),
            "struct": pl.struct(a=pl.lit(1)),
            "binary": pl.lit(b"\xff"),
            "decimal": pl.lit("1.5").cast(pl.Decimal(10, 2)),
        }
        for kind, expression in odd.items():
            yield f"{name} {kind}", frame.with_columns(expression.alias(name))
        if frame.height > 1:
            at = rng.randrange(frame.height)
            index = pl.int_range(pl.len())
            yield (
                f"{name} null at {at}",
                frame.with_columns(pl.when(index != at).then(pl.col(name)).alias(name)),
            )


def odd_paths(folder: Path) -> dict[str, Any]:
    """Names of files that cannot be read, or cannot be written."""
    (folder / "a folder").mkdir(exist_ok=True)
    (folder / "a folder" / "full").write_text("x")
    (folder / "binary").write_bytes(bytes(range(256)))
    (folder / "papers.toml").write_text("x = [")
    locked = folder / "locked"
    locked.mkdir(exist_ok=True)
    os.chmod(locked, 0o500)
    return {
        "folder": folder / "a folder",
        "absent": folder / "no" / "such" / "place",
        "below a file": folder / "binary" / "x",
        "binary": folder / "binary",
        "broken toml": folder / "papers.toml",
        "full disk": "/dev/full",
        "below a device": "/dev/null/x",
        "proc": "/proc/x",
        "locked": locked / "x",
        "home": "~/no/such/place",
        "nobody's home": "~no_such_user/x",
        "too long": folder / ("n" * 300),
        "far too long": "/".join(["d" * 200] * 40),
        "control": folder / "a\nb\x1b[31m" / "x",
        "bytes": os.fsencode(folder / "x"),
        "surrogate": str(folder / "\udcff" / "x"),
    }
