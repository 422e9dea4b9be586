"""Calls of every public verb that work, and values that none of their parameters is meant for."""

import inspect
import io
import math
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import orchestrace as ot

EXAMPLES = Path(__file__).parents[2] / "examples"
UNSEEN = frozenset({"progress", "threads"})
"""Parameters that have a test of their own: a bar, and threads that stay for the life of a process."""


@dataclass(frozen=True)
class Call:
    """A call that works: what is called, and arguments by name."""

    verb: Callable[..., Any]
    given: dict[str, Any] = field(default_factory=dict)
    rest: tuple[Any, ...] = ()

    def parameters(self) -> list[str]:
        """Names of the parameters that can be given by name."""
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        names = inspect.signature(self.verb).parameters.values()
        return [one.name for one in names if one.kind in kinds and one.name not in UNSEEN]

    def answer(self, changed: dict[str, Any]) -> Any:
        """What the call gives with some arguments changed."""
        given = {**self.given, **changed}
        if not self.rest:
            return self.verb(**given)
        first = next(iter(inspect.signature(self.verb).parameters))
        return self.verb(given.pop(first), *self.rest, **given)


def calls(folder: Path) -> dict[str, Call]:
    """A call of every public function and method that takes something."""
    recorded, stored = folder / "runs.jsonl", folder / "stored"
    ot.generate(recorded, traces=6, seed=3)
    ot.ingest(recorded, stored)
    price_list = folder / "prices.csv"
    price_list.write_text("model,input,output\nours-7b,1,2\n")
    corpus = ot.read_traces(recorded)
    credits, agents = ot.credit(corpus), ot.credit(corpus, unit="agent")
    turns = ot.credit(corpus, method="broadcast", unit="turn")
    tokens = ot.credit(corpus, method="broadcast", unit="token")
    planted, _ = ot.synthetic.planted(traces=6, seed=1)
    labels = ot.evaluation.place_labels(corpus)
    curve = ot.schedules.scaling_curve(corpus)
    rng = random.Random(0)
    points = pl.DataFrame(
        [
            {"trace_id": f"t{n}", "n": float(x), "y": x**-0.5 * rng.uniform(0.9, 1.1), "by": "ab"[n % 2]}
            for n in range(12)
            for x in (1, 2, 4, 8, 16)
        ]
    )
    law = ot.scaling.fit_law(points, x="n", y="y", n_boot=10)
    ids = corpus.traces.select("trace_id").collect()["trace_id"]
    tables = {
        name: getattr(corpus, name).collect() for name in ("traces", "events", "edges", "measures", "labels")
    }
    measures = pl.DataFrame({"trace_id": ids, "quality": [float(n) for n in range(len(ids))]})
    fields = tables["events"].select("trace", "seq", cost_usd=pl.lit(0.5))
    row = credits.row(3, named=True)
    study: dict[str, Any] = {
        "seed": 1,
        "sizes": [{"events": 12, "agents": 3, "traces": 4, "group_size": 2}],
        "presets": {"linear": {}},
        "methods": [{"name": "uniform"}],
        "units": ["event"],
    }
    ot.study.run(study, folder / "study")

    def on(verb: Callable[..., Any], *rest: Any, **given: Any) -> Call:
        return Call(verb, {"corpus": corpus, **given}, rest)

    effects = ot.replay(corpus, ot.interventions.drop(each="agent"))
    even = ot.credit(corpus, method="uniform")
    reached, cut = ot.safety.tainted_events(corpus), ot.safety.sanitizer_cut(corpus)
    scored = pl.DataFrame(
        [
            {"run": f"r{n:02}", "step": k, "score": rng.random(), "success": n % 3 > 0, "tokens": k}
            for n in range(40)
            for k in (1, 2, 3)
        ]
    )
    epochs = ot.stopping.from_frame(scored, tokens="tokens")
    rule = ot.stopping.fit_abort(epochs, alpha=0.3)
    release = ot.stopping.fit_release(epochs, alpha=0.3)
    rewards = ot.rewards.compute(corpus, ["finish", "tokens"])
    answers, _ = ot.synthetic.stops(runs=40, seed=1)
    stop = ot.stopping.fit(answers, "lsm")
    few = {"epochs": answers, "methods": ["fixed", "lsm"], "n_boot": 10}
    curve_of_stops = ot.stopping.frontier(**few, prices=[0.0, 0.1])
    chosen, worth = ot.synthetic.choices(runs=60, steps=2, seed=1)
    spawning = pl.DataFrame({"action": ["spawn", "no_spawn"], "p": [0.4, 0.6], "q": [0.5, 0.4]})
    plan = ot.distributed.plan(stored, "taint", folder=folder / "plan")
    done = [ot.distributed.run_task(task) for task in plan.tasks]
    return {
        "distributed.plan": Call(
            ot.distributed.plan, {"corpus": stored, "verb": "taint", "folder": folder / "plan"}
        ),
        "distributed.plan on disk": Call(
            ot.distributed.plan,
            {"corpus": ot.read_corpus(stored), "verb": "metrics", "folder": folder / "metrics plan"},
        ),
        "distributed.processes": Call(ot.distributed.processes, {"workers": 1, "folder": folder}),
        "distributed.ray": Call(ot.distributed.ray, {"address": "auto", "folder": folder}),
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
        "distributed.reduce": Call(
            ot.distributed.reduce, {"work": done, "sink": folder / "taint.parquet", "overwrite": True}
        ),
        "distributed.run": Call(ot.distributed.run, {"plan": plan, "workers": 1}),
        "distributed.run_task": Call(ot.distributed.run_task, {"task": plan.tasks[0]}),
        "distributed.status": Call(ot.distributed.status, {"plan": folder / "plan"}),
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
        "PartitionedCorpus.with_fields": Call(ot.read_corpus(stored).with_fields, {"frame": fields}),
        "PartitionedCorpus.with_measures": Call(ot.read_corpus(stored).with_measures, {"frame": measures}),
        "PartitionedCorpus.write_jsonl": Call(
            ot.read_corpus(stored).write_jsonl, {"target": folder / "p.jsonl", "overwrite": True}
        ),
        "Story.sentences": Call(ot.story(corpus).sentences, {"path": "x"}),
        "Story.text": Call(ot.story(corpus).text, {"path": "x", "width": 70}),
        "evaluation.against_single_agent": Call(
            ot.evaluation.against_single_agent, {"team": corpus, "single": corpus}
        ),
        "interventions.aggregate_by": Call(ot.interventions.aggregate_by, {"rule": "best"}),
        "effects.aggregation": on(ot.effects.aggregation),
        "evaluation.agreement": on(ot.evaluation.agreement, a=credits, b=credits, n_boot=10),
        "interventions.cap_stragglers": Call(ot.interventions.cap_stragglers, {"quantile": 0.5}),
        "compare": on(ot.compare, methods=["uniform", "flow"]),
        "compare on disk": Call(ot.compare, {"corpus": ot.read_corpus(stored), "methods": ["uniform"]}),
        "evaluation.compare_metrics": Call(
            ot.evaluation.compare_metrics, {"a": corpus, "b": corpus, "names": ["work"]}
        ),
        "interventions.concurrency": Call(ot.interventions.concurrency, {"slots": 2}),
        "schedules.concurrency_profile": on(ot.schedules.concurrency_profile),
        "costs.prices": Call(ot.costs.prices, {}),
        "costs.read_prices": Call(ot.costs.read_prices, {"path": price_list}),
        "costs.spawns": on(ot.costs.spawns),
        "costs.table": on(ot.costs.table),
        "decisions.contexts": on(ot.decisions.contexts),
        "decisions.table": on(ot.decisions.table, kind="spawn", credits=agents),
        "decisions.table stop": on(ot.decisions.table, kind="stop", source="turn", bounds=(-9.0, 9.0)),
        "credit": on(ot.credit, method="flow"),
        "credit on disk": Call(ot.credit, {"corpus": ot.read_corpus(stored), "method": "uniform"}),
        "scaling.credit_snr": on(ot.scaling.credit_snr, credits=credits),
        "schedules.critical_path": on(ot.schedules.critical_path),
        "effects.delegation": on(ot.effects.delegation),
        "scaling.diffusion_law": Call(
            ot.scaling.diffusion_law, {"lengths": (4, 8), "rollouts": 8, "replicates": 2, "n_boot": 10}
        ),
        "schedules.dominators": on(ot.schedules.dominators),
        "schedules.drag": on(ot.schedules.drag),
        "interventions.drop": Call(ot.interventions.drop, {"agent": "lead"}),
        "explain": on(ot.explain, credits=credits, unit_id=row["unit_id"], trace=row["trace"]),
        "export dot": on(ot.export, format="dot", path=folder / "x.dot", trace_id=ids[0], overwrite=True),
        "export parquet": on(ot.export, format="parquet", path=folder / "x", overwrite=True),
        "export perfetto": on(ot.export, format="perfetto", path=folder / "x.json", overwrite=True),
        "export verl": on(ot.export, format="verl", path=folder / "v", credits=turns, overwrite=True),
        "export_size": on(ot.export_size, format="perfetto"),
        "evaluation.faithfulness": on(ot.evaluation.faithfulness, credits=credits, steps=3, orders=2),
        "scaling.fit_law": Call(ot.scaling.fit_law, {"frame": points, "x": "n", "y": "y", "n_boot": 5}),
        "outcomes.fit": Call(ot.outcomes.fit, {"corpus": planted, "targets": "outcome", "folds": 2}),
        "schedules.fit_scaling": Call(ot.schedules.fit_scaling, {"curve": curve}),
        "evaluation.free_ride": Call(ot.evaluation.free_ride, {"credits": agents}),
        "games.values": Call(ot.games.values, {"value": lambda masks: masks.sum(axis=1), "n_players": 3}),
        "scaling.gap": Call(ot.scaling.gap, {"data": corpus}),
        "generate": Call(ot.generate, {"traces": 2}),
        "synthetic.planted": Call(ot.synthetic.planted, {"traces": 2}),
        "ingest": Call(ot.ingest, {"source": recorded, "out": folder / "again"}),
        "evaluation.ledger": on(ot.evaluation.ledger, credits=credits),
        "evaluation.localization": Call(ot.evaluation.localization, {"credits": turns, "labels": labels}),
        "mapping.check": Call(ot.mapping.check, {"mapping": {}, "source": recorded}),
        "effects.matched": on(ot.effects.matched, treatment=pl.col("type") == "tool_call"),
        "interventions.merge": Call(ot.interventions.merge, {"agents": ["a", "b"]}),
        "effects.message": on(ot.effects.message),
        "metrics": on(ot.metrics),
        "effects.policy_values": Call(
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
        "rewards.attach": on(ot.rewards.attach, rewards=rewards),
        "rewards.balance": on(ot.rewards.balance, rewards=rewards, weights={"finish": 1.0}, n_boot=10),
        "rewards.compute": on(ot.rewards.compute, rewards="parl"),
        "rewards.explain": on(ot.rewards.explain, trace=0, reward="tokens"),
        "rewards.failure_modes": on(ot.rewards.failure_modes, n_boot=10),
        "rewards.hazards": on(ot.rewards.hazards, rewards=rewards, n_boot=10),
        "rewards.mix": Call(ot.rewards.mix, {"rewards": rewards, "weights": {"finish": 1.0}}),
        "rewards.verifier_health": on(ot.rewards.verifier_health, n_boot=10),
        "outcomes.sensitivity": on(
            ot.outcomes.sensitivity, method="difference", outcomes=("noisy_or", "mean")
        ),
        "evaluation.place_labels": on(ot.evaluation.place_labels),
        "plot.agreement": on(ot.plot.agreement, credits=[credits, even]),
        "plot.credit": Call(ot.plot.credit, {"credits": agents}),
        "plot.effects": Call(ot.plot.effects, {"frame": effects}),
        "plot.envelopes": Call(
            ot.plot.envelopes, {"table": ot.scaling.envelopes(), "corpora": {"mine": corpus}}
        ),
        "plot.laws": Call(ot.plot.laws, {"fit": law, "data": points, "x": "n", "y": "y"}),
        "plot.save": Call(
            ot.plot.save,
            {"chart": ot.plot.spawn_tree(corpus, 0), "path": folder / "tree.svg", "overwrite": True},
        ),
        "plot.scaling": Call(ot.plot.scaling, {"curve": curve}),
        "plot.spawn_tree": on(ot.plot.spawn_tree, trace=0),
        "plot.stopping": Call(ot.plot.stopping, {"frame": curve_of_stops}),
        "plot.stopping values": Call(ot.plot.stopping, {"frame": ot.stopping.evaluate(**few)}),
        "plot.taint": on(ot.plot.taint, trace=0, events=reached, cut=cut),
        "plot.timeline": on(ot.plot.timeline, trace=0, credit=credits),
        "scaling.predict_law": Call(ot.scaling.predict_law, {"fit": law, "at": 20.0}),
        "read_corpus": Call(ot.read_corpus, {"path": stored}),
        "read_traces": Call(ot.read_traces, {"source": recorded}),
        "interventions.remove": Call(ot.interventions.remove, {"agent": "lead"}),
        "replay": on(ot.replay, ot.interventions.drop(each="agent")),
        "replay schedule": on(ot.replay, ot.interventions.speed_up(2.0, type="tool_call")),
        "report": on(ot.report),
        "evaluation.pass_rates": on(ot.evaluation.pass_rates),
        "evaluation.report_checklist": on(ot.evaluation.report_checklist),
        "scaling.rollouts_needed": Call(ot.scaling.rollouts_needed, {"n": 8}),
        "safety.sanitizer_cut": on(ot.safety.sanitizer_cut),
        "schedules.scaling_curve": on(ot.schedules.scaling_curve),
        "scan_traces": Call(lambda **given: ot.scan_traces(**given).collect(), {"source": recorded}),
        "scan_events": Call(lambda **given: ot.scan_events(**given).collect(), {"source": recorded}),
        "schedules.schedule": on(ot.schedules.schedule, slots=2),
        "interventions.set_value": Call(ot.interventions.set_value, {"to": 0.5, "agent": "lead"}),
        "evaluation.sibling_diagnostics": on(ot.evaluation.sibling_diagnostics),
        "effects.spawn": on(ot.effects.spawn),
        "interventions.speed_up": Call(ot.interventions.speed_up, {"factor": 2.0}),
        "interventions.split": Call(ot.interventions.split, {"agent": "lead"}),
        "stopping.abort_looks": Call(ot.stopping.abort_looks, {"epochs": epochs, "rule": rule}),
        "stopping.calibration_needed": Call(ot.stopping.calibration_needed, {"alpha": 0.1}),
        "stopping.epochs": on(ot.stopping.epochs),
        "stopping.evaluate": Call(ot.stopping.evaluate, dict(few)),
        "stopping.evaluate_abort": Call(
            ot.stopping.evaluate_abort, {"epochs": epochs, "rules": rule, "n_boot": 10}
        ),
        "stopping.evaluate_abort alarms": Call(
            ot.stopping.evaluate_abort,
            {"epochs": epochs, "rules": rule.apply(epochs), "n_boot": 10},
        ),
        "stopping.evaluate_release": Call(ot.stopping.evaluate_release, {"epochs": epochs, "rule": release}),
        "stopping.export": Call(ot.stopping.export, {"epochs": answers}),
        "stopping.features": Call(ot.stopping.features, {"epochs": epochs}),
        "stopping.fit": Call(ot.stopping.fit, {"epochs": answers}),
        "stopping.fit_abort": Call(ot.stopping.fit_abort, {"epochs": epochs, "alpha": 0.3}),
        "stopping.fit_abort ville": Call(ot.stopping.fit_abort, {"epochs": epochs, "method": "ville"}),
        "stopping.fit_release": Call(ot.stopping.fit_release, {"epochs": epochs, "alpha": 0.3}),
        "stopping.from_frame": Call(ot.stopping.from_frame, {"frame": scored, "tokens": "tokens"}),
        "stopping.frontier": Call(ot.stopping.frontier, {**few, "prices": [0.0, 0.1]}),
        "stopping.frontier_area": Call(
            ot.stopping.frontier_area, {"curve": curve_of_stops, "method": "lsm", "other": "fixed"}
        ),
        "stopping.evaluate uncapped": Call(ot.stopping.evaluate, {**few, "estimand": "uncapped"}),
        "stopping.overlap": Call(ot.stopping.overlap, {"epochs": answers}),
        "stopping.quarantined": Call(ot.stopping.quarantined, {"frame": scored, "tokens": "tokens"}),
        "stopping.regret": Call(ot.stopping.regret, {"epochs": answers}),
        "StoppingRule.apply": Call(stop.apply, {"epochs": answers}),
        "synthetic.gamed": Call(ot.synthetic.gamed, {"game": "tool_spam", "tasks": 3, "runs_per_task": 2}),
        "ChoiceTruth.value": Call(worth.value, {"spawn": {"easy": 0.5, "hard": 0.5}}),
        "synthetic.choices": Call(ot.synthetic.choices, {"runs": 5}),
        "synthetic.stops": Call(ot.synthetic.stops, {"runs": 5}),
        "AbortRule.apply": Call(rule.apply, {"epochs": epochs}),
        "AbortRule.at": Call(rule.at, {"alpha": 0.2}),
        "ReleaseRule.apply": Call(release.apply, {"epochs": epochs}),
        "story": on(ot.story),
        "view": on(ot.view, path=folder / "view.html", runs=1, overwrite=True),
        "study.downscale": on(ot.study.downscale, methods=["uniform"], min_events=2),
        "study.load": Call(ot.study.load, {"folder": folder / "study"}),
        "study.parse_config": Call(ot.study.parse_config, {"given": study}),
        "study.prefixes": on(ot.study.prefixes, share=0.5),
        "study.read_config": Call(ot.study.read_config, {"path": EXAMPLES / "study.toml"}),
        "study.report": Call(ot.study.report, {"folder": folder / "study"}),
        "study.run": Call(ot.study.run, {"config": study, "folder": folder / "study"}),
        "scaling.survey": Call(ot.scaling.survey, {"path": folder / "papers.csv"}),
        "taint": on(ot.taint),
        "safety.tainted_events": on(ot.safety.tainted_events),
        "trainers.token_credits": on(ot.trainers.token_credits, credits=tokens),
        "trainers.token_weights": on(ot.trainers.token_weights),
        "trainers.trainer_table": on(ot.trainers.trainer_table, credits=turns),
        "interventions.truncate": Call(ot.interventions.truncate, {"at": 1.0}),
        "write effects": on(
            ot.export, format="dot", path=folder / "e.dot", trace_id=ids[0], effects=effects, overwrite=True
        ),
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
