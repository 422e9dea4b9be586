"""The survey's bibliography, ledger of claims and spot check: by hand, malformed rows, plain Python."""

import csv
import io
import math
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from orchestrace.scaling.artifact_files import Problems
from orchestrace.scaling.bibliography import bibliography
from orchestrace.scaling.claim_ledger import AS_OF
from orchestrace.scaling.spot_check import CHECKED
from samples.examples import examples
from scaling.test_survey import log_text, pool_text

DATE = "2026-05-03"
LEDGER = r"""# A ledger

| Claim | Artifact check | Boundary |
|---|---|---|
| Credit of messages is rare | `credit_granularity=message` has one retained tag | a tag is no mechanism |
| Credit of roles is rare | `credit_granularity=role` has 3 tags \| as counted | none |
| Nobody learns to stop | no retained row exposes it | a claim of coverage |

Other tables are not the ledger's.

| a | b |
|---|---|
| 1 | 2 |

| Cell | Broad tags | Strict or near-strict subset | Boundary |
|---|---:|---:|---|
| role | 2 | 2 | both |
| message | 1 | 1 | contested |
| O5 stopping | 0 | 0 | nobody |

| Row | Tagged level | Rationale | Mechanism boundary |
|---|---|---|---|
| `p1` | message | says so | explicit |
| `p2` | agent | a slip | none |
"""
BIBLIOGRAPHY = r"""% p5 is absent, and this @misc{comment, is no entry
@comment{nothing, of interest}
@misc{p0, title = {A {nested} title}, note = {50\% off, \} and all}}
@misc{p12024, title = {With a year}}
@article(p2-2025, title = "in brackets")
@misc{p3, title = {once}}
  @misc{p3, title = {twice}}
@misc{p4, title = {4}}
@misc{stranger, title = {Nobody knows}}
"""


def coding(key: str, strict: str = "yes", note: str = "agree", **annotated: str) -> dict[str, str]:
    original = dict.fromkeys(CHECKED, "NA")
    read = original | annotated
    return {
        "key": key,
        **{f"orig_{name}": value for name, value in original.items()},
        **{f"ann_{name}": value for name, value in read.items()},
        "strict_explicit_credit": strict,
        "agreement_note": note,
    }


def checks(*rows: dict[str, str]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(coding("x")))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


SPOT_CHECK = checks(
    coding("p1", "no"),
    coding("p2", "yes", "agree_with_note"),
    coding("p3", "no", "disagree_credit", credit_granularity="turn"),
    coding("p4", "no"),
)


def artifact(folder: Path, *, flat: bool = False, **files: str | bytes) -> Path:
    """An artifact in the layout of the repository, or in one folder, with some of the files."""
    places = {
        "papers": "papers/papers.csv",
        "excluded": "papers/excluded.csv",
        "bib": "papers/papers.bib",
        "ledger": "docs/claim_ledger.md",
        "spot": f"docs/audits/independent_spotcheck_{DATE}.csv",
    }
    for name, content in {"papers": pool_text(), "excluded": log_text(), **files}.items():
        place = folder / (Path(places[name]).name if flat else places[name])
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, pl.DataFrame]:
    artifact(tmp_path, bib=BIBLIOGRAPHY, ledger=LEDGER, spot=SPOT_CHECK)
    return ot.scaling.survey(tmp_path)


# --- by hand ----------------------------------------------------------------------------------------


def test_claims_are_counted_again(tables: dict[str, pl.DataFrame]) -> None:
    claims = tables["claims"]
    assert claims.select("claim", "field", "value", "stated", "counted", "agrees").rows() == [
        ("Credit of messages is rare", "credit_granularity", "message", 1, 1, True),
        ("Credit of roles is rare", "credit_granularity", "role", 3, 2, False),
        ("Nobody learns to stop", None, None, None, None, None),
    ]
    assert claims["support"][1].endswith("has 3 tags | as counted")
    assert claims["boundary"].to_list() == ["a tag is no mechanism", "none", "a claim of coverage"]
    assert set(claims["as_of"]) == {AS_OF} == {"as of the survey (May 2026)"}


def test_rows_of_the_ledger_are_compared_with_the_pool(tables: dict[str, pl.DataFrame]) -> None:
    assert tables["ledger_rows"].rows() == [
        ("p1", "message", "says so", "explicit", "message", True),
        ("p2", "agent", "a slip", "none", "role", False),
    ]


