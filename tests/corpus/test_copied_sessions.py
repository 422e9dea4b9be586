"""A response is paid once: whatever files, agents or sessions repeat it, sums over traces are the bill."""

import itertools
import json
import random
import shutil
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot

PARENT = "6ab68fec-5eeb-4fb1-823e-39e7732803cd"
COPY = "df735fdd-7385-4d11-85ed-746d9768c32f"
THIRD = "e1111111-7385-4d11-85ed-746d9768c32f"


class Session:
    """Lines of a session, or of an agent of it."""

    def __init__(self, session: str, agent: str | None = None) -> None:
        self.session, self.agent, self.lines = session, agent, list[dict[str, object]]()

    def put(self, at: int, kind: str, message: dict[str, object], **more: object) -> "Session":
        self.lines.append(
            {
                "parentUuid": self.lines[-1]["uuid"] if self.lines else None,
                "isSidechain": self.agent is not None,
                "sessionId": self.session,
                "type": kind,
                "uuid": f"{self.agent or self.session[:4]}-{len(self.lines)}",
                "timestamp": f"2026-09-14T09:{at // 60:02d}:{at % 60:02d}.000Z",
                "message": {"role": kind} | message,
            }
            | ({"agentId": self.agent} if self.agent else {})
            | more
        )
        return self

    def prompt(self, at: int, text: str) -> "Session":
        return self.put(at, "user", {"content": text})

    def response(self, at: int, name: str, read: int, *content: dict[str, object]) -> "Session":
        usage = {"input_tokens": read, "output_tokens": 10}
        body = content or ({"type": "text", "text": f"answer {name}"},)
        message = {"id": f"msg_{name}", "model": "m", "content": list(body), "usage": usage}
        return self.put(at, "assistant", message, requestId=f"req_{name}")

    def result(self, at: int, call: str, text: str, **more: object) -> "Session":
        return self.put(
            at, "user", {"content": [{"type": "tool_result", "tool_use_id": call, "content": text}]}, **more
        )

    def copy(
        self, session: str, *, agent: str | None = None, mark: bool = True, fresh: bool = False
    ) -> "Session":
        """The same lines in another session or agent, under their ids or fresh ones."""
        copy = Session(session, agent)
        for line in self.lines:
            new = line | {"sessionId": session, "isSidechain": agent is not None}
            new |= {"agentId": agent} if agent else {}
            if mark:
                new["forkedFrom"] = {"sessionId": self.session, "messageUuid": line["uuid"]}
            if fresh:
                new["uuid"] = f"new-{line['uuid']}"
                new["parentUuid"] = f"new-{line['parentUuid']}" if line["parentUuid"] else None
            copy.lines.append(new)
        return copy

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in self.lines))


def call(name: str, tool: str = "Bash", **arguments: object) -> dict[str, object]:
    return {"type": "tool_use", "id": name, "name": tool, "input": arguments}


def parent() -> Session:
    session = Session(PARENT).prompt(0, "Go.").response(5, "1", 100, call("c1"))
    return session.result(6, "c1", "ok").response(9, "2", 200)


def resumed(**how: bool) -> Session:
    return parent().copy(COPY, **how).prompt(600, "Go on.").response(605, "3", 1_000)


def by_trace(corpus: ot.Corpus) -> dict[str, int | None]:
    return dict(ot.metrics(corpus).select("trace_id", "tokens").rows())


def inherited(corpus: ot.Corpus) -> dict[str, float]:
    rows = corpus.measures.filter(pl.col("name").cast(pl.String) == "tokens_inherited")
    return dict(rows.join(corpus.traces, on="trace").select("trace_id", "value").collect().rows())


@pytest.mark.parametrize("how", [{"mark": True}, {"mark": False}, {"mark": True, "fresh": True}])
def test_a_resumed_session_has_its_own_part_only(tmp_path: Path, how: dict[str, bool]) -> None:
    parent().write(tmp_path / f"{PARENT}.jsonl")
    resumed(**how).write(tmp_path / f"{COPY}.jsonl")
    corpus = ot.read_traces(tmp_path)
    assert by_trace(corpus) == {PARENT: 320, COPY: 1_010}
    assert inherited(corpus) == {COPY: 320}
    codes = corpus.findings.filter(pl.col("code").cast(pl.String) == "usage.inherited").collect()
    assert codes["message"].to_list() == [
        f"2 responses (320 tokens as recorded here) repeat those of trace '{PARENT}', where they count"
    ]
    events = (
        corpus.events.join(corpus.traces, on="trace").filter(pl.col("trace_id") == COPY).collect().sort("seq")
    )
    assert events.height == 6, "the history keeps its place"
    copied = events["extras"].str.json_path_match("$.x_copied").to_list()
    assert copied == [PARENT] * 4 + [None] * 2
    assert events["tokens"].to_list() == [None] * 5 + [1_010]


