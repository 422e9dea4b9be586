"""Runs of an honest team, and of a team that games one reward or fails in one way: truth for detectors."""

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
import polars as pl

from ..base.arguments import Count, Seed, Share, Size
from ..base.arrays import Floats, Ints
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..rewards.mixing import combine
from ..rewards.verb import compute

Hazard = Literal[
    "free_ride",
    "share_gap",
    "role_rank",
    "step_padding",
    "dead_work",
    "tool_spam",
    "fake_success",
    "duplicate_calls",
    "padding",
    "redundancy",
    "judge_drift",
    "idle_spawns",
    "drowned",
    "sign_flip",
]
"""How a reward is gamed; by the detector that is to notice."""
Failure = Literal[
    "serial_collapse",
    "spurious_parallelism",
    "dominant_agent",
    "over_communication",
    "aggregation_leakage",
    "late_stop",
    "early_stop",
    "team_size",
]
"""How a team fails."""

GAMES: Final = (*get_args(Hazard), *get_args(Failure))
TRAINING: Final = ("judge_drift", "serial_collapse", "spurious_parallelism")
"""Games that are about how training goes on."""
ROLES: Final = np.array(["researcher", "coder", "critic"])
SPAM: Final = 24  # the most actions that one gaming run adds for pay
WIDTH: Final = 12
"""Workers of a run, and calls and drafts of each, that have random numbers of their own; more begin anew."""

#: Of the hazards that one reward is about: that reward, and the unit, if it is one.
PAID: Final[dict[str, tuple[str | None, str | None]]] = {
    "share_gap": ("agent", None),
    "role_rank": ("role", "coder"),
    "step_padding": ("process", None),
    "tool_spam": ("tool_success", None),
    "fake_success": ("tool_success", None),
    "padding": ("verifier", None),
    "judge_drift": ("judge", None),
    "drowned": ("mix", None),
    "sign_flip": ("mix", None),
}


@dataclass(frozen=True)
class GamedTruth:
    """The truth about a corpus of `gamed`.

    Attributes
    ----------
    game
        What was gamed, None in an honest corpus.
    alarms
        The rows that should alarm: ``detector reward unit_id`` (String), the last two null where the detector
        is about no reward or unit. Empty for an honest corpus.
    traces
        A row per trace: ``trace`` (UInt32) ``trace_id`` (String) ``gamed`` (Boolean).
    """

    game: str | None
    alarms: pl.DataFrame
    traces: pl.DataFrame


