"""The survey artifact: statistics of a pool written here, broken artifacts, and cells of the taxonomy."""

import csv
import io
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot
from orchestrace.base import taxonomy
from orchestrace.base.schema import SCHEMAS
from orchestrace.scaling.coverage import _SPECIMEN, coverage
from orchestrace.scaling.paper_pool import COUNTED, COUNTED_EXCLUDED, cross_tab, read_artifact

POOL = [
    # category, is_rl, reward_type, credit_granularity, orchestration_form, scenario, is_core, verified
    ["rl_method", "yes", "shared", "agent", "centralized", "general", "core", "yes"],
    ["rl_method", "yes", "shared", "message", "centralized", "math", "core", "partial"],
    ["rl_method", "partial", "verifier", "role", "debate", "math", "supporting", "yes"],
    ["rl_method", "yes", "debate", "role", "debate", "web", "core", "yes"],
    ["benchmark", "no", "NA", "NA", "NA", "coding", "case", "yes"],
    ["industry", "no", "new kind", "event", "swarm", "general", "case", "yes"],
]
LOG = [["abstract_screen", "arXiv", "safety"], ["full_text_screen", "arXiv", "benchmark"]]


def text(header: list[str], rows: list[list[str]]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows([header, *rows])
    return out.getvalue()


def pool_text(rows: list[list[str]] = POOL) -> str:
    named = [[f"p{n}", "A title, with a comma", *row] for n, row in enumerate(rows)]
    return text(["key", "title", *COUNTED], named)


def log_text(rows: list[list[str]] = LOG) -> str:
    return text(["record_id", *COUNTED_EXCLUDED], [[f"E{n}", *row] for n, row in enumerate(rows)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "papers.csv").write_text(pool_text())
    (tmp_path / "excluded.csv").write_text(log_text())
    return tmp_path


# --- statistics -------------------------------------------------------------------------------------


def test_statistics_by_hand(folder: Path) -> None:
    tables = ot.scaling.survey(folder)
    assert tables["headline"].rows() == [("retained", 6), ("excluded", 2), ("audited", 8)]
    counts = tables["counts"]
    assert counts.filter(field="category").select("value", "records").rows() == [
        ("rl_method", 4),
        ("benchmark", 1),
        ("industry", 1),
    ]
    # values of one count are in order of bytes: "NA" is before small letters
    assert counts.filter(field="reward_type")["value"].to_list() == [
        *("shared", "NA", "debate", "new kind", "verifier"),
    ]
    assert counts.filter(log="excluded").select("field", "value", "records").rows() == [
        ("stage", "abstract_screen", 1),
        ("stage", "full_text_screen", 1),
        ("source", "arXiv", 2),
        ("query_family", "benchmark", 1),
        ("query_family", "safety", 1),
    ]
    assert set(counts.filter(log="retained")["field"]) == set(COUNTED)
    table = tables["reward_type_by_credit_granularity"]
    assert table.columns == ["reward_type", "NA", "agent", "event", "message", "role"]
    assert table.rows() == [
        ("NA", 1, 0, 0, 0, 0),
        ("debate", 0, 0, 0, 0, 1),
        ("new kind", 0, 0, 1, 0, 0),
        ("shared", 0, 1, 0, 1, 0),
        ("verifier", 0, 0, 0, 0, 1),
    ]
    assert table.schema["role"] == pl.UInt32
    assert tables["category_by_verified"].rows() == [
        ("benchmark", 0, 1),
        ("industry", 0, 1),
        ("rl_method", 1, 3),
    ]


def test_a_checkout_is_read_as_the_folder_is(folder: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "papers").mkdir(parents=True)
    for name in ("papers.csv", "excluded.csv"):
        (checkout / "papers" / name).write_bytes((folder / name).read_bytes())
    for name, frame in ot.scaling.survey(folder).items():
        assert frame.equals(ot.scaling.survey(str(checkout))[name])


def test_the_spelling_of_the_file_does_not_matter(folder: Path) -> None:
    expected = ot.scaling.survey(folder)["counts"]
    (folder / "papers.csv").write_bytes(b"\xef\xbb\xbf" + pool_text().replace("\r\n", "\n").encode())
    (folder / "excluded.csv").write_text(log_text() + "\r\n\r\n")
    assert ot.scaling.survey(folder)["counts"].equals(expected)


def test_text_stays_as_written(tmp_path: Path) -> None:
    """An identifier that looks like a number keeps its last zero."""
    header = ["key", "arxiv_id", *COUNTED]
    (tmp_path / "papers.csv").write_text(text(header, [["p", "2508.03680", *POOL[0]]]))
    (tmp_path / "excluded.csv").write_text(log_text())
    assert read_artifact(tmp_path).papers["arxiv_id"].to_list() == ["2508.03680"]


def test_an_empty_pool_has_no_counts(folder: Path) -> None:
    (folder / "papers.csv").write_text(pool_text([]))
    tables = ot.scaling.survey(folder)
    assert tables["headline"]["records"].to_list() == [0, 2, 2]
    assert tables["counts"].filter(log="retained").is_empty()
    assert tables["category_by_verified"].shape == (0, 1)
    assert tables["cells"]["papers"].sum() == 0


def test_cross_tab_judges_its_fields() -> None:
    frame = pl.DataFrame({"scenario": ["a"], "stage": ["b"]})
    with pytest.raises(ot.ParameterError, match="unknown field 'scenrio'; did you mean 'scenario'"):
        cross_tab(frame, "scenrio", "stage")
    with pytest.raises(ot.ParameterError, match="'stage' is given twice"):
        cross_tab(frame, "stage", "stage")
    # two columns of one name
    with pytest.raises(ot.InputError, match="field 'stage' has the value 'scenario'"):
        cross_tab(pl.DataFrame({"scenario": ["a"], "stage": ["scenario"]}), "scenario", "stage")


# --- broken artifacts -------------------------------------------------------------------------------


def without(name: str) -> str:
    header, *rows = csv.reader(io.StringIO(pool_text()))
    at = header.index(name)
    return text(header[:at] + header[at + 1 :], [row[:at] + row[at + 1 :] for row in rows])


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("papers.csv", without("reward_type"), "papers.csv has no column 'reward_type' (found: key, title"),
        ("papers.csv", without("key"), "papers.csv has no column 'key'"),
        ("papers.csv", log_text(), "papers.csv has no column 'key' (found: record_id, stage"),
        ("excluded.csv", pool_text(), "excluded.csv has no column 'record_id'"),
        ("papers.csv", "", "papers.csv has no column 'key' (found: nothing)"),
        ("papers.csv", pool_text().replace(",scenario,", ",stage,stage,", 1), "no column 'scenario'"),
        ("papers.csv", pool_text().replace("key,title", "key,key", 1), "more than one column 'key'"),
        ("papers.csv", pool_text() + "p9,short,row\r\n", "line 8: 3 fields, expected 10"),
        ("papers.csv", pool_text() + pool_text(), "line 8: the header again"),
        ("papers.csv", pool_text([[*POOL[0][:2], " ", *POOL[0][3:]]]), "line 2: no reward_type"),
        ("papers.csv", pool_text().replace("p5", "p1"), "line 7: key 'p1' is also that of line 3"),
        ("papers.csv", pool_text().encode() + b"\xff\xfe", "papers.csv is not UTF-8 text"),
        ("papers.csv", pool_text() + '"p9"x,', "papers.csv is not a CSV file: "),
        ("papers.csv", pool_text().encode() + b"p9,\0,", "papers.csv"),
        ("excluded.csv", None, "excluded.csv: No such file"),
        ("papers.csv", None, "has no papers.csv, nor has a folder 'papers' in it"),
    ],
)
def test_a_broken_artifact_is_told_in_one_line(
    folder: Path, file: str, content: str | bytes | None, message: str
) -> None:
    path = folder / file
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ot.InputError) as error:
        ot.scaling.survey(folder)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_what_is_no_folder_is_told(folder: Path) -> None:
    with pytest.raises(
        ot.InputError, match=r"is a file, expected the folder with papers\.csv and excluded\.csv"
    ):
        ot.scaling.survey(folder / "papers.csv")
    with pytest.raises(ot.InputError, match="no such folder: 'nowhere'"):
        ot.scaling.survey("nowhere")
    with pytest.raises(ot.ParameterError, match="path is 3, expected text or a path"):
        ot.scaling.survey(3)  # type: ignore[arg-type]


