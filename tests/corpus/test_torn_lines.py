"""Lines that are not one record: what is whole in them is used, what is cut is one reject each."""

import json
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot
from orchestrace import _core
from samples.verdict_cases import BASE, text as text_of

SESSION = "77dae9d8-995d-4ab0-8e5e-6ec3b2799a79"


def line(number: int, kind: str, **message: object) -> str:
    """A line of a session, `number` seconds after its start."""
    record = {
        "parentUuid": f"u{number - 1}" if number else None,
        "isSidechain": False,
        "sessionId": SESSION,
        "type": kind,
        "uuid": f"u{number}",
        "timestamp": f"2026-09-14T09:00:{number:02d}.000Z",
        "message": {"role": kind, **message},
    }
    if kind == "assistant":
        record["requestId"] = f"req_{number}"
    return json.dumps(record, separators=(",", ":"))


def response(number: int, *content: dict[str, object]) -> str:
    usage = {"input_tokens": 100, "output_tokens": number}
    return line(number, "assistant", id=f"msg_{number}", model="m", content=list(content), usage=usage)


def text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def call(number: int) -> dict[str, object]:
    return {"type": "tool_use", "id": f"call_{number}", "name": "Bash", "input": {"command": "ls"}}


def result(number: int, of: int) -> str:
    return line(
        number, "user", content=[{"type": "tool_result", "tool_use_id": f"call_{of}", "content": "3"}]
    )


def session() -> list[str]:
    return [
        line(0, "user", content="Count the tests."),
        response(1, call(1)),
        result(2, of=1),
        response(3, text("Three.")),
        line(4, "user", content="And the slow ones?"),
        response(5, text("One.")),
    ]


def read(folder: Path, content: str | bytes) -> ot.Corpus:
    path = folder / f"{SESSION}.jsonl"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return ot.read_traces(path)


def counts(corpus: ot.Corpus) -> dict[str, int]:
    by_status = corpus.record_counts.group_by("status").agg(pl.col("count").sum()).collect()
    return dict(by_status.sort("status").rows())


def tokens(corpus: ot.Corpus) -> int:
    return int(ot.metrics(corpus)["tokens"].sum())


CUT = '{"type":"pr-link","sessionId":"77dae9d8'


@pytest.mark.parametrize(
    ("between", "quarantined"),
    [
        (CUT, 1),
        ("", 0),
        ("\0" * 400, 0),
        ("\ufeff", 0),
        ("\x1e", 0),
        (CUT + "\0" * 40, 1),
        ('{"parentUuid":null,"message":{"content":"a \\"quoted\\" {text}', 1),
        ('{"parentUuid":null,"message":{"content":[{"type":"text","text":"x"}', 1),
        ('{"parentUuid":null,"message":', 1),
        (CUT + CUT, 2),
    ],
)
def test_whole_records_of_a_torn_line_are_used(tmp_path: Path, between: str, quarantined: int) -> None:
    lines = session()
    # The call stands alone, its result behind what is torn.
    torn = [lines[0], lines[1] + between + lines[2], *lines[3:]]
    corpus = read(tmp_path, "\n".join(torn) + "\n")
    assert counts(corpus) == {"used": 6} | ({"quarantined": quarantined} if quarantined else {})
    assert tokens(corpus) == 3 * 100 + 1 + 3 + 5
    assert corpus.traces.collect()["partial"].to_list() == [quarantined > 0]
    assert corpus.events.collect()["type"].to_list() == [
        "message",
        "tool_call",
        "tool_result",
        "message",
        "message",
        "return",
    ]


def test_a_fragment_has_its_place(tmp_path: Path) -> None:
    lines = session()
    torn = [*lines[:2], CUT + lines[2] + lines[3][:70], *lines[4:]]
    content = "\n".join(torn) + "\n"
    rows = read(tmp_path, content).quarantine.collect()
    assert rows["line"].to_list() == [3, 3]
    assert rows["code"].to_list() == ["json.syntax", "json.syntax"]
    raw = content.encode()
    cut = [raw[o : o + n].decode() for o, n in zip(rows["offset"], rows["length"], strict=True)]
    assert cut == [CUT, lines[3][:70]]


def test_a_cut_character_costs_its_own_record_alone(tmp_path: Path) -> None:
    lines = [row.encode() for row in session()]
    cut = '{"type":"ai-title","title":"é'.encode()[:-1]
    corpus = read(tmp_path, b"\n".join([lines[0], cut + lines[1], *lines[2:]]))
    assert counts(corpus) == {"quarantined": 1, "used": 6}
    assert corpus.quarantine.collect()["length"].to_list() == [len(cut)]