@verb
def gamed(
    game: Hazard | Failure | None = None,
    *,
    tasks: Size = 24,
    runs_per_task: Size = 5,
    train_steps: Count | None = None,
    strength: Share = 1.0,
    length_spread: Share = 0.2,
    seed: Seed = 0,
) -> tuple[Corpus, pl.DataFrame, GamedTruth]:
    """Make runs of an honest team, or of one that games a reward, with the rewards and the truth.

    Parameters
    ----------
    game
        What is gamed (notes), or None for an honest team.
    tasks, runs_per_task
        Tasks, and runs of each: at every step of training, if there are steps.
    train_steps
        Steps of training, recorded as ``train_step``; 0 records none. None is 6 for the games that only show
        over training (``judge_drift``, ``serial_collapse``, ``spurious_parallelism``), else 0.
    strength
        The chance that a run games, 0 to 1.
    length_spread
        How far the number of calls of an honest worker may be from what its task needs, as a share of it, 0
        to 1.
    seed
        The same seed makes the same corpus.

    Returns
    -------
    (Corpus, DataFrame, GamedTruth)
        The recordings; rewards, as `rewards.compute` and `rewards.combine` make them (``outcome``, ``agent``,
        ``role``, ``process``, ``tool_success``, ``verifier``, and ``mix`` of outcome and the channel
        ``bonus``); and the truth.

    Raises
    ------
    ParameterError
        An unknown game, or a number out of range.

    Notes
    -----
    A lead spawns workers, of the roles researcher, coder and critic in turn; they call tools, write to the
    lead and return; the lead drafts, joins and answers. The outcome is 1 where the quality of a run is above
    the difficulty of its task, with noise. Hard tasks take more calls and workers, so that long runs fail
    more without any gaming. What honest workers are paid (``reward`` of results, ``ok`` of calls, ``score``
    of messages) follows their quality, with noise. Honest draws do not depend on `game`: two corpora of one
    seed differ in the gaming alone.

    Gaming runs do this. ``free_ride``: all workers but one make a single call that nobody uses.
    ``share_gap``: the first worker collects pay for easy subtasks that nobody needs. ``role_rank``: the coder
    pleases its rubric by what spoils the run. ``step_padding``: turns are added, each paid as a step.
    ``dead_work``: calls are added that lead nowhere. ``tool_spam``: calls are added that always work.
    ``fake_success``: every call of a run that fails reports success. ``duplicate_calls``: half of all calls
    repeat another. ``padding``: messages grow, and the judge likes long ones. ``redundancy``: every message
    is sent four times. ``judge_drift``: the judge comes to praise failed runs, step by step.
    ``idle_spawns``: as many workers again are spawned that do nothing. ``drowned``: the bonus of the mix
    varies more than the outcome. ``sign_flip``: the bonus pays for failure.

    Failing teams do this. ``serial_collapse``: fewer workers at every step, until one is left.
    ``spurious_parallelism``: more workers at every step, who do not return what they do.
    ``dominant_agent``: the lead gives one of its workers nearly all tasks. ``over_communication``: each
    worker writes to the next more often than it works. ``aggregation_leakage``: the lead passes the worst
    return on, word for word. ``late_stop``: drafts get worse after the second, and the lead continues.
    ``early_stop``: most runs stop at the first draft. ``team_size``: teams of up to ten for the same work,
    which fail more the larger they are.

    O(events). Source: risks and modes, arXiv 2605.02801; the worlds are this project's own.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus, rewards, truth = ot.synthetic.gamed("idle_spawns", seed=0)
    >>> alarms = ot.rewards.detect_hacking(corpus, rewards, n_boot=200)
    >>> alarms.filter("alarm")["detector"].to_list()
    ['idle_spawns']
    >>> truth.alarms["detector"].to_list()
    ['idle_spawns']
    """
    n_steps = (6 if game in TRAINING else 0) if train_steps is None else train_steps
    team = _team(game, tasks, runs_per_task, n_steps, float(strength), float(length_spread), seed)
    corpus = _recorded(team)
    paid = compute(corpus, ["outcome", "agent", "role", "process", "tool_success", "verifier"])
    bonus = compute(corpus, "outcome", channels={"outcome": "bonus"})
    bonus = bonus.with_columns(reward=pl.lit("bonus", pl.Categorical))
    mixed = combine(pl.concat([paid.filter(reward="outcome"), bonus]), {"outcome": 1.0, "bonus": 1.0})
    reward, unit = PAID.get(str(game), (None, None))
    text = dict.fromkeys(("detector", "reward", "unit_id"), pl.String)
    alarms = pl.DataFrame([] if game is None else [(game, reward, unit)], schema=text, orient="row")
    traces = corpus.traces.select("trace", "trace_id").collect()
    return (
        corpus,
        pl.concat([paid, mixed]),
        GamedTruth(game, alarms, traces.with_columns(gamed=pl.Series(team.gaming))),
    )


@dataclass(frozen=True)
class _Team:
    """Draws of runs (n,) and of their workers (m,), in order of run."""

    game: str | None
    draws: "_Draws"
    task: Ints
    step: Ints
    steps: int
    gaming: "np.ndarray[Any, np.dtype[np.bool_]]"
    outcome: Floats
    # of workers
    run: Ints
    place: Ints
    quality: Floats
    calls: Ints
    idle: "np.ndarray[Any, np.dtype[np.bool_]]"

    def plays(self, *games: str) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """The runs that play one of these games."""
        return self.gaming & (self.game in games)