def test_the_session_that_is_marked_as_copied_is_the_copy_whatever_its_id(tmp_path: Path) -> None:
    """The least id decides only where nothing else does."""
    original = Session(THIRD)
    original.lines = parent().copy(THIRD, mark=False).lines
    original.write(tmp_path / "a.jsonl")
    copy = original.copy(COPY).response(700, "9", 5)
    copy.write(tmp_path / "b.jsonl")
    assert by_trace(ot.read_traces(tmp_path)) == {THIRD: 320, COPY: 15}
    copy = original.copy(COPY, mark=False).response(700, "9", 5)
    copy.write(tmp_path / "b.jsonl")
    assert by_trace(ot.read_traces(tmp_path)) == {COPY: 335, THIRD: None}


def test_a_copy_without_its_original_counts(tmp_path: Path) -> None:
    resumed().write(tmp_path / f"{COPY}.jsonl")
    corpus = ot.read_traces(tmp_path)
    assert by_trace(corpus) == {COPY: 1_330}
    assert inherited(corpus) == {}


def test_copies_of_copies_count_once(tmp_path: Path) -> None:
    sessions = [parent(), resumed(), resumed().copy(THIRD).response(900, "4", 7)]
    for order in itertools.permutations(range(3)):
        folder = tmp_path / "".join(map(str, order))
        for place, number in enumerate(order):
            sessions[number].write(folder / f"{place}.jsonl")
        # The second copy repeats responses of both of the others.
        assert by_trace(ot.read_traces(folder)) == {PARENT: 320, COPY: 1_010, THIRD: 17}, order


def test_sessions_whose_ids_are_theirs_alone_share_nothing(tmp_path: Path) -> None:
    """Without a request, a short message id is no identity: gateways count from 1."""
    for name in (PARENT, COPY):
        session = Session(name).prompt(0, "Go.").response(5, "1", 100)
        del session.lines[-1]["requestId"]
        session.write(tmp_path / f"{name}.jsonl")
    assert by_trace(ot.read_traces(tmp_path)) == {PARENT: 110, COPY: 110}


def fork(*, mark: bool) -> tuple[Session, Session]:
    """A session, and an agent whose file begins with a copy of it."""
    asks = call("c2", "Agent", subagent_type="fork", description="d", prompt="Check the quota.")
    main = parent().response(12, "a", 300, asks)
    agent = main.copy(PARENT, agent="a1", mark=mark, fresh=True)
    agent.put(
        14,
        "user",
        {
            "content": [
                {"type": "tool_result", "tool_use_id": "c2", "content": "Fork started"},
                {"type": "text", "text": "Check the quota."},
            ]
        },
        uuid="own-0",
    )
    agent.response(16, "f1", 50, call("cf"))
    agent.result(17, "cf", "100%").response(20, "f2", 60)
    launch = {"status": "async_launched", "agentId": "a1", "agentType": "fork"}
    main.result(13, "c2", "launched", toolUseResult=launch).response(15, "b", 400)
    return main, agent


@pytest.mark.parametrize("mark", [True, False])
def test_a_fork_has_what_it_did_itself(tmp_path: Path, mark: bool) -> None:
    main, agent = fork(mark=mark)
    main.write(tmp_path / f"{PARENT}.jsonl")
    agent.write(tmp_path / PARENT / "subagents" / "agent-a1.jsonl")
    corpus = ot.read_traces(tmp_path)
    events = corpus.events.with_columns(pl.col("agent", "type", "tool").cast(pl.String)).collect()
    sums = dict(events.group_by("agent").agg(pl.col("tokens").sum()).rows())
    assert (sums["main"], sums["fork"]) == (110 + 210 + 310 + 410, 60 + 70)
    calls = events.filter(pl.col("type") == "tool_call")
    assert calls.select("agent", "id").rows() == [("main", "c1"), ("fork", "cf")]
    spawn = events.filter(pl.col("type") == "spawn")["t"].item()
    assert events.filter(pl.col("agent") == "fork")["t"].min() >= spawn
    counts = dict(corpus.record_counts.group_by("status").agg(pl.col("count").sum()).collect().rows())
    assert counts == {"used": len(main.lines) + 4, "duplicate": 5}
    assert not {"id.repeated", "clock.skew"} & set(corpus.findings.collect()["code"].cast(pl.String))


