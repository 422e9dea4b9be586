"""Agents of Claude Code that answer more than once, and agents of workflows: who answered whom, and when."""

from pathlib import Path

import polars as pl

import orchestrace as ot
from samples.claude_lines import (
    SESSION,
    Line,
    asks,
    by,
    calls,
    codes,
    edges,
    gives,
    is_partial,
    launches,
    line,
    notifies,
    read,
    says,
    spoken,
)

AGENT = {"subagent_type": "x", "prompt": "write", "run_in_background": True}


def test_an_agent_that_is_resumed_answers_twice(tmp_path: Path) -> None:
    main = [
        asks(0, "go"),
        calls(4, "m1", "t1", "Agent", AGENT),
        launches(5, "t1", "aa"),
        says(8, "m2", "at work"),
        notifies(60, "aa", "written", "t1"),
        calls(64, "m3", "t2", "SendMessage", {"to": "aa", "message": "add an index"}),
        gives(65, "t2", "sent", {"success": True, "resumedAgentId": "aa"}),
        says(68, "m4", "it goes on"),
        notifies(120, "aa", "added", "t2"),
        says(124, "m5", "done"),
    ]
    agent = [asks(5, "write"), says(58, "c1", "written"), asks(66, "add an index"), says(118, "c2", "added")]
    corpus = read(tmp_path, main, aa=agent)
    assert spoken(corpus) == [
        (8, "message", "main", None),
        (58, "message", "x", "main"),
        (64, "message", "main", "x"),
        (68, "message", "main", None),
        (118, "return", "x", "main"),
        (124, "aggregate", "main", "user"),
    ]
    assert {(58, 64), (64, 118)} <= edges(corpus, "message")
    assert edges(corpus, "return") & {(58, 64), (58, 124), (118, 124)} == {(118, 124)}
    assert codes(corpus) == {}
    assert not is_partial(corpus)


def test_the_last_notice_may_be_missing(tmp_path: Path) -> None:
    # The second answer arrives where its parent goes on; the first keeps its place.
    main = [
        asks(0, "go"),
        calls(4, "m1", "t1", "Agent", AGENT),
        launches(5, "t1", "aa"),
        notifies(60, "aa", "written"),
        calls(64, "m3", "t2", "SendMessage", {"to": "aa", "message": "more"}),
        gives(65, "t2", "sent"),
        says(124, "m5", "done"),
    ]
    agent = [asks(5, "write"), says(58, "c1", "written"), asks(66, "more"), says(118, "c2", "added")]
    corpus = read(tmp_path, main, aa=agent)
    assert (58, 64) in edges(corpus, "message")
    assert (118, 124) in edges(corpus, "return")
    assert codes(corpus) == {}


def test_a_call_that_resumes_brings_its_own_answer(tmp_path: Path) -> None:
    main = [
        asks(0, "go"),
        calls(1, "m1", "t1", "Agent", {"subagent_type": "x", "prompt": "write"}),
        gives(10, "t1", "written", {"agentId": "aa", "totalTokens": 22}),
        calls(12, "m2", "t2", "Agent", {"subagent_type": "x", "prompt": "more", "resume": "aa"}),
        gives(20, "t2", "added", {"agentId": "aa", "totalTokens": 22}),
        says(22, "m3", "done"),
    ]
    agent = [asks(2, "write"), says(9, "c1", "written"), asks(13, "more"), says(19, "c2", "added")]
    corpus = read(tmp_path, main, aa=agent)
    assert [row for row in spoken(corpus) if row[2] == "x"] == [
        (9, "message", "x", "main"),
        (19, "return", "x", "main"),
    ]
    assert (9, 10) in edges(corpus, "message")
    assert edges(corpus, "return") == {(19, 20)}
    assert codes(corpus) == {}
    # The same where only the results are left of the agent.
    (tmp_path / "alone").mkdir()
    corpus = read(tmp_path / "alone", main)
    assert (10, 10) in edges(corpus, "message")
    assert edges(corpus, "return") == {(20, 20)}
    assert codes(corpus) == {"trace.partial": 1}