def test_strict_counts_are_beside_broad_ones(tables: dict[str, pl.DataFrame]) -> None:
    """p0 agent, p1 message, p2 p3 role, p5 event; p4 has no level. p2 is strict, p1 and p3 are not.

    Nobody read p0 and p5.
    """
    table = tables["strict_and_broad"]
    assert table.drop("boundary", "as_of").rows() == [
        ("role", 2, 1, 1, 2, 2, 2, False),  # the ledger says two are strict, the reader one of two
        ("agent", 1, None, 1, 0, None, None, None),
        ("event", 1, None, 1, 0, None, None, None),
        ("message", 1, 0, 0, 1, 1, 1, False),
        ("O5 stopping", None, None, None, None, 0, 0, None),
    ]
    assert table["boundary"].to_list() == ["both", None, None, "contested", "nobody"]
    assert set(table["as_of"]) == {AS_OF}


def test_agreement_by_hand(tables: dict[str, pl.DataFrame]) -> None:
    table = tables["agreement"]
    assert table["field"].to_list() == [*CHECKED, "all"] and set(table["date"]) == {DATE}
    rows = {row["field"]: row for row in table.iter_rows(named=True)}
    assert [rows[name]["n_agree"] for name in (*CHECKED, "all")] == [4, 4, 4, 3, 4, 3]
    assert rows["category"]["share"] == rows["category"]["upper"] == 1.0
    # Wilson's interval of 3 in 4
    z, n, p = 1.959963984540054, 4, 0.75
    center = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)
    assert rows["all"]["lower"] == pytest.approx(center - half)
    assert rows["all"]["upper"] == pytest.approx(center + half)
    # all that was read had the tags NA, which is so of p4 alone, and of its category not even there
    assert [rows[name]["n_changed"] for name in ("category", "credit_granularity", "all")] == [4, 3, 4]


def test_codings_are_rows(tables: dict[str, pl.DataFrame]) -> None:
    table = tables["spot_check"]
    assert table.height == 4 * len(CHECKED)
    assert table.filter(pl.col("agrees").not_()).row(0) == (
        *(DATE, "p3", "credit_granularity", "NA", "turn", False, "role", False, "disagree_credit"),
    )


def test_entries_and_papers_find_each_other(tables: dict[str, pl.DataFrame]) -> None:
    assert tables["bibliography"].rows() == [
        ("p0", "p0", 1, "matched"),
        ("p1", "p12024", 1, "matched_without_year"),
        ("p2", "p2-2025", 1, "matched_without_year"),
        ("p3", "p3", 2, "duplicate"),
        ("p4", "p4", 1, "matched"),
        ("p5", None, 0, "no_entry"),
        (None, "stranger", 1, "no_paper"),
    ]
    assert tables["malformed"].is_empty()


# --- absent, elsewhere, malformed -------------------------------------------------------------------


def test_tables_appear_where_their_files_are(tmp_path: Path) -> None:
    base = set(ot.scaling.survey(artifact(tmp_path / "none")))
    own = {
        "bib": {"bibliography"},
        "ledger": {"claims", "ledger_rows", "strict_and_broad"},
        "spot": {"spot_check", "agreement", "strict_and_broad"},
    }
    contents = {"bib": BIBLIOGRAPHY, "ledger": LEDGER, "spot": SPOT_CHECK}
    for name, expected in own.items():
        found = set(ot.scaling.survey(artifact(tmp_path / name, **{name: contents[name]})))
        assert found - base == expected | {"malformed"} and base <= found
    assert not base & {"malformed", *(table for names in own.values() for table in names)}


def test_a_flat_folder_and_the_folder_of_papers_are_read_as_the_repository(
    tmp_path: Path, tables: dict[str, pl.DataFrame]
) -> None:
    flat = artifact(tmp_path / "flat", flat=True, bib=BIBLIOGRAPHY, ledger=LEDGER, spot=SPOT_CHECK)
    for path in (flat, tmp_path / "papers"):
        found = ot.scaling.survey(path)
        assert list(found) == list(tables)
        assert all(found[name].equals(frame) for name, frame in tables.items())


def test_the_last_reading_of_a_paper_counts(tmp_path: Path) -> None:
    artifact(tmp_path, spot=checks(coding("p1", "no")))
    later = tmp_path / "docs" / "audits" / "independent_spotcheck_2026-06-01.csv"
    later.write_text(checks(coding("p1", "yes")))
    found = ot.scaling.survey(tmp_path)
    assert found["strict_and_broad"].filter(cell="message")["strict"].item() == 1
    assert found["agreement"].select("date", "field", "n").rows()[5:7] == [
        *((DATE, "all", 1), ("2026-06-01", "category", 1))
    ]


