"""The story of a corpus: one screen in plain English, each sentence with its numbers."""

import json
import shlex
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, fields
from html import escape
from typing import Any, Final, NamedTuple

import polars as pl

from ..base.arguments import Count, Threads
from ..base.progress import Progress
from ..base.text import counted, plain
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..costs.price_list import Prices
from ..costs.verb import table
from ..metrics.verb import metrics
from ..safety.tracking import taint
from ..schedules.bottlenecks import critical_path
from ..schedules.scheduling import MaxGap
from .figures import (
    agents_without_effect,
    answers_by_agent,
    any_event_has,
    critical_shares,
    exposed_runs,
    n_floors,
    n_missing_runs,
    runs_to_open,
    span,
    sum_of,
    total_of,
    words_for_waits,
)

TOKENS: Final = ("fresh", "cached", "cache_write", "out", "reasoning")
TIMES: Final = ("model", "tool", "queue", "permission", "human", "scorer", "idle", "unaccounted")
HOUR: Final = 3600.0
"""Seconds: the longest gap that is work where nothing is said, as in `simulate`."""

_TIME_COLUMNS: Final = {
    **{name: f"{name}_time" for name in ("model", "tool", "queue", "scorer", "idle")},
    "permission": "permission_wait",
    "human": "human_wait",
    "unaccounted": "unaccounted",
}
_MARGIN: Final = 17


class Sentence(NamedTuple):
    """One line of a story: what it is about, what it says, and the command that shows more."""

    about: str
    text: str
    command: str