def test_an_agent_that_waits_for_its_own_child_notifies_again(tmp_path: Path) -> None:
    main = [
        asks(0, "go"),
        calls(1, "m1", "t1", "Agent", AGENT),
        launches(2, "t1", "aa"),
        notifies(20, "aa", "my child works"),
        says(22, "m2", "I wait"),
        notifies(60, "aa", "all done"),
        says(62, "m3", "done"),
    ]
    agent = [
        asks(2, "write"),
        calls(3, "c1", "t9", "Agent", {"subagent_type": "y", "prompt": "deep"}),
        launches(4, "t9", "bb"),
        says(19, "c2", "my child works"),
        notifies(50, "bb", "deep answer"),
        says(58, "c3", "all done"),
    ]
    corpus = read(tmp_path, main, aa=agent, bb=[asks(4, "deep"), says(48, "d1", "deep answer")])
    assert (19, 22) in edges(corpus, "message")
    assert {(48, 58), (58, 62)} <= edges(corpus, "return")
    assert codes(corpus) == {}


def test_an_answer_that_only_the_notice_has(tmp_path: Path) -> None:
    # The first visit ends within a call: what it answered is what the notice says.
    main = [
        asks(0, "go"),
        calls(4, "m1", "t1", "Agent", AGENT),
        launches(5, "t1", "aa"),
        notifies(60, "aa", "stopped", status="killed"),
        calls(64, "m3", "t2", "SendMessage", {"to": "aa", "message": "more"}),
        gives(65, "t2", "sent"),
        notifies(120, "aa", "added"),
        says(124, "m5", "done"),
    ]
    agent = [
        asks(5, "write"),
        calls(30, "c1", "t9", "Write", {}),
        gives(31, "t9", "ok"),
        asks(66, "more"),
        says(118, "c2", "added"),
    ]
    corpus = read(tmp_path, main, aa=agent)
    assert (60, 64) in edges(corpus, "message")
    assert (118, 124) in edges(corpus, "return")
    assert codes(corpus).keys() == {"safety.conservative", "trace.partial"}
    # Without its file there are two answers, each with the time at which it came.
    (tmp_path / "alone").mkdir()
    corpus = read(tmp_path / "alone", main)
    assert (60, 64) in edges(corpus, "message")
    assert (120, 124) in edges(corpus, "return")


def test_a_call_that_wakes_an_agent_asks_once(tmp_path: Path) -> None:
    """Its prompt stands in the agent's file, too: the spawn has said it."""
    main = [
        asks(0, "go"),
        calls(1, "m1", "t1", "Agent", {"subagent_type": "x", "prompt": "write"}),
        gives(10, "t1", "written", {"agentId": "aa"}),
        calls(12, "m2", "t2", "Agent", {"subagent_type": "x", "prompt": "more", "resume": "aa"}),
        gives(20, "t2", "added", {"agentId": "aa"}),
        says(22, "m3", "done"),
    ]
    agent = [asks(2, "write"), says(9, "c1", "written"), asks(13, "more"), says(19, "c2", "added")]
    corpus = read(tmp_path, main, aa=agent)
    events = corpus.events.select("t", "type", "agent", "to").collect().rows()
    assert [(t, str(kind)) for t, kind, agent, to in events if to == "x"] == [(1, "spawn"), (12, "spawn")]
    assert edges(corpus, "spawn") >= {(1, 9), (12, 19)}
    # What somebody types to it is said by nobody else.
    (tmp_path / "typed").mkdir()
    typed = [*agent, asks(30, "and now?"), says(32, "c3", "now, too")]
    events = read(tmp_path / "typed", main, aa=typed).events.select("t", "type", "to").collect().rows()
    assert [(t, str(kind)) for t, kind, to in events if to == "x"] == [
        (1, "spawn"),
        (12, "spawn"),
        (30, "message"),
    ]