def cells(*rows: str) -> str:
    """A ledger that states counts."""
    head = ["| Cell | Broad tags | Strict or near-strict subset | Boundary |", "|---|---|---|---|"]
    return "\n".join([*head, *rows, ""])


@pytest.mark.parametrize(
    ("row", "agrees"),
    [("| role | 2 | 1 | - |", None), ("| role | 1 | 1 | - |", False), ("| role | 2 | 3 | - |", False)],
)
def test_nothing_is_strict_where_nobody_read(row: str, agrees: bool | None, tmp_path: Path) -> None:
    """But a broad count is compared all the same, and a strict one cannot be above it."""
    found = ot.scaling.survey(artifact(tmp_path, ledger=cells(row)))["strict_and_broad"]
    assert found.filter(cell="role").select("broad", "strict", "at_most", "checked", "agrees").rows() == [
        (2, None, 2, 0, agrees)
    ]


def test_a_later_reading_that_says_neither_counts(tmp_path: Path) -> None:
    artifact(tmp_path, spot=checks(coding("p1", "yes")))
    later = tmp_path / "docs" / "audits" / "independent_spotcheck_2026-06-01.csv"
    later.write_text(checks(coding("p1", "maybe")))
    found = ot.scaling.survey(tmp_path)["strict_and_broad"].filter(cell="message")
    assert found.select("strict", "at_most", "checked").row(0) == (None, 1, 0)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (f"docs/independent_spotcheck_{DATE}.csv", f"a second spot check of {DATE}: only 'docs/"),
        (f"docs/audits/independent_spotcheck_b_{DATE}.csv", f"a second spot check of {DATE}: only 'audits/"),
    ],
)
def test_one_file_is_read_of_a_date(name: str, words: str, tmp_path: Path) -> None:
    artifact(tmp_path, spot=SPOT_CHECK)
    (tmp_path / name).write_text(checks(coding("p2", "no"), coding("p5", "yes", is_rl="yes", note="")))
    found = ot.scaling.survey(tmp_path)
    assert found["malformed"].height == 1 and words in found["malformed"]["problem"].item()
    assert found["agreement"].height == len(CHECKED) + 1
    assert found["spot_check"].select("date", "key", "field").is_duplicated().sum() == 0


def test_two_files_without_a_date_are_not_added_up(tmp_path: Path) -> None:
    artifact(tmp_path, spot=SPOT_CHECK)
    for name in "ab":
        (tmp_path / f"docs/independent_spotcheck_{name}.csv").write_text(checks(coding("p1")))
    found = ot.scaling.survey(tmp_path)
    assert "a second spot check without a date" in found["malformed"]["problem"].item()
    assert found["agreement"].filter(pl.col("date").is_null(), field="all")["n"].item() == 1


def test_a_field_without_two_readings_is_in_no_count(tmp_path: Path) -> None:
    """A row without any, one with one side of one field, one with neither side of it, and one in full."""
    nothing = {name: "" if name[:4] in ("orig", "ann_") else value for name, value in coding("p1").items()}
    one_side = coding("p2", note="disagree", is_rl=" ")
    neither = coding("p3", note="") | {"orig_category": "", "ann_category": ""}
    artifact(tmp_path, spot=checks(nothing, one_side, neither, coding("p4", "no")))
    found = ot.scaling.survey(tmp_path)
    assert found["malformed"].select("line", "problem").rows() == [
        (2, f"no two readings of {', '.join(CHECKED)}"),
        (3, "no two readings of is_rl"),
        (4, "no two readings of category"),
    ]
    counts = dict(found["agreement"].select("field", "n").iter_rows())
    assert counts == {**dict.fromkeys(CHECKED, 3), "category": 2, "is_rl": 2, "all": 1}
    assert found["agreement"]["share"].to_list() == [1.0] * 6
    assert found["strict_and_broad"].filter(cell="message")["checked"].item() == 0


#: What a claim states after "`credit_granularity=role` ".
STATED: dict[str, int | None] = {
    "has twenty-one tags": None,
    "has twenty one tags": None,
    "has 1,002 tags": None,
    "has 1 002 tags": None,
    "has 2.3 tags": None,
    "has -3 tags": None,
    "has at least two tags": None,
    "has about 2 tags": None,
    "has two or three tags": None,
    "has two tags or more": None,
    "has not one tag": None,
    "is not in two tags": None,
    "has 3 tags of 5 tags": None,
    "has 3 tags of 5": None,
    "has one tag; `credit_granularity=message` has two tags": None,
    "and `is_rl=yes` have one tag": None,
    "has many tags": None,
    "has zero tags": 0,
    "has no retained tags": 0,
    "has one tag": 1,
    "has eleven tags": 11,
    "has twelve retained tags, as counted": 12,
    "has 2 tags after a merger": 2,
    "has only two tags; one row is explicit": 2,
    ": 113 tags": 113,
    "of `p1` is = that of `p2`: 2 tags": 2,
}