def test_the_last_line_without_its_end_is_a_cut_record(tmp_path: Path) -> None:
    lines = session()
    corpus = read(tmp_path, "\n".join([*lines[:4], lines[4] + lines[5][:-40]]))
    assert counts(corpus) == {"quarantined": 1, "used": 5}
    assert corpus.quarantine.collect()["code"].to_list() == ["input.truncated"]


def test_a_cut_record_gives_none_of_its_parts(tmp_path: Path) -> None:
    lines = session()
    # The message, and the block in it, are whole objects.
    for cut in ('"}]', "}},", "3}"):
        end = lines[3].index(cut) + 2
        corpus = read(tmp_path, "\n".join([*lines[:3], lines[3][:end], *lines[4:]]) + "\n")
        assert counts(corpus) == {"quarantined": 1, "used": 5}, cut


def test_a_prompt_behind_a_lost_record_is_no_intervention(tmp_path: Path) -> None:
    lines = session()
    # Of the answer only its beginning is left: nobody knows whether the user waited for it.
    for lost in (lines[3][:120] + "\n", lines[3][:120], "{broken\n"):
        corpus = read(tmp_path, "\n".join(lines[:3]) + "\n" + lost + "\n".join(lines[4:]) + "\n")
        types = corpus.events.collect()["type"].to_list()
        assert types == ["message", "tool_call", "tool_result", "message", "return"], lost
    # Without the loss it would be one.
    corpus = read(tmp_path, "\n".join([*lines[:3], *lines[4:]]) + "\n")
    assert "human_intervention" in corpus.events.collect()["type"].to_list()


def test_a_torn_first_line_keeps_its_format(tmp_path: Path) -> None:
    lines = session()
    for begin in ("\0" * 10, lines[0], CUT):
        corpus = read(tmp_path, begin + "\n".join(lines) + "\n")
        assert tokens(corpus) == 309, begin


def test_native_lines_and_rollouts_are_read_alike(tmp_path: Path) -> None:
    """A format whose record is a trace, and another one whose traces are spread over lines."""
    path = tmp_path / "native.jsonl"
    rows = [text_of(BASE | {"trace_id": f"t{i}"}).decode() for i in range(4)]
    path.write_text(rows[0] + "\n" + rows[1][:30] + rows[2] + rows[3] + "\n")
    corpus = ot.read_traces(path)
    assert corpus.traces.collect()["trace_id"].to_list() == ["t0", "t2", "t3"]
    assert counts(corpus) == {"quarantined": 1, "used": 3}
    # A place inside of a line leads back to the record.
    assert corpus.source(1, 0).offset == len(rows[0]) + 1 + 30 + rows[2].index('{"id": "e1"')

    thread = "01a00012-9fd4-7d20-83dc-0762b2f839b3"
    stamp = "2026-09-14T09:00:00.000Z"
    rollout = [
        {"timestamp": stamp, "type": "session_meta", "payload": {"id": thread, "timestamp": stamp}},
        {"timestamp": stamp, "type": "event_msg", "payload": {"type": "user_message", "message": "Go."}},
        {
            "timestamp": stamp,
            "type": "response_item",
            "payload": {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Done."}],
            },
        },
    ]
    path = tmp_path / f"rollout-2026-09-14T09-00-00-{thread}.jsonl"
    rows = [json.dumps(row) for row in rollout]
    path.write_text(rows[0] + "\n" + rows[1][:60] + rows[1] + rows[2] + "\n")
    corpus = ot.read_traces(path)
    assert counts(corpus)["quarantined"] == 1
    assert corpus.events.collect().height == 2


def test_nothing_depends_on_the_size_of_blocks(tmp_path: Path) -> None:
    lines = session()
    torn = [lines[0], CUT + lines[1] + lines[2], "{broken", *lines[4:]]
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_text("\n".join(torn) + "\n")
    stores = [_core.read([str(path)], format="claude_code", block_size=size) for size in (64, 300, 1 << 20)]
    for table in ("events", "quarantine"):
        first, *others = [pl.DataFrame(store.table(table)) for store in stores]
        assert all(first.equals(other) for other in others), table
    assert (
        "human_intervention" not in pl.DataFrame(stores[0].table("events"))["type"].cast(pl.String).to_list()
    )
