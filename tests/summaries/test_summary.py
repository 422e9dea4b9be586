"""The story of a corpus: its figures by hand on one drawn run, and those of the verbs that it names."""

import io
import json
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from orchestrace.corpus.samples import samples_path
from orchestrace.summaries.figures import span
from orchestrace.summaries.narrative import HOUR, Summary
from samples.random_runs import Document, jsonl

EVENTS: list[dict[str, Any]] = [
    {"t": 0, "type": "message", "agent": "user", "to": "main"},
    {"t": 1, "type": "spawn", "agent": "main", "to": "helper"},
    {"t": 3, "type": "tool_call", "agent": "helper", "tool": "fetch", "tokens_in": 200, "tokens_out": 10},
    {"t": 4, "type": "tool_result", "agent": "fetch", "tool": "fetch", "trusted": False},
    {"t": 5, "type": "tool_call", "agent": "helper", "tool": "bash", "privileged": True},
    {"t": 6, "type": "return", "agent": "helper", "to": "main", "cost_usd": 0.25},
    {"t": 1, "type": "spawn", "agent": "main", "to": "idler"},
    {"t": 2, "type": "tool_call", "agent": "idler", "tool": "fetch", "tokens_in": 40, "tokens_out": 10},
    {"t": 8, "type": "return", "agent": "main", "to": "user", "tokens_in": 700, "tokens_out": 40},
    {"t": 20, "type": "message", "agent": "user", "to": "main"},
    {"t": 22, "type": "return", "agent": "main", "to": "user"},
]
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 8), (0, 6), (6, 7), (8, 9), (9, 10)]


def run(name: str = "run", scale: float = 1.0, **more: Any) -> Document:
    return {
        "trace_id": name,
        "task_id": "task",
        "system": "s",
        "topology": "hierarchical",
        "events": [
            {"id": f"e{n}", **event, "t": event["t"] * scale, **({"role": event["agent"]})}
            for n, event in enumerate(EVENTS)
        ],
        "edges": [{"src": f"e{u}", "dst": f"e{v}", "type": "causal"} for u, v in EDGES],
        "rewards": {"team": 1.0},
        "costs": {"tokens": 0, "wall_clock_s": 22 * scale, "tool_calls": 0, "messages": 0},
        "metrics": {"task_success": 1},
        **more,
    }


def told(*documents: Document, **options: Any) -> Summary:
    return ot.summary(ot.read_traces(io.BytesIO(jsonl(list(documents))), time_basis="seconds"), **options)


def test_figures_by_hand() -> None:
    story = told(run())
    assert (story.n_traces, story.n_partial, story.n_events, story.n_agents) == (1, 0, 11, 3)
    assert story.formats == {"native": 1}
    assert (story.n_answered, story.answered_by) == (1, {"main": 1})
    assert story.tokens["total"] == 1000
    assert (story.cost_usd, story.n_priced) == (0.25, 1)
    # 1 + 1 for spawns, 2 + 1 + 1 of the helper, 1 of the idler, 2 + 2 for answers; 1 s of the tool; 8 to 20
    assert story.seconds == {
        "model": 11.0,
        "tool": 1.0,
        "queue": None,
        "permission": None,
        "human": 12.0,
        "scorer": None,
        "idle": 0.0,
        "unaccounted": 0.0,
    }
    assert story.critical.rows() == [("helper", 5.0, 0.5), ("main", 5.0, 0.5)]
    assert story.unreached.rows() == [(0, "run", "idler", 1, 50)]
    assert story.exposed is not None
    assert story.exposed.select("trace_id", "action", "event").rows() == [("run", "privileged call", "e4")]
    assert story.runs["trace_id"].to_list() == ["run"]
    text = story.text("runs/")
    for words in (
        "1 record: 1 used",
        "1 run",
        "1 of 1 run ended with an answer, by main.",
        "1,000 in all",
        "0.25 USD",
        "models 11 s, tools 1 s, waiting for humans 12 s",
        "helper 50%, main 50%",
        "Work of 1 agent reached no answer: idler. It used 50 tokens.",
        "to the privileged call e4",
    ):
        assert words in " ".join(text.split()), words


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        ("tokens_in", "60 out. No recording says how many were read."),
        ("tokens_out", "940 fresh. No recording says how many were written."),
        (None, "1,000 in all: 940 fresh, 60 out."),
    ],
)
def test_tokens_of_one_side_are_not_all(left_out: str | None, said: str) -> None:
    document = run()
    for event in document["events"]:
        event.pop(left_out, None)
    assert said in " ".join(told(document).text("runs/").split())


def test_of_some_runs_one_side_is_not_recorded() -> None:
    written = run("written")
    for event in written["events"]:
        event.pop("tokens_in", None)
    said = "1,060 in all: 940 fresh, 120 out. What 1 run read is not recorded."
    assert said in " ".join(told(run(), written).text("runs/").split())