def test_any_files_again_under_other_names_change_nothing(tmp_path: Path) -> None:
    main, agent = fork(mark=True)
    base = tmp_path / "base"
    main.write(base / f"{PARENT}.jsonl")
    agent.write(base / PARENT / "subagents" / "agent-a1.jsonl")
    resumed().write(base / f"{COPY}.jsonl")

    def facts(folder: Path) -> list[object]:
        corpus = ot.read_traces(folder)
        events = corpus.events.with_columns(pl.col("type", "agent").cast(pl.String)).collect()
        told = events.filter(pl.col("type").is_in(["tool_call", "return", "aggregate"]))
        return [
            sorted(by_trace(corpus).items()),
            sorted(inherited(corpus).items()),
            sorted(told.select("agent", "type", "id", "tokens").rows(), key=str),
            ot.metrics(corpus).select(pl.col("cost_usd", "tokens_out").sum()).rows(),
        ]

    whole = facts(base)
    files = sorted(path for path in base.rglob("*.jsonl"))
    rng = random.Random(1)
    for turn in range(12):
        folder = tmp_path / f"again{turn}"
        shutil.copytree(base, folder)
        for path in rng.sample(files, rng.randint(1, len(files))):
            below = path.relative_to(base)
            other = rng.choice(["backup", "00", "zz"])
            target = (
                folder / other / below
                if rng.random() < 0.5
                else (folder / below).with_stem(f"{path.stem}.{other}")
            )
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        assert facts(folder) == whole, turn


def test_a_corpus_on_disk_has_the_same_sums(tmp_path: Path) -> None:
    parent().write(tmp_path / "in" / f"{PARENT}.jsonl")
    resumed().write(tmp_path / "in" / f"{COPY}.jsonl")
    ot.ingest(tmp_path / "in", tmp_path / "corpus")
    corpus = ot.read_corpus(tmp_path / "corpus")
    assert by_trace(corpus) == {PARENT: 320, COPY: 1_010}


@pytest.mark.parametrize("names", list(itertools.permutations([PARENT, COPY, THIRD])))
def test_of_sessions_that_all_say_to_be_copies_the_one_that_is_named_is_the_original(
    tmp_path: Path, names: tuple[str, str, str]
) -> None:
    """The first session is not there, the second repeats it, the third the second. No order decides."""
    gone, second, third = names
    first = Session(gone)
    first.lines = parent().copy(gone, mark=False).lines
    sessions = [first.copy(second).response(605, "3", 1_000)]
    sessions.append(sessions[0].copy(third).response(900, "4", 7))
    for order in ((0, 1), (1, 0)):
        for place, number in enumerate(order):
            sessions[number].write(tmp_path / f"{order[0]}" / f"{place}.jsonl")
        corpus = ot.read_traces(tmp_path / f"{order[0]}")
        assert by_trace(corpus) == {second: 1_330, third: 17}, order
        assert inherited(corpus) == {third: 1_330}


def test_sessions_that_say_to_be_copies_of_each_other_count_once(tmp_path: Path) -> None:
    one, other = parent().copy(COPY), parent().copy(THIRD)
    for session, of in ((one, THIRD), (other, COPY)):
        for line in session.lines:
            line["forkedFrom"] = {"sessionId": of}
    one.write(tmp_path / "b.jsonl")
    other.write(tmp_path / "a.jsonl")
    assert by_trace(ot.read_traces(tmp_path)) == {COPY: 320, THIRD: None}


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("names", [("a1", "b1"), ("b1", "a1")])
def test_of_agents_that_are_all_marked_the_one_whose_records_are_named_is_the_original(
    tmp_path: Path, names: tuple[str, str], fresh: bool
) -> None:
    """The main stream is not there; the first agent has its records, the second those of the first."""
    one, two = names
    first = parent().copy(PARENT, agent=one, fresh=True)
    second = first.copy(PARENT, agent=two, fresh=fresh)
    if not fresh:
        for line in first.lines:
            del line["forkedFrom"]
    first.response(20, "f1", 50)
    second.response(21, "f2", 60)
    for order in ((first, second), (second, first)):
        folder = tmp_path / str(order[0].agent)
        for place, session in enumerate(order):
            session.write(folder / str(place) / PARENT / "subagents" / f"agent-{session.agent}.jsonl")
        events = ot.read_traces(folder).events.with_columns(pl.col("agent").cast(pl.String)).collect()
        sums = dict(events.group_by("agent").agg(pl.col("tokens").sum()).rows())
        assert (sums[one], sums[two]) == (110 + 210 + 60, 70), order