def test_names_in_messages_cannot_act_on_a_terminal(folder: Path) -> None:
    (folder / "papers.csv").write_text("key\x1b[2J,title\r\n")
    with pytest.raises(ot.InputError) as error:
        ot.scaling.survey(folder)
    assert "\x1b" not in str(error.value) and "\\x1b[2J" in str(error.value)


# --- the taxonomy -----------------------------------------------------------------------------------


def test_papers_go_to_families_and_units(folder: Path) -> None:
    tables = ot.scaling.survey(folder)
    families = dict(tables["reward_families"].select("family", "papers").iter_rows())
    assert families == {
        **{"R1": 2, "R2": 0, "R3": 0, "R4": 0, "R5": 0, "R6": 2, "R7": 0, "R8": 0},
        None: 2,
    }
    units = {
        unit: count for unit, count in tables["credit_units"].select("unit", "papers").iter_rows() if count
    }
    # `event` is a unit of the engine, and none of the survey
    assert units == {"agent": 1, "message": 1, "role": 2, None: 2}
    cells = tables["cells"]
    assert cells.height == 8 * 8 * 5
    assert cells.unique(["family", "unit", "decision"]).height == cells.height
    found = (
        cells.filter(pl.col("papers") > 0).select("family", "unit", "papers").unique().sort("family", "unit")
    )
    assert found.rows() == [("R1", "agent", 1), ("R1", "message", 1), ("R6", "role", 2)]