def test_a_model_that_stands_in_for_the_user_is_no_human() -> None:
    simulated = run("simulated")
    for event in simulated["events"]:
        event |= {key: "customer" for key in ("agent", "to") if event.get(key) == "user"}
    both = told(run(), simulated)
    assert both.waits["human"] == "humans and simulated users"
    story = told(simulated)
    assert (story.waits["human"], story.seconds["human"]) == ("simulated users", 12.0)
    [text] = [line.text for line in story.sentences() if line.about == "Time"]
    assert "waiting for simulated users 12 s" in text
    assert "humans" not in text


def asked(kind: str, **more: Any) -> Document:
    """A call at 2 that waits for the user until 7."""
    events: list[dict[str, Any]] = [
        {"t": 0, "type": "message", "agent": "user", "to": "main"},
        {"t": 2, "type": "tool_call", "agent": "main", "tool": "ask"},
        {"t": 7, "type": kind} | more,
        {"t": 9, "type": "return", "agent": "main", "to": "user"},
    ]
    edges = [{"src": f"e{n}", "dst": f"e{n + 1}", "type": "causal"} for n in range(3)]
    return run(kind, events=[{"id": f"e{n}"} | event for n, event in enumerate(events)], edges=edges)


def test_an_answer_to_a_question_is_no_permission() -> None:
    answered = asked("tool_result", agent="ask", tool="ask", **{"from": "user"})
    allowed = asked("human_intervention", agent="user", to="main")
    for documents, words in (
        ([answered], "waiting for answers 5 s"),
        ([allowed], "permissions 5 s"),
        ([answered, allowed], "permissions and answers 10 s"),
    ):
        [text] = [line.text for line in told(*documents).sentences() if line.about == "Time"]
        assert words in text
        assert ("permission" in text) == ("permission" in words)


def test_gaps_of_more_than_an_hour_are_idle() -> None:
    story = told(run(scale=HOUR))  # every second an hour: the gaps of 2 are too long, the human's wait, too
    # in the first of the hours that the helper's call waits, the idler works
    assert story.seconds["idle"] == (2 + 2 + 2 + 12 - 1) * HOUR
    assert story.seconds["model"] == (1 + 1 + 1 + 1 + 1) * HOUR
    assert told(run(scale=HOUR), max_gap=None).seconds["idle"] == 0.0


def test_runs_are_named_once_each_for_the_first_reason() -> None:
    plain = [event for event in EVENTS if event.get("trusted") is None]
    long, cheap = run("long", scale=5.0), run("cheap", scale=0.5)
    for document in (long, cheap):
        kept = {event["id"] for event in document["events"] if "trusted" not in event}
        document["events"] = [event for event in document["events"] if event["id"] in kept]
        document["edges"] = [
            edge for edge in document["edges"] if edge["src"] in kept and edge["dst"] in kept
        ]
    assert len(plain) == 10
    story = told(cheap, long, run("exposed"))
    assert story.runs["trace_id"].to_list() == ["exposed", "cheap", "long"]
    assert "untrusted" in story.runs["why"][0]
    assert "reached no answer" in story.runs["why"][1]


def test_figures_are_those_of_the_verbs() -> None:
    corpus = ot.read_traces(samples_path())
    story = ot.summary(corpus)
    rows = ot.metrics(corpus, max_gap=HOUR)
    assert story.records == corpus.records
    assert story.n_traces == len(corpus) == rows.height
    assert story.tokens["total"] == rows["tokens"].sum()
    timed = rows.filter(time_unit="seconds")
    assert story.seconds["model"] == pytest.approx(timed["model_time"].sum(), abs=1e-9)
    paths = ot.schedules.critical_path(corpus, max_gap=HOUR).filter(unit="seconds")
    assert story.critical["critical"].sum() == pytest.approx(paths["critical"].sum(), abs=1e-9)
    dead = ot.metrics(corpus, by="agent").filter(pl.col("utilization") == 0.0, pl.col("agent").is_not_null())
    assert set(story.unreached.select("trace", "agent").rows()) <= set(
        dead.select("trace", pl.col("agent").cast(pl.String)).rows()
    )


def test_a_story_fits_its_width_and_shows_in_notebooks() -> None:
    story = told(run())
    for width in (60, 80, 120):
        lines = story.text("runs/", width).splitlines()
        assert max(len(line) for line in lines if "$ " not in line) <= width
    assert str(story) == story.text()
    html = story._repr_html_()
    assert html.startswith("<table>") and "<code>orchestrace describe PATH</code>" in html
    figures = json.loads(story.to_json())
    assert figures["unreached"] == story.unreached.to_dicts() and figures["n_events"] == 11