@pytest.mark.parametrize("words", STATED)
def test_a_claim_states_a_number_that_stands_alone(words: str, tmp_path: Path) -> None:
    row = f"|A|`credit_granularity=role` {words}|-|"
    ledger = f"|Claim|Artifact check|Boundary|\n|---|---|---|\n{row}\n"
    found = ot.scaling.survey(artifact(tmp_path, ledger=ledger))
    stated = STATED[words]
    expected = (None, None, None) if stated is None else (stated, 2, stated == 2)
    assert found["claims"].select("stated", "counted", "agrees").row(0) == expected
    assert found["malformed"].is_empty()


def test_a_pair_of_two_fields_is_no_value(tmp_path: Path) -> None:
    row = "|A|`is_rl=yes, category=rl_method` has 3 tags|-|"
    ledger = f"|Claim|Artifact check|Boundary|\n|---|---|---|\n{row}\n"
    claims = ot.scaling.survey(artifact(tmp_path, ledger=ledger))["claims"]
    assert claims.select("field", "value", "stated").row(0) == (None, None, None)


def test_a_row_of_hyphens_is_a_row_and_an_example_is_none(tmp_path: Path) -> None:
    claims = "|Claim|Artifact check|Boundary|\n|---|:-:|---|\n|A|x|y|\n| - | - | - |\n"
    fenced = f"````text\n```\n{claims}````\n\n~~~\n{claims}~~~\n\n"
    found = ot.scaling.survey(artifact(tmp_path, ledger=fenced + claims))
    assert found["claims"]["claim"].to_list() == ["A", "-"] and found["malformed"].is_empty()


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("@misc{a, title = {A}} @misc{b, title = {B}}\n", ["a", "b"]),
        ("@misc{a,title={A}}@misc(b, title = {B})@string{x = {y}}@misc{c}", ["a", "b", "c"]),
        ("@misc{a, abstract = {x\n@misc{no, entry}\n  @ home}}\n@misc{b}", ["a", "b"]),
        ('@misc{a, abstract = "x\n@misc{no, entry}", year = 2024}\n@misc{b}', ["a", "b"]),
        ('@comment{say "so}@comment(me@example.org)\n@misc{b}', ["b"]),
    ],
)
def test_entries_are_where_brackets_say(text: str, keys: list[str], tmp_path: Path) -> None:
    (tmp_path / "papers.bib").write_text(text)
    problems = Problems()
    table = bibliography(tmp_path / "papers.bib", [], problems)
    assert table["entry"].to_list() == keys and not problems.rows


@pytest.mark.parametrize(
    ("text", "keys", "line"),
    [
        ("@misc{a, title = {A}}\n@misc{b, title = {B}\n@misc{c, title = {C}}", ["a", "c"], 2),
        ("@misc{a, title = {A}\n@misc{b, title = {B}}}", ["b"], 1),
        ("\n@comment{\n@misc{no, entry}\n}\n@misc{b}", ["b"], 2),
        ("@misc{a} % @misc{b, title = {B}}\n@misc{c}", ["a", "c"], 1),
        ("@misc{a}\n%% @misc{b,\n%  title = {B}}\n@misc{c}", ["a", "c"], 2),
    ],
)
def test_entries_that_are_lost_are_problems(text: str, keys: list[str], line: int, tmp_path: Path) -> None:
    (tmp_path / "papers.bib").write_text(text)
    problems = Problems()
    table = bibliography(tmp_path / "papers.bib", [], problems)
    assert table["entry"].to_list() == keys
    assert [row[1] for row in problems.rows] == [line]