def test_methods_of_a_unit_are_those_of_the_registry() -> None:
    units = coverage(no_papers())["credit_units"].drop_nulls("unit")
    known = ot.list_methods()
    for unit, shares, advantages, names in units.select(
        "unit", "shares", "advantages", "methods"
    ).iter_rows():
        here = [row for row in known.iter_rows(named=True) if unit in row["units"]]
        assert names == [row["name"] for row in here]
        assert shares == sum(row["quantity"] == "share" for row in here)
        assert shares + advantages == len(names) > 0


def test_the_specimen_has_every_type_of_event() -> None:
    kinds = SCHEMAS["events"]["type"]
    assert isinstance(kinds, pl.Enum)
    assert sorted(kind for kind, *_ in _SPECIMEN) == sorted(kinds.categories)
    recorded = {kind for one in taxonomy.SUB_DECISIONS for kind in one.event_types}
    assert recorded <= set(kinds.categories)


@pytest.mark.parametrize("unit", taxonomy.CREDIT_UNITS)
def test_units_of_the_specimen_are_those_of_the_core(unit: str) -> None:
    """Equal shares of ten events: the core pays a tenth for each event that a unit holds."""
    from orchestrace.scaling.coverage import _specimen

    kinds, agents, to, tools = zip(*_SPECIMEN, strict=True)
    size = len(kinds)
    roles = ["lead" if a == "lead" else "executor" if a == "worker" else None for a in agents]
    events = pl.DataFrame(
        {
            **{
                "trace": [0] * size,
                "id": [f"e{n}" for n in range(size)],
                "t": [float(n) for n in range(size)],
            },
            **{"type": kinds, "agent": agents, "to": to, "tool": tools, "role": roles},
            "tokens_out": [1] * size,
        }
    )
    corpus = ot.Corpus.from_arrow(
        traces=pl.DataFrame({"trace": [0], "trace_id": ["one"]}),
        events=events,
        measures=pl.DataFrame({"trace": [0], "kind": ["reward"], "name": ["team"], "value": [10.0]}),
    )
    paid = ot.credit(corpus, method="uniform", unit=unit)  # type: ignore[arg-type]
    sizes: dict[str | None, float] = {}
    for name in _specimen().units(unit):
        sizes[name] = sizes.get(name, 0.0) + 1.0
    found = dict(paid.select(pl.col("unit_id").cast(pl.String), "credit").iter_rows())
    assert {name: credit for name, credit in found.items() if credit} == pytest.approx(sizes)