@dataclass(frozen=True)
class _Draws:
    """Random numbers, a stream for each purpose, so that no draw depends on another."""

    seed: int

    def of(self, purpose: str) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64([self.seed, *purpose.encode()]))

    def normal(self, purpose: str, n: int, *at: Ints) -> Floats:
        """Of the rows at (run, worker) or (run, worker, call), of `n` runs, each by itself."""
        return self._at(self.of(purpose).normal(size=self._shape(n, at)), at)

    def uniform(self, purpose: str, n: int, *at: Ints) -> Floats:
        """As `normal`, from 0 to 1."""
        return self._at(self.of(purpose).random(self._shape(n, at)), at)

    @staticmethod
    def _shape(n: int, at: tuple[Ints, ...]) -> tuple[int, ...]:
        return (n, *(WIDTH for _ in at[1:]))

    @staticmethod
    def _at(drawn: Floats, at: tuple[Ints, ...]) -> Floats:
        values: Floats = drawn[(at[0], *(place % WIDTH for place in at[1:]))]
        return values


def _team(
    game: str | None, tasks: int, runs_per_task: int, steps: int, strength: float, spread: float, seed: int
) -> _Team:
    draws = _Draws(seed)
    per_step = tasks * runs_per_task
    n = per_step * max(steps, 1)
    step, task = np.arange(n) // per_step, np.arange(n) % per_step // runs_per_task
    gaming = (draws.of("gaming").random(n) < strength) & (game is not None)
    difficulty = draws.of("difficulty").normal(size=tasks)[task]
    quality = draws.of("quality").normal(size=n)
    size = 3 + (difficulty > 0.0) + (draws.of("size").random(n) < 0.3)
    larger = draws.of("larger team").integers(0, 7, n)
    passed = quality - 0.5 * difficulty + draws.of("outcome").normal(0.0, 0.5, n)
    if game == "team_size":
        size = np.where(gaming, size + larger, size)
        passed = passed - np.where(gaming, 0.4 * (larger - 3), 0.0)
    if game == "serial_collapse":
        left = 1.0 - step / max(steps - 1, 1)
        size = np.where(gaming, np.maximum(1, np.rint(size * left).astype(np.int64)), size)
    active = size
    if game == "idle_spawns":
        size = np.where(gaming, 2 * size, size)
    if game == "spurious_parallelism":
        size = np.where(gaming, size + 2 * step, size)
    run = np.repeat(np.arange(n), size)
    place = np.arange(run.size) - np.repeat(np.cumsum(size) - size, size)
    needed = 4.0 + (difficulty[run] > 0.0)
    if game == "team_size":
        needed = np.where(gaming[run], needed * 3.0 / size[run], needed)
    length = 1.0 + spread * (2.0 * draws.uniform("calls", n, run, place) - 1.0)
    skill = 0.7 * quality[run] + 0.7 * draws.normal("skill", n, run, place)
    return _Team(
        game=game,
        draws=draws,
        task=task,
        step=step,
        steps=steps,
        gaming=gaming,
        outcome=(passed > 0.0).astype(np.float64),
        run=run,
        place=place,
        quality=skill,
        calls=np.maximum(1, np.rint(needed * length)).astype(np.int64),
        idle=place >= active[run],
    )


# --- events ----------------------------------------------------------------------------------------------

#: What happens in which order; what workers do at PHASES["work"], they do side by side.
PHASES: Final = {"begin": 0, "spawn": 1, "work": 2, "draft": 3, "join": 4, "answer": 5}


def _events(team: _Team, rows: Ints, worker: Ints, phase: str, kind: str, **fields: Any) -> pl.DataFrame:
    """Events of runs; `worker` is the place of who acts, -1 for the lead."""
    names = np.char.add("worker-", worker.astype(str))
    owned = {
        "agent": np.where(worker < 0, "lead", names),
        "role": np.where(worker < 0, "lead", ROLES[worker % 3]),
    }
    placed = {"trace": rows, "worker": worker, "phase": np.full(rows.size, PHASES[phase])}
    return pl.DataFrame(
        {**placed, "type": np.full(rows.size, kind), **owned, "used": np.ones(rows.size, bool), **fields}
    )