def test_names_of_recordings_cannot_act_on_a_terminal_or_a_page() -> None:
    evil = "\x1b[31m<b>run</b>"
    story = told(run(evil))
    assert "\x1b" not in story.text() and "\\x1b" in story.text()
    assert "<b>" not in story._repr_html_()


def test_nothing_known_is_said_so() -> None:
    assert told(run()).sentences()
    nothing = ot.summary(ot.generate(traces=1, seed=0).filter(pl.lit(False)))
    ((about, said, _),) = nothing.sentences()
    assert about == "Read" and said.endswith("There is no run in them.")
    bare = run()
    for event in bare["events"]:
        for name in ("tokens_in", "tokens_out", "cost_usd", "trusted", "privileged"):
            event.pop(name, None)
    told_of = {about: text for about, text, _ in told(bare).sentences()}
    assert told_of["Tokens"] == "No recording says how many tokens were used."
    assert told_of["Cost"] == "No recording says what it cost."
    assert told_of["Untrusted"].startswith("No recording says what is untrusted")


def test_what_no_recording_prices_is_priced_by_a_list() -> None:
    def priced(*models: str | None, **more: float) -> str:
        one = run()
        spent = [event for event in one["events"] if "tokens_in" in event or "cost_usd" in event]
        for event in one["events"]:
            for name in ("tokens_in", "tokens_out", "cost_usd", "model"):
                event.pop(name, None)
        for event, model in zip(spent, models, strict=False):
            event.update({"tokens_in": 1_000_000, "tokens_out": 0, "model": model or "ours"})
        spent[0].update(more)
        return {about: text for about, text, _ in told(one).sentences()}["Cost"]

    denial = "No recording says what it cost."
    assert priced("gpt-4o-mini", "gpt-4o-mini") == f"0.3 USD by a list of prices. {denial}"
    half = f"At least 0.15 USD by a list of prices. {denial} 50 % of the tokens have no price."
    assert priced("gpt-4o-mini", None) == half
    assert priced("gpt-4o-mini", "gpt-4o-mini", cost_usd=2.0) == (
        "2 USD as recorded, and 0.15 USD more by a list of prices."
    )
    assert priced(None, None) == denial


def test_sums_of_tokens_do_not_wrap() -> None:
    runs = [run(name) for name in ("a", "b")]
    for one in runs:
        for event in one["events"]:
            event.pop("tokens_out", None)
            if "tokens_in" in event:
                event["tokens_in"] = 2**61
    story = told(*runs)
    assert story.tokens["fresh"] == story.tokens["total"] == 2**63 - 1
    assert "9,223,372,036,854,775,807 fresh" in str(story) and story.unpriced_share == 1.0


def test_trust_in_the_rest_says_nothing_of_results_of_tools() -> None:
    mute = run()
    for event in mute["events"]:
        event["trusted"] = True
        if event["type"] == "tool_result":
            del event["trusted"]
    assert told(mute).exposed is None
    for event in mute["events"]:
        event["trusted"] = True
    assert told(mute).exposed is not None


def test_where_nobody_says_what_is_privileged_nothing_is_said_to_be_safe() -> None:
    bare = run()
    for event in bare["events"]:
        event.pop("privileged", None)
        event["type"] = {"spawn": "message"}.get(event["type"], event["type"])
    said = dict(list(zip(*list(zip(*told(bare).sentences(), strict=True))[:2], strict=True)))
    assert (
        "name tools with --privileged-tool" in said["Untrusted"] and "No untrusted" not in said["Untrusted"]
    )
    asked = told(bare, privileged_tools=["bash"])
    assert asked.exposed is not None and asked.exposed["event"].to_list() == ["e4"]
    (command,) = [command for about, _, command in asked.sentences("x") if about == "Untrusted"]
    assert "--privileged-tool bash" in command


def test_commands_take_the_options_of_the_story() -> None:
    commands = {about: command for about, _, command in told(run(), max_gap=60.0).sentences("x")}
    assert "--max-gap 60 " in commands["Time"] and "--max-gap 60 " in commands["Critical path"]
    assert "$" not in told(run()).text("-")  # nothing is left to read on standard input


def test_a_corpus_on_disk_tells_the_same(tmp_path: Any) -> None:
    ot.ingest(samples_path(), tmp_path / "corpus")
    ours, whole = ot.summary(ot.read_corpus(tmp_path / "corpus")), ot.summary(ot.read_traces(samples_path()))
    assert ours.text() == whole.text()


def test_lengths_of_time() -> None:
    assert [span(x) for x in (0.25, 59.0, 60.0, 3601.0, 5400.0, 90000.0)] == [
        *("0.25 s", "59 s", "1 min", "1 h", "1 h 30 min", "1 d 1 h"),
    ]