@pytest.mark.parametrize("first", ["main", "agent"])
def test_records_that_an_agent_repeats_under_their_ids_stay_with_the_main_stream(
    tmp_path: Path, first: str
) -> None:
    main, agent = fork(mark=True)
    for line in agent.lines:
        line["uuid"] = str(line["uuid"]).removeprefix("new-")
    for place, (name, session) in enumerate(
        sorted([("main", main), ("agent", agent)], key=lambda one: one[0] != first)
    ):
        below = f"{PARENT}.jsonl" if name == "main" else f"{PARENT}/subagents/agent-a1.jsonl"
        session.write(tmp_path / str(place) / below)
    events = ot.read_traces(tmp_path).events.with_columns(pl.col("agent").cast(pl.String)).collect()
    sums = dict(events.group_by("agent").agg(pl.col("tokens").sum()).rows())
    assert (sums["main"], sums["fork"]) == (110 + 210 + 310 + 410, 60 + 70)


def test_the_help_of_another_model_is_paid_once_too(tmp_path: Path) -> None:
    helped = {
        "input_tokens": 5,
        "output_tokens": 50,
        "iterations": [
            {"type": "message", "input_tokens": 5, "output_tokens": 50},
            {"type": "advisor_message", "model": "m-2", "input_tokens": 300, "output_tokens": 40},
        ],
    }
    original = parent()
    message = original.lines[-1]["message"]
    assert isinstance(message, dict)
    message["usage"] = helped
    original.write(tmp_path / f"{PARENT}.jsonl")
    original.copy(COPY).response(605, "3", 1_000).write(tmp_path / f"{COPY}.jsonl")
    corpus = ot.read_traces(tmp_path)
    assert by_trace(corpus) == {PARENT: 110 + 55 + 340, COPY: 1_010}
    assert inherited(corpus) == {COPY: 110 + 55 + 340}


def spans(trace: str, responses: list[tuple[str, int]]) -> str:
    """What Claude Code exports of responses: request and input."""

    def span(number: int, parent: int, name: str, **attributes: object) -> dict[str, object]:
        at = 1_789_376_400_000_000_000 + number * 1_000_000_000
        return {
            "traceId": trace,
            "spanId": f"{number:016x}",
            "parentSpanId": f"{parent:016x}" if parent else "",
            "name": f"claude_code.{name}",
            "startTimeUnixNano": str(at),
            "endTimeUnixNano": str(at + 500_000_000),
            "attributes": [{"key": k, "value": {"stringValue": str(v)}} for k, v in attributes.items()],
        }

    lines = [span(1, 0, "interaction", **{"session.id": PARENT})]
    lines += [
        span(n + 2, 1, "llm_request", request_id=f"req_{name}", input_tokens=read, output_tokens=10)
        for n, (name, read) in enumerate(responses)
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": lines}]}]}) + "\n"


def test_spans_of_a_session_repeat_its_responses(tmp_path: Path) -> None:
    """A program that records its session and exports spans says each response twice, with its request."""
    trace = "5f0c1d2e3a4b5c6d7e8f901122334455"
    (tmp_path / "spans.jsonl").write_text(spans(trace, [("1", 100), ("2", 200), ("elsewhere", 7)]))
    alone = ot.read_traces(tmp_path)
    assert by_trace(alone) == {trace: 337}
    parent().write(tmp_path / f"{PARENT}.jsonl")
    for first, second in ((".", ""), ("", ".")):
        for path in list(tmp_path.iterdir()):
            path.rename(path.with_name((first if "spans" in path.name else second) + path.name.lstrip(".")))
        both = ot.read_traces([str(path) for path in sorted(tmp_path.iterdir())])
        assert by_trace(both) == {PARENT: 320, trace: 17}
        assert inherited(both) == {trace: 320}
        events = both.events.join(both.traces, on="trace").filter(pl.col("trace_id") == trace).collect()
        copied = events.sort("t")["extras"].str.json_path_match("$.x_copied").drop_nulls().to_list()
        assert copied == [PARENT] * 2
    # What is no id of a provider may be of any request.
    (tmp_path / "spans.jsonl").write_text(spans(trace, [("1", 100)]).replace("req_1", "1"))
    resumed = parent()
    for line in resumed.lines:
        line |= {"requestId": "1"} if "requestId" in line else {}
    resumed.write(tmp_path / f"{PARENT}.jsonl")
    paths = [tmp_path / "spans.jsonl", tmp_path / f"{PARENT}.jsonl"]
    assert by_trace(ot.read_traces(paths)) == {PARENT: 320, trace: 110}