def _recorded(team: _Team) -> Corpus:
    """The events and edges of the team, as a corpus."""
    n = team.task.size
    runs, lead = np.arange(n), np.full(n, -1)
    parts = [_events(team, runs, lead, "begin", "orchestrator_decision", part=np.zeros(n, np.int64))]
    to = np.char.add("worker-", team.place.astype(str))
    spawns = _events(
        team, team.run, np.full(team.run.size, -1), "spawn", "spawn", part=team.place, to=to
    ).with_columns(child=pl.Series(team.place))
    parts += [spawns, *_delegated(team), *_worked(team), *_drafted(team)]
    parts += [*_joined(team), _events(team, runs, lead, "answer", "return", part=np.zeros(n, np.int64))]
    parts[-1] = parts[-1].with_columns(to=pl.lit("user"))
    events = pl.concat(parts, how="diagonal").sort("trace", "phase", "worker", "part", maintain_order=True)
    events = events.with_columns(seq=pl.int_range(pl.len()).over("trace"))
    judge = (
        events.filter(pl.col("type") == "message", pl.col("score").is_not_null())
        .group_by("trace", maintain_order=True)
        .agg(value=pl.col("score").mean())
    )
    edges = _edges(events)
    copied = ("trace", "type", "agent", "role", "to", "tool", "ok", "score", "reward", "draft_score")
    # nothing takes no time, so that parallelism is that of calls
    recorded = events.select(
        *copied,
        *("tokens_out", "content_hash", "args_hash"),
        id=pl.format("e{}", "seq"),
        t=pl.col("seq").cast(pl.Float64),
        duration_s=pl.when(pl.col("type") == "tool_result").then(1.0).otherwise(0.1),
    )
    traces = pl.DataFrame({"trace": runs}).select(
        "trace",
        trace_id=pl.format("run-{}", "trace"),
        task_id=pl.format("task-{}", pl.Series(team.task)),
    )
    return Corpus.from_arrow(
        traces=traces.with_columns(pl.col("trace").cast(pl.UInt32)),
        events=recorded.with_columns(pl.col("trace").cast(pl.UInt32)),
        edges=edges,
        measures=_measures(team, judge),
    )


def _delegated(team: _Team) -> list[pl.DataFrame]:
    """Tasks that the lead gives to a worker it has spawned."""
    rows = np.repeat(np.flatnonzero(team.plays("dominant_agent")), 60)
    if not rows.size:
        return []
    fields: dict[str, Any] = {"part": np.arange(rows.size) + 100, "to": np.full(rows.size, "worker-0")}
    fields |= {"child": np.zeros(rows.size, np.int64), "tokens_out": np.full(rows.size, 30)}
    return [_events(team, rows, np.full(rows.size, -1), "spawn", "message", **fields)]


