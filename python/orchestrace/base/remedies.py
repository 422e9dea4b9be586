"""Causes and remedies of each code."""

from typing import Final, NamedTuple

from .. import _core


class Remedy(NamedTuple):
    """How a code comes about, and what to do."""

    example: str
    fix: str


CodeRow = tuple[str, str, str, str, Remedy]

# The meanings are in error.rs and schema.rs of the core; a test compares the two lists.
REMEDIES: dict[tuple[str, str], Remedy] = {
    ("reject", "json.syntax"): Remedy(
        'A line ends early: `{"trace_id": "a", "events": [`.',
        "Look at the byte that `offset` and `line` name."
        " If a log was cut while it was written, its last line is such a line.",
    ),
    ("reject", "json.duplicate_key"): Remedy(
        '`{"trace_id": "a", "trace_id": "b"}`: readers differ in which one counts.',
        "Write each key once. `pointer` names the object.",
    ),
    ("reject", "json.depth"): Remedy(
        "A tool result that quotes its own conversation, level inside level.",
        "If the recording is genuine, raise `max_depth`; 1,000 is the most.",
    ),
    ("reject", "json.trailing"): Remedy(
        "Two documents on one line: `{...} {...}`.",
        "Write one document a line, or one array for all.",
    ),
    ("reject", "utf8.invalid"): Remedy(
        "A file in Latin-1, or an emoji that was cut in half: `\\ud83d` alone.",
        "Write the file as UTF-8. Cut texts between characters, not between bytes.",
    ),
    ("reject", "number.nan"): Remedy(
        '`{"rewards": {"team": NaN}}`, as Python\'s `json.dumps` writes it.',
        "Leave the key out, or write null. `json.dumps(..., allow_nan=False)` finds the place.",
    ),
    ("reject", "number.range"): Remedy("`1e999`.", "Write a number that a 64-bit float holds, or a text."),
    ("reject", "record.not_object"): Remedy(
        "A line that is `[1, 2]` or `null`.",
        "Write one object a record. Name the format with `format=` if the file is of another one.",
    ),
    ("reject", "record.too_large"): Remedy(
        "An image as text inside an event.",
        "Keep large contents in files of their own and refer to them, or raise `max_record` or `max_string`.",
    ),
    ("reject", "field.missing"): Remedy(
        "An event without `agent`.",
        "Write the key that `pointer` names; docs/recording.md has a record in full.",
    ),
    ("reject", "field.forbidden"): Remedy(
        "An edge with a key beyond `src`, `dst`, `type`.",
        "Drop the key, or give it the prefix `x_` where the schema lets events have their own.",
    ),
    ("reject", "field.type"): Remedy(
        '`{"t": "12.5"}`: a text where a number belongs.', "Write the type that the message expects."
    ),
    ("reject", "field.enum"): Remedy(
        '`{"type": "msg"}` instead of `message`.',
        "Use a word of the vocabulary; the message names the nearest one.",
    ),
    ("reject", "field.minimum"): Remedy(
        '`{"tokens": -1}` for "unknown".', "Leave out what is not known; write counts and durations from 0."
    ),
    ("reject", "field.empty"): Remedy('`{"agent": ""}`.', "Give a name, or leave an optional key out."),
    ("reject", "id.duplicate"): Remedy(
        "Two events with the id `e1`, after a retry.", "Give every event of a trace an id of its own."
    ),
    ("reject", "edge.unknown"): Remedy(
        "An edge from `e9` in a trace whose events end with `e8`.",
        "Record the event, or drop the edge. It often means that the end of a run is in another file.",
    ),
    ("reject", "input.truncated"): Remedy(
        "A `.gz` file whose download stopped.",
        "Fetch the file again. What was read before the damage counts.",
    ),
    ("reject", "input.expansion"): Remedy(
        "A few kilobytes that become gigabytes.",
        "If you trust the source, raise `max_expansion` or `max_decompressed`.",
    ),
    ("reject", "rows.damaged"): Remedy(
        "A Parquet file whose copy stopped, or a page that a disk damaged.",
        "Fetch the file again; the message names the row group. The rows around it count.",
    ),
    ("reject", "archive.entry"): Remedy(
        "A ZIP archive with a password.", "Unpack the archive yourself and read the folder."
    ),
    ("reject", "format.unknown"): Remedy(
        "A log of your own agents.",
        "Describe the format in a mapping file (docs/formats/mapping.md), or name the importer: `format=`.",
    ),
    ("finding", "graph.cycle"): Remedy(
        "A message causes its own answer's cause.",
        "Check who wrote the edges. Metrics that need no order still have values.",
    ),
    ("finding", "time.reversed"): Remedy(
        "A result one millisecond before its call, from two clocks.",
        "Usually harmless. If spans matter to you, correct the clocks of the hosts.",
    ),
    ("finding", "number.rounded"): Remedy(
        "An id such as 9007199254740993 written as a number.", "Write ids as texts."
    ),
    ("finding", "field.ignored"): Remedy(
        '`{"cost_usd": "0.01"}`.',
        "Write the type of docs/reference/tables.md; until then the value is in `extras`.",
    ),
    ("finding", "group.conflict"): Remedy(
        "Events of one trace with `group_id` a and b.", "Give all events of a rollout one group."
    ),
    ("finding", "trace.id_reused"): Remedy(
        "Every run of a script is called `run`.",
        "Give runs ids of their own, or distinguish them by the column `trace`.",
    ),
    ("finding", "trace.partial"): Remedy(
        "A session that still runs, or whose file was cut.",
        "Read it again when it is complete. Results about the outcome are null until then.",
    ),
    ("finding", "trace.set_aside"): Remedy(
        "A job folder has the session of an agent, what the agent printed, and the same run as ATIF.",
        "Nothing, unless the message names responses that are in no sum: then the recording that is used was"
        " cut; read the other one alone.",
    ),
    ("finding", "clock.skew"): Remedy(
        "An agent's span begins before the call that started it.",
        "Synchronize the hosts. Do not build on durations between these agents.",
    ),
    ("finding", "usage.repeated"): Remedy(
        "A span has its own tokens and those of its children.", "Nothing: leaves count, sums are not doubled."
    ),
    ("finding", "usage.inherited"): Remedy(
        "A session was resumed under a new id and begins with a copy of the old one.",
        "Nothing: sums over traces are the bill. What was copied is the cost `tokens_inherited`.",
    ),
    ("finding", "utf8.replaced"): Remedy(
        "A tool printed bytes of a picture.", "Nothing, unless the text matters: the character is U+FFFD now."
    ),
    ("finding", "id.repeated"): Remedy(
        "A retry logs the same id again.",
        "Nothing: the later event has a suffix. Join by `seq` if ids matter.",
    ),
    ("finding", "safety.conservative"): Remedy(
        "The format does not say which text an agent quoted.",
        "Read taint as an upper bound; `outcome_tainted_lower` is the lower one.",
    ),
    ("finding", "outcome.ambiguous"): Remedy(
        "A session with several roots, each of which answers.",
        "Record which agent answers the user, or split the file into runs.",
    ),
    ("finding", "mapping.unused"): Remedy(
        "`tokens_in = /tokns/in` in a mapping file.",
        "Run `orchestrace mapping check`: it counts what each key finds and lists what none reads.",
    ),
    ("finding", "usage.unsplit"): Remedy(
        "A session whose running total grew by 51,293 tokens, none of them read or written.",
        "Nothing: the total counts. Metrics of input and output leave it out.",
    ),
    ("finding", "usage.conflict"): Remedy(
        "A total of 100 tokens with parts of 60 and 70.",
        "Check which count your provider bills; the parts are used here.",
    ),
    ("finding", "value.impossible"): Remedy(
        "`cost_usd` of -0.01.", "Correct the exporter. The value is left out, the event stays."
    ),
    ("finding", "usage.unknown"): Remedy(
        "`gen_ai.usage.wisdom_tokens` of 7.",
        "Compare the sum with your provider's; if the count is missing in it, tell us the name.",
    ),
    ("finding", "agent.merged"): Remedy(
        "Spans `look` and `write` with the agent id x, and no name of an agent.",
        "Record names of agents (`gen_ai.agent.name`), or an id for each.",
    ),
    ("finding", "usage.incomplete"): Remedy(
        "The result of an agent reports 19,830 tokens, the last record of its response has 18,503.",
        "Read sums of tokens and prices as at least so much; the bill of your provider has the rest.",
    ),
    ("finding", "reward.unscored"): Remedy(
        "A row of a TRL table whose reward function returned None.",
        "Nothing, if the function does not apply there: `missing='skip'` of `ot.credit` sums the others."
        " Else look why it gives no number.",
    ),
    ("finding", "trace.joined"): Remedy(
        "The session of a teammate, which is part of the run of its lead.",
        "Nothing: rewards and arguments that name that id find this trace.",
    ),
    ("finding", "trace.conflict"): Remedy(
        "Two lines of one rollout with the scores 1 and 0.",
        "Look which of them the trainer used. If each line is a rollout, give each a name of its own.",
    ),
    ("finding", "source.incomplete"): Remedy(
        "A trace of MLflow whose `sizeStats` say 12 spans, with 10.",
        "Find the missing part, or say that your means leave it out: what is left is no random sample.",
    ),
    ("finding", "source.runs_missing"): Remedy(
        "Pages of Langfuse whose `meta.totalItems` is 100, with 50 traces.",
        "Fetch the other pages. Else report the bounds that `describe` gives beside the mean of a reward.",
    ),
    ("finding", "source.conflict"): Remedy(
        "Pages in one folder whose `meta.totalItems` is 100 on one and 120 on another.",
        "Keep each export in a folder of its own. If traces were added meanwhile, fetch the export again.",
    ),
    ("finding", "reward.unreliable"): Remedy(
        "A trial of Harbor with the reward 0 that ended with SandboxBuildFailedError.",
        "Leave the run out of means, or repeat it. To count it, give it a reward with `with_measures`.",
    ),
    ("finding", "source.retried"): Remedy(
        "A job of Harbor whose `stats.n_retries` is 3.",
        "Report that your means cover only the attempts that Harbor kept.",
    ),
    ("finding", "source.surplus"): Remedy(
        "A trajectory of 12 steps whose `total_steps` is 10.",
        "Find out what its writer counts; it may have written the total before the run ended.",
    ),
    ("finding", "time.harness"): Remedy(
        "An environment states how long its harness prepared an agent and waited for it.",
        "Nothing: that time is `unaccounted` in metrics, since no model and no tool was at work in it.",
    ),
    ("reason", "graph.cycle"): Remedy(
        "`flow` on a trace whose edges close a circle.",
        "Look at the finding of the same name, or choose a method that needs no order (`uniform`, `grpo`).",
    ),
    ("reason", "field.absent"): Remedy(
        "Cost per agent, from recordings without prices.",
        "Record the field, or add it with `Corpus.with_fields`."
        " docs/format-coverage.md says which formats have which.",
    ),
    ("reason", "reward.absent"): Remedy(
        "Credit on sessions that nobody graded.",
        "Bring a table with `Corpus.with_measures` or `--rewards`, or read a recorded score"
        " (`reward_scores=`).",
    ),
    ("reason", "outcome.absent"): Remedy(
        "A run that was stopped before its root returned.",
        "Record the final answer as a `return` of the root, or ask metrics that need none.",
    ),
    ("reason", "outcome.seed"): Remedy(
        "The final answer is itself an untrusted tool result.",
        "Nothing to cut: check why untrusted content is the answer.",
    ),
    ("reason", "unit.none"): Remedy(
        "The user's messages, when advantages are asked by agent.", "Nothing: leave the row out of training."
    ),
    ("reason", "budget.exceeded"): Remedy(
        "`sharp` on a group of very long runs, or a metric that would take hours.",
        "Ask for a coarser unit, other metrics, or shorter runs.",
    ),
    ("reason", "group.degenerate"): Remedy(
        "All eight rollouts of a task failed.",
        "Collect more rollouts, or tasks of medium difficulty. A credit of 0 is the method's own answer.",
    ),
    ("reason", "support.absent"): Remedy(
        "Nobody ever ran without the planner.",
        "Record runs that do it otherwise. Bounds, where there are some, are all that is known.",
    ),
    ("reason", "signal.absent"): Remedy(
        "`dae` on forty runs, or on runs whose outcome hangs on what no field names.",
        "Record more runs of each task, or what was chosen (`action`, `p_actions`, `state_key`)."
        " Do not read another fitted method for it: it would show noise.",
    ),
    ("reason", "reward.not_binary"): Remedy(
        "`maxrl` on scores between 0 and 1.",
        "Make a reward of 0 and 1 of it with `with_measures`, or choose `grpo`, `dr_grpo` or `rloo`.",
    ),
    ("reason", "reward.not_positive"): Remedy(
        "Shares of a reward of 0.", "Divide another channel, or use a method that gives advantages."
    ),
    ("reason", "agent.frozen"): Remedy(
        "A judge whose policy is fixed, in `ot.credit(corpus, over='trainable')`.",
        "Nothing: its tokens are not trained. Leave `over` out if you need its credit.",
    ),
    ("reason", "player.fixed"): Remedy(
        "A unit that the option `players` leaves out.",
        "Nothing: change `players` if you need its value.",
    ),
    ("reason", "result.range"): Remedy("A sum beyond 1.8e308.", "Scale the rewards down."),
    ("reason", "gate.unstable"): Remedy(
        "Two agents did the same work; whether one is needed depends on the outcome model.",
        "Do not build on the sign. Compare models with `ot.outcomes.sensitivity`,"
        " or record runs without the agent.",
    ),
    ("reason", "selection.empty"): Remedy(
        "Drop the agent `critic` from a run that has none.",
        "Nothing: the question does not arise for this run.",
    ),
    ("reason", "time.steps"): Remedy(
        "A format without clocks, whose times are 0, 1, 2.",
        "Compare such results with each other, never with seconds.",
    ),
    ("reason", "overlap.absent"): Remedy(
        "Hard tasks are always delegated, easy ones never.",
        "Record some runs in which the choice is random, or read the bounds.",
    ),
    ("reason", "range.unknown"): Remedy(
        "Bounds of a reward of any size.", "Say the range of rewards: `bounds=(0, 1)`."
    ),
    ("reason", "ratio.empty"): Remedy(
        "The share of failed tool calls in a run without tools.", "Nothing: leave the run out of the mean."
    ),
    ("reason", "siblings.absent"): Remedy(
        "A decision that no other run of the task met.",
        "Record more rollouts of the task, or ask `ot.replay`.",
    ),
    ("reason", "outcome.ambiguous"): Remedy(
        "Two roots, and both return to the user.",
        "Look at the finding of the same name; split the file into runs.",
    ),
    ("reason", "trace.partial"): Remedy(
        "What if, on a session that still runs.", "Ask again when the recording is complete."
    ),
    ("reason", "price.absent"): Remedy(
        "A model of your own, or one that came out after the list was made.",
        "Give yours: `orchestrace costs PATH --prices FILE`. `ot.costs.list_prices()` has the columns.",
    ),
    ("ignored", "archive.not_json"): Remedy(
        "A README or a picture beside the recordings.",
        "Nothing, if it is no recording."
        " Else unpack the archive and name the file, or let its name end with `.jsonl`.",
    ),
    ("ignored", "archive.nested"): Remedy(
        "A ZIP archive with one ZIP archive a run.",
        "If it has recordings, unpack the outer archive and read the folder.",
    ),
    ("ignored", "archive.empty"): Remedy(
        "A log that nothing was written to.", "Nothing: there is no record."
    ),
    ("ignored", "archive.hidden"): Remedy(
        "`__MACOSX/._runs.jsonl`, which macOS adds to each file of an archive.",
        "Nothing. If it is a recording, unpack the archive and name the file.",
    ),
}
"""By level and code; every code of the core is there."""

_IGNORED: Final = Remedy(
    "A line of a session that describes the editor rather than the run.",
    "Nothing. `record_counts` counts such records by kind; the page of the format says what is read.",
)


def code_rows(code: str | None = None) -> list[CodeRow]:
    """Level, code, severity, meaning and remedy of every code, or of one; no row where nothing prints it.

    What a format ignores has a kind that recordings name, so that there is no list of kinds. A kind begins
    with the name of its format.

    Examples
    --------
    >>> from orchestrace.base.remedies import code_rows
    >>> [row[0] for row in code_rows("graph.cycle")], [row[0] for row in code_rows("otel.http")]
    (['finding', 'reason'], ['ignored'])
    >>> code_rows("otel")
    []
    """
    all_rows: list[CodeRow] = [(*row, REMEDIES[row[:2]]) for row in _core.codes()]
    if code is None:
        return all_rows
    rows = [row for row in all_rows if row[1] == code]
    name, _, kind = code.partition(".")
    formats = {importer["name"] for importer in _core.importers()} | {"mapping"}
    if rows or not kind or name not in formats:
        return rows
    meaning = (
        f"A record of the format '{name}' that says nothing of a run, by the format's name for its kind."
    )
    return [("ignored", code, "", meaning, _IGNORED)]