def background(*rest: Line) -> list[Line]:
    return [asks(0, "go"), calls(4, "m1", "t1", "Agent", AGENT), launches(5, "t1", "aa"), *rest]


def forward(corpus: ot.Corpus) -> bool:
    """Whether no edge leads back in time, and none closes a cycle."""
    times = corpus.events.select("t").collect()["t"]
    rows = corpus.edges.select("src", "dst").collect().rows()
    odd = {"time.reversed", "graph.cycle", "clock.skew"} & set(map(str, codes(corpus)))
    return all(times[src] <= times[dst] for src, dst in rows) and not odd


def test_what_an_agent_says_after_its_notice_is_not_its_answer(tmp_path: Path) -> None:
    main = background(notifies(60, "aa", "written"), says(64, "m2", "done"))
    agent = [asks(5, "write"), says(58, "c1", "written"), says(70, "c2", "bye")]
    corpus = read(tmp_path, main, aa=agent)
    assert spoken(corpus) == [
        (58, "return", "x", "main"),
        (64, "aggregate", "main", "user"),
        (70, "message", "x", None),
    ]
    assert edges(corpus, "return") >= {(58, 64)}
    assert forward(corpus)
    # The same where it goes on with a call.
    (tmp_path / "call").mkdir()
    agent[-1] = calls(70, "c2", "t9", "Write", {})
    corpus = read(tmp_path / "call", main, aa=agent)
    assert spoken(corpus) == [(58, "return", "x", "main"), (64, "aggregate", "main", "user")]
    assert forward(corpus)


def test_a_notice_that_comes_before_the_line_that_it_tells_of(tmp_path: Path) -> None:
    """The line was written later than it was said: at the latest when others knew of it."""
    work = [asks(5, "write"), calls(30, "c1", "t9", "Write", {}), gives(31, "t9", "ok")]
    main = background(notifies(60, "aa", "written"), says(64, "m2", "done"))
    corpus = read(tmp_path, main, aa=[*work, says(66, "c2", "written")])
    assert spoken(corpus) == [(60, "return", "x", "main"), (64, "aggregate", "main", "user")]
    assert edges(corpus, "return") >= {(60, 64)}
    assert forward(corpus)
    assert not is_partial(corpus)


def test_a_notice_that_its_agent_has_not_answered_yet(tmp_path: Path) -> None:
    """What the notice says is the answer; what the agent says later is another thing."""
    work = [asks(5, "write"), calls(30, "c1", "t9", "Write", {}), gives(31, "t9", "ok")]
    main = background(notifies(60, "aa", "half"), says(64, "m2", "done"))
    corpus = read(tmp_path, main, aa=[*work, says(66, "c2", "whole")])
    assert spoken(corpus) == [
        (60, "return", "x", "main"),
        (64, "aggregate", "main", "user"),
        (66, "message", "x", None),
    ]
    assert edges(corpus, "return") >= {(60, 64)}
    assert forward(corpus)
    assert is_partial(corpus)
    # A notice without a text says no answer: what comes later reaches whoever goes on after it.
    (tmp_path / "empty").mkdir()
    ends = asks(
        60, "<task-notification>\n<task-id>aa</task-id>\n<status>completed</status>\n</task-notification>"
    )
    main = background(ends, says(64, "m2", "I wait"), asks(80, "so?"), says(84, "m3", "done"))
    corpus = read(tmp_path / "empty", main, aa=[*work, says(66, "c2", "whole")])
    assert (66, "return", "x", "main") in spoken(corpus)
    assert forward(corpus)