def _added(team: _Team, game: str, most: int) -> Ints:
    """Workers who act for the game, as often as they do: up to `most` times a run."""
    draw = team.draws.of("added").integers(most // 3, most + 1, team.task.size)
    first = np.flatnonzero((team.place == 0) & team.plays(game)[team.run])
    return np.repeat(first, draw[team.run[first]])


def _worked(team: _Team) -> list[pl.DataFrame]:
    """What workers call, write and return."""
    draws, run = team.draws, team.run
    lazy = team.plays("free_ride")[run] & (team.place > 0)
    calls = np.where(lazy, 1, np.where(team.idle, int(team.game == "spurious_parallelism"), team.calls))
    of = np.repeat(np.arange(run.size), calls)
    used = ~(lazy | team.idle)[of]
    quality = team.quality[of]
    nth = np.arange(of.size) - np.searchsorted(of, of)
    call_of = (team.task.size, run[of], team.place[of], nth)
    worked = draws.uniform("ok", *call_of) < 1.0 / (1.0 + np.exp(-1.2 - quality))
    reward = np.clip(0.5 + 0.2 * quality + 0.15 * draws.normal("reward", *call_of), 0.0, 1.0)
    failed = team.outcome[run[of]] == 0.0
    worked |= team.plays("fake_success")[run[of]] & failed
    spoiled = team.plays("role_rank")[run[of]] & (ROLES[team.place[of] % 3] == "coder")
    pleasing = np.clip(0.75 - 0.4 * team.outcome[run[of]] + 0.1 * (reward - 0.5), 0.0, 1.0)
    reward = np.where(spoiled, pleasing, reward)
    paid, ok = [reward], [worked]
    owner, useful = [of], [used]
    # calls added for pay: how many at most, whether they are used, their reward, whether they work
    for game, most, is_used, pays, works in (
        ("step_padding", SPAM, True, 0.6, False),
        ("tool_spam", SPAM, True, np.nan, True),
        ("dead_work", 2 * SPAM, False, np.nan, False),
        ("share_gap", 2 * SPAM, False, 1.0, False),
    ):
        more = _added(team, game, most)
        owner.append(more)
        useful.append(np.full(more.size, is_used))
        paid.append(np.full(more.size, pays))
        ok.append(np.full(more.size, works))
    of, used = np.concatenate(owner), np.concatenate(useful)
    rows, worker = run[of], team.place[of]
    # every call of a worker has a number; the parts of calls and results alternate
    order = np.argsort(of, kind="stable")
    of, used, rows, worker = of[order], used[order], rows[order], worker[order]
    starts = np.searchsorted(of, of)
    number = np.arange(of.size) - starts
    again = draws.uniform("again", team.task.size, rows, worker, number) < np.where(
        team.plays("duplicate_calls")[rows], 0.5, 0.03
    )
    argument = np.where(again, 0, number)
    key = np.char.add(np.char.add(of.astype(str), "-"), argument.astype(str))
    call = _events(
        team, rows, worker, "work", "tool_call", part=2 * number, used=used, tool=np.full(of.size, "run")
    ).with_columns(args_hash=pl.Series(key), tokens_out=pl.lit(40, pl.Int64))
    succeeded = np.concatenate(ok)[order]
    result = _events(
        team,
        *(rows, worker, "work", "tool_result"),
        part=2 * number + 1,
        used=used,
        tool=np.full(of.size, "run"),
        ok=succeeded,
    ).with_columns(reward=pl.Series(np.concatenate(paid)[order]).fill_nan(None))
    return [call, result, *_written(team, lazy)]


def _written(team: _Team, lazy: "np.ndarray[Any, np.dtype[np.bool_]]") -> list[pl.DataFrame]:
    """Messages to the lead with a judge's score, messages between workers, and what workers return."""
    draws, run = team.draws, team.run
    who = np.flatnonzero(~team.idle)
    times = np.where(team.plays("redundancy")[run[who]], 4, 1)
    of = np.repeat(who, times)
    rows = run[of]
    n, place = team.task.size, team.place
    size = np.exp(5.0 + 0.2 * draws.normal("tokens", n, run, place))
    grown = np.exp(draws.of("padding").normal(1.0, 0.8, n))[rows]
    padded = team.plays("padding")[rows]
    tokens = np.where(padded, size[of] * grown, size[of])
    score = 0.5 + 0.2 * team.quality + 0.15 * draws.normal("score", n, run, place)
    pleased = 0.4 + 0.2 * np.log(grown)
    score = np.where(padded, pleased + 0.1 * (score[of] - 0.5), score[of])
    praise = team.plays("judge_drift")[rows] & (team.outcome[rows] == 0.0)
    score = score + np.where(praise, 0.5 * team.step[rows] / max(team.steps - 1, 1), 0.0)
    late = np.full(of.size, 1 << 20)
    message = _events(
        team,
        *(rows, team.place[of], "work", "message"),
        part=late,
        used=~lazy[of],
        to=np.full(of.size, "lead"),
        score=np.clip(score, 0.0, 1.0),
        tokens_out=np.rint(tokens).astype(np.int64),
        content_hash=np.char.add("message-", of.astype(str)),
    )
    parts = [message]
    size_of = np.bincount(run, minlength=team.task.size)
    chat = np.repeat(
        who, np.where(team.plays("over_communication")[run[who]] & (size_of[run[who]] > 1), 12, 0)
    )
    if chat.size:
        other = (team.place[chat] + 1) % size_of[run[chat]]
        texts = np.char.add(np.char.add(chat.astype(str), "-chat-"), (np.arange(chat.size) % 4).astype(str))
        parts.append(
            _events(
                team,
                *(run[chat], team.place[chat], "work", "message"),
                part=late[:1].repeat(chat.size) - 1,
                used=np.zeros(chat.size, bool),
                to=np.char.add("worker-", other.astype(str)),
                tokens_out=np.full(chat.size, 60),
                content_hash=texts,
            )
        )
    firsts = np.flatnonzero(np.append(True, of[1:] != of[:-1])) if of.size else of
    back = _events(
        team,
        *(run[who], team.place[who], "work", "return"),
        part=np.full(who.size, 1 << 21),
        used=~lazy[who],
        to=np.full(who.size, "lead"),
        score=np.where(padded[firsts], np.clip(pleased[firsts], 0.0, 1.0), _returned(team)[who]),
        ok=np.ones(who.size, bool),
        tokens_out=np.rint(np.where(padded[firsts], 100.0 * grown[firsts], 100.0)).astype(np.int64),
        content_hash=np.char.add("return-", who.astype(str)),
    )
    return [*parts, back]


def _returned(team: _Team) -> Floats:
    """The quality of what each worker returns, 0 to 1."""
    quality: Floats = np.clip(0.5 + 0.2 * team.quality, 0.0, 1.0)
    return quality


def _drafted(team: _Team) -> list[pl.DataFrame]:
    """Decisions of the lead that have a draft: it goes on while drafts get better."""
    n = team.task.size
    best = 2 + (team.draws.of("drafts").random(n) < 0.5)
    stop = best.copy()
    stop[team.plays("late_stop")] += 3
    hasty = team.plays("early_stop") & (team.draws.of("hasty").random(n) < 0.7)
    stop[hasty] = 1
    rows = np.repeat(np.arange(n), stop)
    k = np.arange(rows.size) - np.repeat(np.cumsum(stop) - stop, stop) + 1
    end = 0.6 + 0.2 * team.outcome[rows]
    noise = 0.02 * team.draws.normal("draft noise", n, rows, k)
    draft = end - 0.25 * np.maximum(best[rows] - k, 0) - 0.1 * np.maximum(k - best[rows], 0) + noise
    fields: dict[str, Any] = {
        "part": k,
        "draft_score": np.clip(draft, 0.0, 1.0),
        "tokens_out": np.full(rows.size, 50),
    }
    return [_events(team, rows, np.full(rows.size, -1), "draft", "orchestrator_decision", **fields)]


def _joined(team: _Team) -> list[pl.DataFrame]:
    """The aggregate of every run: a text of its own, better than the mean of what it joins."""
    n = team.task.size
    active = np.flatnonzero(~team.idle)
    scores = _returned(team)
    inputs = pl.DataFrame({"trace": team.run[active], "of": active, "score": scores[active]})
    joined = inputs.group_by("trace", maintain_order=True).agg(
        mean=pl.col("score").mean(), worst=pl.col("score").min(), of=pl.col("of").sort_by("score").first()
    )
    leaked = team.plays("aggregation_leakage")
    noise = team.draws.of("join").normal(0.0, 0.05, n)
    score = np.clip(
        np.where(leaked, joined["worst"].to_numpy(), joined["mean"].to_numpy() + 0.1 + noise), 0.0, 1.0
    )
    answers = np.char.add("answer-", np.arange(n).astype(str))
    text = np.where(leaked, np.char.add("return-", joined["of"].to_numpy().astype(str)), answers)
    fields: dict[str, Any] = {"part": np.zeros(n, np.int64), "score": score, "content_hash": text}
    fields["tokens_out"] = np.full(n, 120)
    return [_events(team, np.arange(n), np.full(n, -1), "join", "aggregate", **fields)]


def _edges(events: pl.DataFrame) -> pl.DataFrame:
    """Edges: spawns to first actions, used actions to the next, messages and returns to the aggregate."""
    keyed = events.select("trace", "worker", "phase", "type", "used", "seq", "child", "to")
    work = keyed.filter(pl.col("phase") == PHASES["work"])
    spawns = keyed.filter(pl.col("phase") == PHASES["spawn"])
    spawn = spawns.select("trace", "seq", "type", worker="child")
    first = pl.col("seq").min()
    chain = work.filter("used").with_columns(
        src=pl.col("seq").shift(1).over("trace", "worker"),
        before=pl.col("type").shift(1).over("trace", "worker"),
    )
    along = chain.drop_nulls("src").select(
        "trace",
        "src",
        dst="seq",
        type=pl.when(pl.col("before") == "tool_call")
        .then(pl.lit("tool_dependency"))
        .otherwise(pl.lit("causal")),
    )
    begun = pl.concat(
        [
            work.filter("used").group_by("trace", "worker", maintain_order=True).agg(dst=first),
            # unused actions begin with the spawn, too
            work.filter(~pl.col("used")).select("trace", "worker", dst="seq"),
        ]
    ).join(spawn, on=["trace", "worker"])
    lead = keyed.filter((pl.col("worker") < 0) & (pl.col("type") != "message"))
    join = lead.filter(pl.col("type") == "aggregate").select("trace", dst="seq")
    into = work.filter(pl.col("used") & pl.col("type").is_in(["message", "return"])).join(join, on="trace")
    spine = lead.filter(pl.col("type") != "spawn").with_columns(src=pl.col("seq").shift(1).over("trace"))
    root = lead.filter(pl.col("phase") == PHASES["begin"]).select("trace", src="seq")
    parts = [
        spine.drop_nulls("src").select("trace", "src", dst="seq", type=pl.lit("causal")),
        spawn.join(root, on="trace").select("trace", "src", dst="seq", type="type"),
        begun.select("trace", "dst", src="seq", type="type"),
        along,
        into.select("trace", "dst", src="seq", type="type"),
    ]
    order = ("trace", "src", "dst", "type")
    edges = pl.concat([part.select(order) for part in parts]).sort("trace", "src", "dst")
    return edges.with_columns(pl.col("trace", "src", "dst").cast(pl.UInt32))


def _measures(team: _Team, judge: pl.DataFrame) -> pl.DataFrame:
    """The outcome, what a judge says, a bonus, and the step of training."""
    n = team.task.size
    noise = team.draws.of("bonus").normal(size=n)
    bonus = 0.1 * team.outcome + 0.1 * noise
    bonus = np.where(team.plays("drowned"), 3.0 * noise, bonus)
    bonus = np.where(team.plays("sign_flip"), -1.5 * team.outcome + 0.5 * noise, bonus)
    measures = [("reward", "team", team.outcome), ("reward", "bonus", bonus)]
    measures += [("metric", "train_step", team.step.astype(np.float64))] if team.steps else []
    frames = [
        pl.DataFrame({"trace": np.arange(n), "value": values}).select(
            "trace", kind=pl.lit(kind), name=pl.lit(name), value="value"
        )
        for kind, name, values in measures
    ]
    frames.append(judge.select("trace", kind=pl.lit("reward"), name=pl.lit("judge"), value="value"))
    return pl.concat(frames).sort("trace", maintain_order=True).with_columns(pl.col("trace").cast(pl.UInt32))