@dataclass(frozen=True)
class Summary:
    """What is worth knowing first of a corpus; prints as one screen.

    Attributes
    ----------
    records
        Of what was read, as in `Corpus.records`.
    formats
        Traces by importer.
    n_traces, n_partial, n_events, n_agents
        Traces, those that are partial, their events, and agents of the team, summed over traces.
    n_missing
        Runs that sources state and that are not here (`source.runs_missing`).
    n_answered
        Traces in which an agent answered; ``answered_by`` counts them by that agent.
    tokens
        Sums over the team's events: ``fresh``, ``cached`` and ``cache_write`` in, ``out``, ``reasoning``
        (part of ``out``), ``total``. None where nothing says it. ``n_counted`` traces have a total, that of
        ``n_floor`` is a floor (`usage.incomplete`), of ``n_unread`` only what was written is recorded, of
        ``n_unwritten`` only what was read; ``scorer_tokens`` are those of graders.
    cost_usd
        What is recorded, in USD, of ``n_priced`` traces. ``listed_usd`` is what other tokens cost by a list
        of prices, ``unpriced_share`` the share of the tokens that have no price at all (`costs.table`).
    seconds
        Sums over traces with times in seconds, by what took them: ``model tool queue permission human scorer
        idle unaccounted``. ``n_timed`` is how many traces these are, ``max_gap`` what is longer and idle.
    wall_clock_s
        What runs state that they took; ``n_clocked`` of them state it.
    waits
        What ``permission`` and ``human`` were for: permissions, answers; humans, simulated users.
    critical
        DataFrame ``agent critical share``: how much of the critical paths each agent held, in ``time_unit``,
        the most first; over traces in seconds, or where none is, in steps.
    unreached
        DataFrame ``trace trace_id agent n_events tokens``: agents of the team of whose events none leads to
        the answer, in traces whose answer is known; most tokens first.
    exposed
        DataFrame ``trace trace_id action event n_tainted path``: traces in which untrusted content reached an
        action (a decision, a spawn or a privileged call), the most tainted events first. None where no
        recording says what is untrusted. ``n_followed`` counts the events that may follow from it;
        ``knows_privileged`` says whether anything shows which calls are privileged, ``tools`` what the caller
        said of tools.
    runs
        DataFrame ``trace trace_id why``: at most three traces that are most worth opening.
    """

    records: dict[str, int]
    formats: dict[str, int]
    n_traces: int
    n_partial: int
    n_events: int
    n_agents: int
    n_missing: int
    n_answered: int
    answered_by: dict[str, int]
    tokens: dict[str, int | None]
    n_counted: int
    n_floor: int
    n_unread: int
    n_unwritten: int
    scorer_tokens: int | None
    cost_usd: float | None
    n_priced: int
    listed_usd: float | None
    unpriced_share: float | None
    seconds: dict[str, float | None]
    n_timed: int
    wall_clock_s: float | None
    n_clocked: int
    waits: dict[str, str]
    max_gap: float | None
    critical: pl.DataFrame
    time_unit: str
    unreached: pl.DataFrame
    exposed: pl.DataFrame | None
    n_followed: int
    knows_privileged: bool
    tools: dict[str, list[str]]
    runs: pl.DataFrame

    @verb
    def sentences(self, path: str = "PATH") -> list[Sentence]:
        """The story, a sentence for each question; `path` stands in the commands for the recordings."""
        if not self.n_traces:
            return [Sentence("Read", self._read(), f"orchestrace validate {path}")]
        of_runs, of_agents = (
            f"orchestrace metrics {path} --by trace",
            f"orchestrace metrics {path} --by agent",
        )
        limit = "none" if self.max_gap is None else f"{self.max_gap:g}"
        gap = "" if self.max_gap == HOUR else f" --max-gap {limit}"
        tools = "".join(
            f" --{kind}-tool {shlex.quote(name)}" for kind, names in self.tools.items() for name in names
        )
        taint = f"orchestrace taint {path}{tools} --columns"
        sentences = [
            Sentence("Read", self._read(), f"orchestrace describe {path}"),
            Sentence("Answers", self._answers(), f"{taint} trace_id,outcome"),
            Sentence("Tokens", self._tokens(), f"{of_runs} --columns {_columns('trace_id', self._kinds())}"),
            Sentence("Cost", self._cost(), f"orchestrace costs {path} --by agent --sort -cost_usd"),
            Sentence("Time", self._time(), f"{of_runs}{gap} --columns {_columns('trace_id', self._times())}"),
            Sentence(
                "Critical path",
                self._critical(),
                f"{of_agents}{gap} --sort -critical_work --columns trace_id,agent,critical_work",
            ),
            Sentence(
                "Unused",
                self._unreached(),
                f"{of_agents} --sort utilization --columns trace_id,agent,utilization,tokens",
            ),
            Sentence(
                "Untrusted",
                self._exposed(),
                f"{taint} trace_id,n_tainted,first_decision,first_spawn,first_privileged_call",
            ),
        ]
        opened = [
            Sentence(
                "Open first" if at == 0 else "",
                f"{plain(row['trace_id'])}: {row['why']}.",
                f"orchestrace view {path} --trace {shlex.quote(plain(row['trace_id']))}"
                f" -o run{at + 1}.html --open",
            )
            for at, row in enumerate(self.runs.iter_rows(named=True))
        ]
        return sentences + opened

    @verb
    def text(self, path: str = "PATH", width: Count = 80) -> str:
        """The story as lines of at most `width` cells, commands apart, which are never broken."""
        lines = []
        for about, sentence, command in self.sentences(path):
            folded = textwrap.wrap(sentence, max(width - _MARGIN, 20), break_on_hyphens=False)
            lines += [f"{about if at == 0 else '':<{_MARGIN}}{line}" for at, line in enumerate(folded)]
            if path != "-":  # standard input is read once
                lines.append(f"{'':<{_MARGIN}}$ {command}")
        return "\n".join(lines)

    def to_json(self) -> str:
        """The figures as a JSON object; frames are lists of objects."""
        figures = {field.name: getattr(self, field.name) for field in fields(self)}
        return json.dumps(figures, default=lambda value: value.to_dicts())

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left;vertical-align:top'>{escape(about)}</th>"
            f"<td style='text-align:left'>{escape(sentence)}<br><code>{escape(command)}</code></td></tr>"
            for about, sentence, command in self.sentences()
        )
        return f"<table>{rows}</table>"

    def _kinds(self) -> list[str]:
        """Columns of the kinds of tokens that recordings have."""
        kinds = [f"tokens_{name}" for name in TOKENS[:4] if self.tokens[name] is not None]
        return kinds or ["tokens"]

    def _times(self) -> list[str]:
        """Columns of the kinds of time that runs took."""
        return [_TIME_COLUMNS[name] for name, value in self.seconds.items() if value] or ["elapsed"]

    def _read(self) -> str:
        parts = [
            f"{self.records[name]:,} {name}" for name in self.records if name != "read" and self.records[name]
        ]
        formats = _listed([f"{name} {count:,}" for name, count in self.formats.items()], 4)
        read = f"{counted(self.records['read'], 'record')}: {', '.join(parts) or 'none used'}."
        if not self.n_traces:
            return f"{read} There is no run in them."
        partial = f", {self.n_partial:,} of them partial," if self.n_partial else ""
        missing = (
            f" Their sources state {counted(self.n_missing, 'more run')}, which no mean has."
            if self.n_missing
            else ""
        )
        return (
            f"{read} They make {counted(self.n_traces, 'run')} ({formats}){partial} with"
            f" {counted(self.n_events, 'event')} of {counted(self.n_agents, 'agent')}.{missing}"
        )

    def _answers(self) -> str:
        if not self.n_answered:
            return "No run has an answer that is known."
        names = [plain(name) for name in self.answered_by]
        if len(names) > 1:
            names = [f"{plain(name)} ({count:,})" for name, count in self.answered_by.items()]
        runs = f"{self.n_answered:,} of {counted(self.n_traces, 'run')}"
        return f"{runs} ended with an answer, by {_listed(names, 3)}."

    def _tokens(self) -> str:
        tokens = self.tokens
        if tokens["total"] is None:
            return "No recording says how many tokens were used."
        words = {
            "fresh": "fresh",
            "cached": "read from caches",
            "cache_write": "written to caches",
            "out": "out",
        }
        parts = [f"{tokens[name]:,} {word}" for name, word in words.items() if tokens[name] is not None]
        thought = f" ({tokens['reasoning']:,} of these reasoning)" if tokens["reasoning"] else ""
        graders = f" Graders used {self.scorer_tokens:,} more." if self.scorer_tokens else ""
        detail = f": {', '.join(parts)}{thought}" if parts else ""
        rest = tokens["total"] - sum(tokens[name] or 0 for name in words)
        untold = f", {rest:,} not broken down" if parts and rest > 0 else ""
        some = self._of_runs(self.n_counted)
        sides = [(self.n_unread, "read"), (self.n_unwritten, "wrote")]
        lack = "".join(f" What {counted(n, 'run')} {action} is not recorded." for n, action in sides if n)
        least, floor = "", ""
        if self.n_floor:
            least = "At least "
            whose = "the run" if self.n_traces == 1 else counted(self.n_floor, "run")
            floor = f" Not all that {whose} used is recorded (usage.incomplete)."
        side = self._one_side(rest)
        if side:
            return f"{least}{', '.join(parts)}{thought}{some}. {side}{floor}{graders}"
        return f"{least}{tokens['total']:,} in all{detail}{untold}{some}.{lack}{floor}{graders}"

    def _one_side(self, rest: int) -> str:
        """A sentence where a recording has only the tokens read, or only those written; else empty."""
        read = any(self.tokens[name] is not None for name in ("fresh", "cached", "cache_write"))
        written = self.tokens["out"] is not None
        if rest > 0 or read == written:
            return ""
        return f"No recording says how many were {'written' if read else 'read'}."

    def _of_runs(self, n: int) -> str:
        return f" ({n:,} of {counted(self.n_traces, 'run')})" if n < self.n_traces else ""

    def _cost(self) -> str:
        share = self.unpriced_share or 0.0
        bare = "" if not share else f" {max(100 * share, 0.1):.3g} % of the tokens have no price."
        least = "At least " if self.n_floor or share else ""
        if self.listed_usd is None:
            if self.cost_usd is None:
                return "No recording says what it cost."
            return f"{self.cost_usd:,.4g} USD as recorded{self._of_runs(self.n_priced)}."
        if self.cost_usd is None:
            denial = "No recording says what it cost."
            return f"{least}{self.listed_usd:,.4g} USD by a list of prices. {denial}{bare}"
        recorded = f"{least}{self.cost_usd:,.4g} USD as recorded{self._of_runs(self.n_priced)}"
        return f"{recorded}, and {self.listed_usd:,.4g} USD more by a list of prices.{bare}"

    def _time(self) -> str:
        if not self.n_timed:
            if not self.wall_clock_s:
                return "Recordings say the order of events, not the time."
            some = self._of_runs(self.n_clocked)
            return f"Runs took {span(self.wall_clock_s)}{some}; no recording says when anything was."
        words = {
            "model": "models",
            "tool": "tools",
            "queue": "queues",
            "permission": self.waits["permission"],
            "human": f"waiting for {self.waits['human']}",
            "scorer": "graders",
            "idle": f"idle (gaps over {span(self.max_gap)})" if self.max_gap else "idle",
            "unaccounted": "unaccounted for",
        }
        parts = [
            f"{words[name]} {span(value)}"
            for name, value in self.seconds.items()
            if value and value >= 0.0005
        ]
        return f"{', '.join(parts) or 'Nothing that took time'}{self._of_runs(self.n_timed)}."

    def _critical(self) -> str:
        if not self.critical.height:
            return "No run has a schedule."
        most = [
            f"{plain(name) if name is not None else 'tools and others'} {share:.0%}"
            for name, share in self.critical.select("agent", "share").head(3).iter_rows()
            if share is not None and share >= 0.005
        ]
        total = float(self.critical["critical"].sum())
        length = span(total) if self.time_unit == "seconds" else f"{total:,.4g} steps"
        some = self._of_runs(self.n_timed) if self.time_unit == "seconds" else ""
        return f"Critical paths add up to {length}{some}: {', '.join(most)}."

    def _unreached(self) -> str:
        if not self.n_answered:
            return "Unknown: no run has an answer."
        if not self.unreached.height:
            return "Every agent of the runs with an answer has work that leads to it."
        tokens = total_of(self.unreached, "tokens")
        names = _listed([plain(name) for name in self.unreached["agent"]], 3)
        who = "It" if self.unreached.height == 1 else "They"
        cost = "" if tokens is None else f" {who} used {tokens:,} tokens."
        return f"Work of {counted(self.unreached.height, 'agent')} reached no answer: {names}.{cost}"

    def _exposed(self) -> str:
        if self.exposed is None:
            return "No recording says what is untrusted; name tools with --untrusted-tool."
        if not self.exposed.height and not self.knows_privileged:
            return (
                f"{counted(self.n_followed, 'event')} may follow from untrusted content. No recording says"
                " which calls are privileged; name tools with --privileged-tool."
            )
        if not self.exposed.height:
            return "No untrusted content has a way to a decision, a spawn or a privileged call."
        first = self.exposed.row(0, named=True)
        return (
            f"In {counted(self.exposed.height, 'run')} untrusted content has a way to an action; in"
            f" {plain(first['trace_id'])} to the {first['action']} {plain(first['event'])}."
        )