def test_cells_by_hand() -> None:
    """What a unit holds, by the definition of units (docs/reference/definitions.md, D4)."""
    cells = coverage(no_papers())["cells"].filter(family="R1")
    held = {(row["unit"], row["decision"]): row["in_unit"] for row in cells.iter_rows(named=True)}
    for unit in ("team", "role", "agent", "turn"):
        assert [held[unit, one] for one in ("O1", "O2", "O3", "O4")] == ["among_others"] * 4
    assert [held["orchestrator", one] for one in ("O1", "O2", "O3", "O4")] == [
        *("among_others", "among_others", None, "among_others")
    ]
    assert [held["message", one] for one in ("O1", "O2", "O3", "O4")] == [None, "alone", "alone", None]
    assert [held["tool", one] for one in ("O1", "O2", "O3", "O4")] == [None] * 4
    assert [held["token", one] for one in ("O1", "O2", "O3", "O4")] == ["alone"] * 4
    stop = cells.filter(decision="O5")
    assert set(stop["status"]) == {"not_yet"} and set(stop["missing"]) == {"event_type"}
    assert set(cells.filter(unit="tool", decision="O1")["missing"]) == {"unit"}


def test_the_table_counts_the_cells() -> None:
    tables = coverage(no_papers())
    for row in tables["coverage"].iter_rows(named=True):
        for decision in ("O1", "O2", "O3", "O4", "O5"):
            cells = tables["cells"].filter(unit=row["unit"], decision=decision)
            assert row[decision] == sum(status != "not_yet" for status in cells["status"])
    assert set(tables["cells"]["status"]) == {"computed", "channel", "not_yet"}


def test_rules_of_a_family_are_those_of_the_registry() -> None:
    families = coverage(no_papers())["reward_families"].drop_nulls("family")
    known = ot.rewards.list_rules().to_dicts()
    for row in families.iter_rows(named=True):
        own = [rule for rule in known if rule["family"] == row["family"]]
        assert row["rules"] == [rule["reward"] for rule in own] != []
        assert row["status"] == ("channel" if all(rule["channels"] for rule in own) else "computed")
    # the outcome of a team is never in its events, and a hybrid has a share of it
    assert families.filter(status="channel")["family"].to_list() == ["R1", "R8"]


@pytest.fixture
def declared() -> Iterator[dict[str, list[str]]]:
    taxonomy.verbs_for("O1")
    before = {name: list(verbs) for name, verbs in taxonomy._DECLARED.items()}
    yield taxonomy._DECLARED
    taxonomy._DECLARED.clear()
    taxonomy._DECLARED.update(before)


def test_a_verb_that_declares_itself_is_picked_up(declared: dict[str, list[str]]) -> None:
    @taxonomy.concerns("O3", "O4")
    def merged() -> None: ...

    taxonomy.concerns("O4")(merged)  # said twice, listed once
    tables = coverage(no_papers())
    verbs = dict(tables["sub_decisions"].select("decision", "verbs").iter_rows())
    assert verbs["O4"] == ["effects.aggregation", "merged"] and verbs["O3"] == ["effects.message", "merged"]
    assert tables["cells"].filter(decision="O4")["verbs"].to_list() == [verbs["O4"]] * 64


def test_every_declared_verb_is_public() -> None:
    names = {name for one in taxonomy.SUB_DECISIONS for name in taxonomy.verbs_for(one.id)}
    assert len(names) >= 6 and all(callable(attrgetter(name)(ot)) for name in names)


def test_a_declaration_outside_of_the_taxonomy_is_refused() -> None:
    with pytest.raises(ot.ParameterError, match="unknown sub-decision 'R7'"):
        taxonomy.concerns("R7")


def no_papers() -> pl.DataFrame:
    return pl.DataFrame(schema={"reward_type": pl.String, "credit_granularity": pl.String})