MALFORMED: dict[str, tuple[str, str | bytes, int | None, str]] = {
    "a claim with two cells": ("ledger", LEDGER.replace(" | none |", " |", 1), 6, "2 cells, expected 3"),
    "a paper that nobody retained": (
        "ledger",
        LEDGER.replace("`p2`", "`p9`"),
        24,
        "'p9' is not in the paper",
    ),
    "a count that is none": ("ledger", LEDGER.replace("| 2 | 2 |", "| 2 | many |"), 17, "two whole numbers"),
    "a ledger without tables": ("ledger", "# Nothing\n", None, "no table with the columns"),
    "a ledger without rows": ("ledger", cells(), None, "its tables have no rows"),
    "a cell twice": (
        "ledger",
        cells("|role|2|1|-|", "|role|2|0|-|"),
        4,
        "'role' is listed twice: only line 3",
    ),
    "a paper of the ledger twice": (
        *("ledger", LEDGER + "| `p1` | role | again | none |\n"),
        *(25, "'p1' is listed twice: only line 23"),
    ),
    "a ledger that is no text": ("ledger", b"\xff\xfe|", None, "not UTF-8 text"),
    "an entry that is not closed": ("bib", BIBLIOGRAPHY.replace("{twice}}", "{twice}"), 7, "is not closed"),
    "an entry without a key": ("bib", BIBLIOGRAPHY.replace("{stranger,", "{title = {x},"), 9, "has no key"),
    "a short row": ("spot", SPOT_CHECK + "p5,a,b\r\n", 6, "3 fields, expected 13"),
    "a paper twice": ("spot", SPOT_CHECK + checks(coding("p1")).split("\r\n")[1], 6, "'p1' is listed twice"),
    "no key": ("spot", checks(coding("")), 2, "no key"),
    "a paper that is not there": ("spot", checks(coding("p9")), 2, "'p9' is not in the paper pool"),
    "a word for strict": ("spot", checks(coding("p1", "maybe")), 2, "'maybe', expected 'yes' or 'no'"),
    "a verdict that is not so": ("spot", checks(coding("p1", is_rl="yes")), 2, "the two readings contradict"),
    "a quotation mark": ("spot", SPOT_CHECK + '"p9"x,', 6, "not a CSV file"),
    "a column that is absent": (
        "spot",
        "key,note\np1,x\n",
        None,
        "expected one column 'strict_explicit_credit'",
    ),
    "a check that is no text": ("spot", b"key\xff", None, "not UTF-8 text"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_malformed_is_a_row(case: str, tmp_path: Path) -> None:
    name, content, line, problem = MALFORMED[case]
    whole_files: dict[str, Any] = {"bib": BIBLIOGRAPHY, "ledger": LEDGER, "spot": SPOT_CHECK}
    found = ot.scaling.survey(artifact(tmp_path, **{**whole_files, name: content}))
    (row,) = found["malformed"].rows()
    assert row[0].startswith({"bib": "papers", "ledger": "claim", "spot": "independent"}[name])
    assert row[1] == line and problem in row[2]


def test_words_of_files_cannot_act_on_a_terminal(tmp_path: Path) -> None:
    artifact(tmp_path, ledger=LEDGER.replace("`p2`", "`\x1b[2J`"))
    problem = ot.scaling.survey(tmp_path)["malformed"]["problem"].item()
    assert "\x1b" not in problem and "\\x1b[2J" in problem


# --- against plain Python ---------------------------------------------------------------------------


KEY = st.text("abc", min_size=1, max_size=2)


@examples(80)
@given(st.lists(KEY, max_size=8), st.lists(KEY, max_size=6, unique=True))
def test_entries_are_those_of_a_counter(entries: list[str], papers: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "papers.bib"
        path.write_text("".join(f"@misc{{{key},\n  title = {{{{x}} y}},\n}}\n\n" for key in entries))
        problems = Problems()
        table = bibliography(path, papers, problems)
    counted = Counter(entries)
    assert problems.table().is_empty()
    assert dict(table.drop_nulls("key").select("key", "entries").iter_rows()) == {
        p: counted[p] for p in papers
    }
    assert set(table.filter(status="no_paper")["entry"]) == set(entries) - set(papers)
    assert set(table.filter(status="no_entry")["key"]) == set(papers) - set(entries)


@examples(150)
@given(st.binary(max_size=300), st.sampled_from(["bib", "ledger", "spot"]), st.data())
def test_any_bytes_are_read(noise: bytes, name: str, data: Any) -> None:
    """Files with bytes put anywhere: tables, and never a traceback."""
    content = {"bib": BIBLIOGRAPHY, "ledger": LEDGER, "spot": SPOT_CHECK}[name].encode()
    at = data.draw(st.integers(0, len(content)))
    with tempfile.TemporaryDirectory() as folder:
        artifact(Path(folder), **{name: content[:at] + noise + content[at:]})
        found = ot.scaling.survey(folder)
    assert found["malformed"].schema == Problems().table().schema