def _columns(first: str, others: list[str]) -> str:
    return ",".join([first, *others])


def _listed(names: list[str], most: int) -> str:
    """Names in a row, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


@verb
def summary(
    corpus: Corpus,
    *,
    max_gap: MaxGap = "auto",
    untrusted_tools: Iterable[str] = (),
    trusted_tools: Iterable[str] = (),
    privileged_tools: Iterable[str] = (),
    prices: Prices = "package",
    threads: Threads = None,
    progress: Progress = None,
) -> Summary:
    """Show what is worth knowing first about a corpus, on one screen.

    It says what was read, who answered, how many tokens, how much money and time were used, whose work the
    critical path is, whose work reached no answer, whether untrusted content reached an action, and which
    three runs to open first. These are, in this order and each once: the run in which untrusted content went
    farthest, the one with most tokens in work that reached no answer, the one with most tokens, the longest,
    and the one with most errors of tools or most events.

    Parameters
    ----------
    corpus
        The recordings.
    max_gap
        As in `simulate`: longer gaps are idle time, not work. Recordings in steps have no idle time.
    untrusted_tools, trusted_tools, privileged_tools
        As in `taint`.
    prices
        As in `costs.table`.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    Summary
        The figures and the sentences made from them. Print it, or show it in a notebook.

    Raises
    ------
    ParameterError
        As `metrics` and `taint`.

    Notes
    -----
    O(events + edges). Every figure comes from the verb that its line names: `describe`, `metrics`,
    `costs.table`, `schedules.critical_path`, `taint`.

    Examples
    --------
    >>> import orchestrace as ot
    >>> summary = ot.summary(ot.generate(traces=5, seed=0))
    >>> summary.n_traces, [about for about, _, _ in summary.sentences()][:3]
    (5, ['Read', 'Answers', 'Tokens'])
    """
    tools = {
        "untrusted": list(untrusted_tools),
        "trusted": list(trusted_tools),
        "privileged": list(privileged_tools),
    }
    spent = table(corpus, by="importer", prices=prices)
    return summary_of(corpus, spent, tools, max_gap=max_gap, threads=threads, progress=progress)


def summary_of(
    corpus: Corpus, spent: pl.DataFrame, tools: dict[str, list[str]], *, max_gap: MaxGap, **common: Any
) -> Summary:
    """The story of a corpus whose costs by importer are known: `spent`."""
    traces = corpus.traces.select("importer", "partial", "time_basis").collect()
    rows = metrics(corpus, max_gap=max_gap, **common)
    members = metrics(corpus, by="agent", max_gap=max_gap, **common)
    named: dict[str, Any] = {f"{kind}_tools": names for kind, names in tools.items()}
    tainted = taint(corpus, **named, **common)
    paths = critical_path(corpus, by="agent", max_gap=max_gap, **common)
    timed = rows.filter(pl.col("time_unit") == "seconds")
    read = pl.any_horizontal(pl.col(f"tokens_{name}").is_not_null() for name in TOKENS[:3])
    written = pl.col("tokens_out").is_not_null()
    clocked = rows.filter(pl.col("wall_clock_s") > 0)
    unit = "seconds" if timed.height else "steps"
    unreached = agents_without_effect(members, rows)
    exposed = exposed_runs(tainted)
    used, unpriced = total_of(spent, "tokens"), total_of(spent, "unpriced_tokens")
    answered = answers_by_agent(corpus, tainted)
    return Summary(
        records=dict(corpus.records),
        formats=dict(
            traces.group_by(pl.col("importer").cast(pl.String))
            .len()
            .sort(["len", "importer"], descending=[True, False])
            .iter_rows()
        ),
        n_traces=traces.height,
        n_partial=int(traces["partial"].sum()),
        n_events=int(rows["n_events"].sum()),
        n_agents=int(rows["n_agents"].sum()),
        n_missing=n_missing_runs(corpus),
        n_answered=sum(answered.values()),
        answered_by=answered,
        tokens={
            **{name: total_of(rows, f"tokens_{name}") for name in TOKENS},
            "total": total_of(rows, "tokens"),
        },
        n_counted=rows["tokens"].count(),
        n_floor=n_floors(corpus),
        n_unread=rows.filter(written & ~read).height,
        n_unwritten=rows.filter(read & ~written).height,
        scorer_tokens=total_of(rows, "scorer_tokens"),
        cost_usd=sum_of(rows, "cost_usd"),
        n_priced=rows["cost_usd"].count(),
        listed_usd=sum_of(spent, "priced_usd"),
        unpriced_share=None if not used else (unpriced or 0) / used,
        seconds={name: sum_of(timed, _TIME_COLUMNS[name]) for name in TIMES},
        n_timed=timed.height,
        wall_clock_s=sum_of(clocked, "wall_clock_s"),
        n_clocked=clocked.height,
        waits=words_for_waits(corpus),
        max_gap=HOUR if max_gap == "auto" else max_gap,
        critical=critical_shares(paths, unit),
        time_unit=unit,
        unreached=unreached,
        exposed=exposed,
        n_followed=int((tainted["n_tainted"] - tainted["n_seeds"]).sum()),
        knows_privileged=bool(tools["privileged"]) or any_event_has(corpus, "privileged"),
        tools=tools,
        runs=runs_to_open(rows, exposed),
    )
