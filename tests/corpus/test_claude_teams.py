"""Teammates of Claude Code that have sessions of their own."""

import json
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot
from samples.claude_lines import Line, asks, calls, codes, edges, gives, is_partial, says, spoken

LEAD = "866b4461-4fb2-4f21-843a-9a0dedfa31c1"
TEAM = "session-866b4461"
MEMBERS = {"ann": "794476d1-7277-4d2f-8edf-cdbc067d0521", "bob": "8f54d1e5-bb6c-494e-8d99-2f95626ff669"}


def mail(second: float, sender: str, text: str) -> Line:
    return asks(second, f'<teammate-message teammate_id="{sender}">\n{text}\n</teammate-message>')


def kept(name: str) -> dict[str, Any]:
    return {"status": "teammate_spawned", "agent_id": f"{name}@{TEAM}", "name": name, "team_name": TEAM}


def lead() -> list[Line]:
    return [
        asks(0, "audit both"),
        calls(6, "m1", "t1", "Agent", {"name": "ann", "subagent_type": "g", "prompt": "left"}),
        gives(8, "t1", "Spawned successfully.", kept("ann")),
        calls(9, "m2", "t2", "Agent", {"name": "bob", "subagent_type": "g", "prompt": "right"}),
        gives(10, "t2", "Spawned successfully.", kept("bob")),
        says(12, "m3", "both at work"),
        mail(60, "ann", "one finding"),
        says(62, "m4", "I wait"),
        mail(80, "bob", "clean"),
        says(84, "m5", "done"),
    ]


def member(name: str, start: float, text: str, end: float) -> list[Line]:
    lines = [
        mail(start, "team-lead", "go"),
        calls(start + 4, f"{name}1", f"r{name}", "Read", {}),
        gives(start + 5, f"r{name}", "x"),
        calls(end, f"{name}2", f"s{name}", "SendMessage", {"to": "team-lead", "message": text}),
        gives(end + 1, f"s{name}", "sent"),
        says(end + 3, f"{name}3", "Reported."),
    ]
    tags = {"teamName": TEAM, "agentName": name, "sessionId": MEMBERS[name]}
    return [line | tags | {"uuid": f"{name}-{line['uuid']}"} for line in lines]


def sessions(folder: Path, **files: list[Line]) -> ot.Corpus:
    ids = {"lead": LEAD} | MEMBERS
    for name, lines in files.items():
        text = "".join(
            json.dumps(line | ({"sessionId": LEAD} if name == "lead" else {})) + "\n" for line in lines
        )
        (folder / f"{ids[name]}.jsonl").write_text(text)
    return ot.read_traces(folder)


def test_a_team_is_one_run(tmp_path: Path) -> None:
    ann, bob = member("ann", 10, "one finding", 50), member("bob", 11, "clean", 71)
    corpus = sessions(tmp_path, lead=lead(), ann=ann, bob=bob)
    assert corpus.traces.select("trace_id").collect()["trace_id"].to_list() == [LEAD]
    assert not is_partial(corpus)
    assert codes(corpus) == {"safety.conservative": 1, "trace.joined": 1}
    tokens = (
        corpus.events.filter(pl.col("tokens").is_not_null()).group_by("agent").agg(pl.col("tokens").sum())
    )
    assert dict(tokens.collect().iter_rows()) == {"main": 110, "ann": 66, "bob": 66}
    said = spoken(corpus)
    assert (50, "message", "ann", "main") in said
    assert (71, "message", "bob", "main") in said
    assert [row for row in said if row[3] == "user"] == [(84, "aggregate", "main", "user")]
    assert {(50, 62), (71, 84)} <= edges(corpus, "message")
    assert {(6, 14), (9, 15)} <= edges(corpus, "spawn")


def test_a_teammate_alone_answers_no_user(tmp_path: Path) -> None:
    corpus = sessions(tmp_path, ann=member("ann", 10, "one finding", 50))
    assert is_partial(corpus)
    assert [row for row in spoken(corpus) if row[3] == "user"] == []
    # Two of one team are of one run, whose lead is missing.
    (tmp_path / "two").mkdir()
    ann, bob = member("ann", 10, "one finding", 50), member("bob", 11, "clean", 71)
    corpus = sessions(tmp_path / "two", ann=ann, bob=bob)
    assert len(corpus) == 1
    assert is_partial(corpus)


def test_a_team_of_another_name_is_joined_to_nobody(tmp_path: Path) -> None:
    # Two teams may be called alike: then every session is a run, and says that its lead is missing.
    ann = [line | {"teamName": "audit"} for line in member("ann", 10, "one finding", 50)]
    corpus = sessions(tmp_path, lead=lead()[:1] + lead()[-1:], ann=ann)
    partial = dict(corpus.traces.select("trace_id", "partial").collect().iter_rows())
    assert partial == {LEAD: False, MEMBERS["ann"]: True}


def test_what_is_typed_to_a_teammate_is_the_users(tmp_path: Path) -> None:
    typed = asks(30, "look twice") | {
        "teamName": TEAM,
        "agentName": "ann",
        "sessionId": MEMBERS["ann"],
        "uuid": "h",
    }
    ann, bob = member("ann", 10, "one finding", 50), member("bob", 11, "clean", 71)
    corpus = sessions(tmp_path, lead=lead(), ann=[*ann[:3], typed, *ann[3:]], bob=bob)
    words = corpus.events.select("t", "agent", "to").collect().filter(pl.col("agent") == "user").rows()
    assert words == [(0, "user", "main"), (30, "user", "ann")]