def workflow(path: Path, *, ends: bool = True, notice: bool = True) -> ot.Corpus:
    main = [
        asks(0, "go"),
        calls(4, "m1", "t1", "Workflow", {"script": "s"}),
        gives(5, "t1", "Workflow launched in background. Task ID: w1. Run ID: wf1"),
        says(8, "m2", "it runs"),
        *([notifies(60, "w1", "two findings", "t1")] if notice else []),
        says(64, "m3", "done"),
    ]
    agents = {}
    for agent, second in {"aa": 10, "bb": 20}.items():
        agents[f"wf1__{agent}"] = [
            asks(second, "find"),
            calls(second + 1, f"{agent}1", f"r{agent}", "Read", {}),
            gives(second + 2, f"r{agent}", "x"),
        ]
        if ends:
            agents[f"wf1__{agent}"] += [
                calls(second + 3, f"{agent}2", f"s{agent}", "StructuredOutput", {"answer": agent}),
                gives(second + 4, f"s{agent}", "Structured output provided successfully"),
            ]
    journal = [
        {"type": kind, "key": agent, "agentId": agent, "result": {"answer": agent}}
        for agent in ("aa", "bb")
        for kind in ("started", "result")
    ]
    return read(path, main, **agents, wf1__journal=journal)


def test_agents_of_a_workflow_return_at_its_notice(tmp_path: Path) -> None:
    corpus = workflow(tmp_path)
    assert not is_partial(corpus)
    assert edges(corpus, "return") >= {(14, 64), (24, 64)}
    assert edges(corpus, "aggregate") == {(14, 64), (24, 64)}
    paid = pl.DataFrame({"trace_id": [SESSION], "reward": [1.0]})
    rows = ot.credit(corpus.with_measures(paid), method="difference", unit="agent", reward="reward")
    credit = dict(rows.select("unit_id", "credit").iter_rows())
    assert credit["aa"] > 0
    assert credit["bb"] > 0


def test_an_agent_of_a_workflow_whose_end_only_the_journal_knows(tmp_path: Path) -> None:
    corpus = workflow(tmp_path, ends=False)
    assert is_partial(corpus)
    assert edges(corpus, "return") >= {(12, 64), (22, 64)}


def test_a_run_that_is_launched_again_spawns_no_agent_twice(tmp_path: Path) -> None:
    launch = "Workflow launched in background. Task ID: {}. Run ID: wf1"
    main = [
        asks(0, "go"),
        calls(4, "m1", "t1", "Workflow", {"script": "s"}),
        gives(5, "t1", launch.format("w1")),
        notifies(30, "w1", "failed", "t1", status="failed"),
        calls(34, "m2", "t2", "Workflow", {"resumeFromRunId": "wf1"}),
        gives(35, "t2", launch.format("w2")),
        notifies(60, "w2", "done", "t2"),
        says(64, "m3", "done"),
    ]
    first, second = ([asks(t, "find"), says(t + 5, f"c{t}", "found")] for t in (10, 40))
    corpus = read(tmp_path, main, wf1__aa=first, wf1__bb=second)
    events = corpus.events.select("t", "type", "to").collect().rows()
    assert [(t, to) for t, kind, to in events if kind == "spawn"] == [(4, "aa"), (34, "bb")]
    assert (15, 34) in edges(corpus, "return")
    assert (45, 64) in edges(corpus, "return")
    assert not is_partial(corpus)


def test_a_main_agent_may_end_with_a_structured_answer(tmp_path: Path) -> None:
    main = [
        asks(0, "go"),
        calls(4, "m1", "t1", "StructuredOutput", {"a": 1}),
        gives(5, "t1", "Structured output provided successfully"),
    ]
    corpus = read(tmp_path, main)
    assert spoken(corpus) == [(5, "return", "main", "user")]
    assert not is_partial(corpus)
    # One that was refused is none.
    (tmp_path / "bad").mkdir()
    main[2]["message"]["content"][0]["is_error"] = True
    assert is_partial(read(tmp_path / "bad", main))


def test_builders_make_what_they_say() -> None:
    assert by("aa", [line(1, "user")])[0]["agentId"] == "aa"
