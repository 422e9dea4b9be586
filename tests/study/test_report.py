"""The report: what it says follows from the tables, what it is made of opens anywhere."""

import html.parser
import math
import re
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ET
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import orchestrace as ot
from orchestrace.study.cells import cells
from orchestrace.study.config import Size
from orchestrace.study.envelope_map import placed, recorded
from orchestrace.study.folder import StudyFolder
from orchestrace.study.measure import Bench
from orchestrace.study.page import Cell, Figure, Grid, Section, html_page, inlined, markdown_page
from orchestrace.study.run import _Forecast
from orchestrace.study.sections import format_seconds
from orchestrace.study.summary import gap_sentences, method_table, rungs

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

CONFIG = {
    "sizes": [
        {"events": 12, "agents": 3, "traces": 80},
        {"events": 120, "agents": 8, "traces": 80},
    ],
    "presets": {
        "additive": {"outcome": "linear", "density": 1.0, "decisive": 0.0},
        "<b>&": {"outcome": "mixed", "topology": "hierarchical"},
    },
    "methods": ["flow", "broadcast", "gae", {"name": "shapley", "units": ["agent"]}],
    "slots": [1, 2, 8],
}
ENVELOPES = pl.DataFrame(
    {
        "system": ["Small | one", "Large <two>", "Steps only", "Nothing", "All of a project"],
        "kind": ["academic", "industrial", "academic", "industrial", "industrial"],
        "scope": ["trace", "trace", "trace", "trace", "project"],
        "agents_max": [2, 200, None, None, 9999],
        "steps_max": [10.0, 1000.0, 12.0, None, 99999.0],
        "source": ["a", "b", None, "d", "e"],
        "note": ["", "", "", "", ""],
    }
)


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    ot.study.run(CONFIG, folder, workers=0)
    corpus = ot.generate(traces=30, seed=0)
    trend = ot.study.downscale(corpus, ["flow", "gae"], shares=[0.5], min_events=8)
    written = ot.study.report(folder, envelopes=ENVELOPES, corpora={"mine": corpus}, downscaled=trend)
    return folder, written


class _Page(html.parser.HTMLParser):
    """What a browser would fetch, and whether every element is closed."""

    VOID = frozenset({"meta", "br", "link", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset", "data", "action", "poster"):
                self.fetched.append((tag, name, value or ""))
            if name == "id":
                self.ids[value] += 1
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def _page(text: str) -> _Page:
    page = _Page()
    page.feed(text)
    page.close()
    return page


def test_the_page_fetches_nothing_and_is_whole(reported):
    folder, _ = reported
    text = (folder / "report.html").read_text(encoding="utf-8")
    page = _page(text)
    assert page.open == [] and page.tags["svg"] == page.tags["figure"] >= 8 and page.tags["table"] >= 4
    assert page.tags["script"] == page.tags["link"] == page.tags["img"] == page.tags["iframe"] == 0
    # Links lead to places of this page alone, and these are there.
    assert page.fetched and all(value.startswith("#") for _, _, value in page.fetched)
    assert all(value[1:] in page.ids for _, _, value in page.fetched)
    assert max(page.ids.values()) == 1
    assert all(found.startswith("#") for found in re.findall(r"url\(([^)]*)\)", text))
    assert all(found in page.ids for found in re.findall(r"url\(#([^)]*)\)", text))
    assert "@import" not in text
    # Addresses are names of XML's vocabularies, nothing else.
    assert set(re.findall(r"https?://[^\s\"'<)]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def _browsed(page: Path, profile: Path, *options: str) -> bytes:
    """What a browser without a network makes of a page."""
    assert BROWSER
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={profile}",
        *options,
        page.as_uri(),
    ]
    return subprocess.run(command, check=True, capture_output=True, timeout=120).stdout


@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_a_browser_shows_the_page(reported, tmp_path):
    folder, _ = reported
    shot = tmp_path / "shot.png"
    _browsed(folder / "report.html", tmp_path / "a", "--window-size=1200,4000", f"--screenshot={shot}")
    size, inked = _rows_with_ink(shot.read_bytes())
    assert size == (1200, 4000)
    # Text and figures down to the end of the window: neither blank nor cut after the first figure.
    assert inked.mean() > 0.4 and inked[:1000].mean() > 0.4 and inked[3000:].mean() > 0.2


@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
@pytest.mark.parametrize("width", [600, 1200])
def test_nothing_of_the_page_is_beside_the_window(reported, tmp_path, width):
    folder, _ = reported
    tell = "<script>document.title = [innerWidth, document.documentElement.scrollWidth].join()</script>"
    page = tmp_path / "told.html"
    page.write_text((folder / "report.html").read_text("utf-8").replace("</body>", tell + "</body>"), "utf-8")
    seen = _browsed(page, tmp_path / "b", f"--window-size={width},900", "--dump-dom").decode()
    assert f"<title>{width},{width}</title>" in seen, re.findall("<title>.*?</title>", seen)


def _rows_with_ink(png: bytes) -> tuple[tuple[int, int], np.ndarray]:
    """Size of a picture, and which of its rows have more than one color."""
    at, packed = 8, b""
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            packed += png[at + 8 : at + 8 + length]
        at += length + 12
    width, height, _, color = struct.unpack(">IIBB", png[16:26])
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, -1)[:, 1:]
    channels = {2: 3, 6: 4}[color]
    # A row of one color is, by whatever filter, the same in every pixel but the first.
    pixels = rows.reshape(height, width, channels)[:, 1:]
    return (width, height), (pixels != pixels[:, :1]).any(axis=(1, 2))


def test_names_of_people_are_text_and_no_markup(reported):
    folder, _ = reported
    text = (folder / "report.html").read_text(encoding="utf-8")
    page = _page(text)
    assert page.tags["b"] == page.tags["two"] == 0
    assert "&lt;b&gt;&amp;" in text and "Large &lt;two&gt;" in text
    assert r"Small \| one" in (folder / "report.md").read_text(encoding="utf-8")


def test_every_figure_is_a_file_for_papers_with_a_caption_that_says_what_it_is(reported):
    folder, written = reported
    names = {path.stem for path in written if path.suffix == ".svg"}
    assert {"envelope-map", "rank-event", "sign-agent", "rollouts-event", "cost-agent", "schedules"} <= names
    assert "downscaled" in names
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    for name in names:
        svg = (folder / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        assert ET.fromstring(svg).tag.endswith("svg") and "NaN" not in svg
        png = (folder / "figures" / f"{name}.png").read_bytes()
        width, height = struct.unpack(">II", png[16:24])
        assert png.startswith(b"\x89PNG") and width >= 800 and height >= 300
        assert f"![{name}](figures/{name}.svg)" in markdown
    captions = re.findall(r"^\*(Figure \d+\. .*)\*$", markdown, re.M)
    assert len(captions) == len(names)
    for caption in captions:
        assert re.search(r"[Ss]ynthetic|[Rr]ecorded", caption) and "interval" in caption.lower()
        assert re.search(r"\d", caption.split(".", 1)[1])


def test_pictures_have_ink_where_the_numbers_are(reported):
    """A chart whose rows did not reach it has axes, and no marks."""
    folder, _ = reported
    table = ot.study.load(folder)
    expected = table.filter(unit="event", method="gae").drop_nulls("rho").height
    svg = (folder / "figures" / "rank-event.svg").read_text(encoding="utf-8")
    points = re.findall(r'aria-roledescription="point"', svg)
    assert len(points) >= expected == 4
    labels = set(re.findall(r">([^<>]+)</text>", svg))
    assert {"additive", "steps in a run", "rank correlation", "gae"} <= labels


def test_the_gap_is_that_of_the_envelopes_and_the_ladder(reported):
    folder, _ = reported
    text = (folder / "report.md").read_text(encoding="utf-8")
    gap = text.split("## The gap in numbers")[1].split("##")[0]
    assert "2 against 200 agents (2.0 decades) and 12 against 1,000 steps (1.9 decades)" in gap
    assert "from 12 steps and 3 agents to 120 and 8" in gap
    table = ot.study.load(folder)
    ends = [
        table.filter(unit="event", method="broadcast", events=n).filter(pl.col("pooled_lower") > 0)[
            "rollouts"
        ]
        for n in (12, 120)
    ]
    assert all(one.len() for one in ends)
    few, many = (one.median() for one in ends)
    assert f"in about {few:,.0f} rollouts at the small end and {many:,.0f} at the large one" in gap  # type: ignore[str-bytes-safe]
    curves = ot.study.load(folder, "schedules").filter(events=120)
    best = curves.group_by("k").agg(pl.col("speedup").mean())["speedup"].max()
    assert f"to {best:.1f} (nine tenths" in gap  # type: ignore[str-bytes-safe]


def test_the_method_table_says_what_the_cells_say(reported):
    folder, _ = reported
    table = ot.study.load(folder)
    sizes = ot.study.parse_config(CONFIG).sizes
    rows = {(method, unit): verdicts for method, unit, verdicts in method_table(table, sizes)}
    assert set(rows) == set(table.select("method", "unit").unique().iter_rows())
    gae = table.filter(method="gae", unit="event", events=120)
    assert rows["gae", "event"][1].rho == pytest.approx(gae["rho"].median())
    assert rows["gae", "event"][1].seconds == pytest.approx((gae["seconds"] / 80).median())
    assert rows["gae", "event"][1].finds == gae.filter(pl.col("rho_lower") > 0).height
    flat = rows["broadcast", "event"][0]
    assert flat.pooled and flat.rho == pytest.approx(
        table.filter(method="broadcast", unit="event", events=12)["pooled"].median()
    )


def _rows(**changed):
    row = {
        "kind": "credit",
        "preset": "one",
        "events": 100,
        "agents": 5,
        "replicate": 0,
        "method": "flow",
        "unit": "event",
        "status": "ok",
        "reason": None,
        "n_traces": 10,
        "rho": 0.5,
        "rho_lower": 0.4,
        "rho_upper": 0.6,
        "rho_n_tasks": 9,
        "pooled": 0.2,
        "pooled_lower": 0.1,
        "pooled_upper": 0.3,
        "pooled_n_tasks": 9,
        "rollouts": 197.0,
        "seconds": 2.0,
        "cost_s_extrapolated": None,
        "lower_bound": None,
        "peak_bytes": 10,
    }
    return row | changed


_TYPES = {"reason": pl.String, "cost_s_extrapolated": pl.Float64, "seconds": pl.Float64, "rho": pl.Float64}
_TYPES |= {"lower_bound": pl.Boolean}
_TYPES |= {"rho_lower": pl.Float64, "rho_upper": pl.Float64, "pooled": pl.Float64, "rho_n_tasks": pl.UInt32}
_TYPES |= {"pooled_lower": pl.Float64, "pooled_upper": pl.Float64, "pooled_n_tasks": pl.UInt32}


def _verdict(*rows):
    frame = pl.DataFrame(rows, schema_overrides=_TYPES)
    return method_table(frame, (Size(100, 5, 10),))[0][2][0]


def test_verdicts_by_hand():
    assert _verdict(_rows()) == ("finds", 0.5, False, 0.2, True, 1, 1, False, 0.4, 0.6, 9)
    # In one world of two is not in most.
    two = _verdict(_rows(), _rows(preset="two", rho=0.1, rho_lower=-0.1))
    assert two[:3] == ("nothing", pytest.approx(0.3), False) and two.finds == 1 and two.presets == 2
    flat = _verdict(_rows(rho=None, rho_lower=None, rho_upper=None, rho_n_tasks=0))
    assert flat == ("finds", 0.2, True, 0.2, True, 1, 1, False, 0.1, 0.3, 9)
    none = {"rho": None, "pooled": None, "rho_n_tasks": None, "n_traces": None, "seconds": None}
    slow = _verdict(_rows(status="too_slow", cost_s_extrapolated=70.0, **none))
    assert slow[:8] == ("slow", None, False, 7.0, False, 0, 1, False)
    refused = _verdict(_rows(status="refused", cost_s_extrapolated=None, **none))
    assert refused[:8] == ("none", None, False, None, False, 0, 1, False)


def test_values_of_few_tasks_are_shown_and_count_for_nothing():
    # The interval is above 0, and yet nothing is found: an interval over four tasks says too little.
    few = _verdict(_rows(rho_n_tasks=4))
    assert few == ("few", 0.5, False, 0.2, True, 0, 1, False, 0.4, 0.6, 4)
    pooled = {"rho": None, "rho_lower": None, "rho_upper": None, "rho_n_tasks": 0}
    flat = _verdict(_rows(pooled_n_tasks=2, **pooled))
    assert flat == ("few", 0.2, True, 0.2, True, 0, 1, False, 0.1, 0.3, 2)
    # Of how many tasks nobody says is of few; a rank that is there is no reason for the pooled one.
    assert _verdict(_rows(pooled_n_tasks=None, **pooled)).kind == "few"
    assert _verdict(_rows(rho_n_tasks=1, rho_lower=None, rho_upper=None)).lower is None
    # Where some worlds have enough, they alone are told.
    both = _verdict(_rows(rho_n_tasks=4, rho=0.9), _rows(preset="two", rho=0.1, rho_lower=0.05))
    assert both[:3] == ("nothing", 0.1, False) and (both.finds, both.presets) == (1, 2)


def test_a_size_with_few_tasks_puts_no_method_first():
    rows = [
        _rows(
            method=method,
            events=events,
            agents=events // 20,
            rho=rho,
            rho_lower=rho - 0.05,
            rho_n_tasks=tasks,
        )
        for method, events, rho, tasks in (
            ("low", 100, 0.2, 9),
            ("low", 1000, 0.9, 2),
            ("high", 100, 0.4, 9),
            ("high", 1000, 0.1, 2),
        )
    ]
    sizes = (Size(100, 5, 72), Size(1000, 50, 16))
    table = method_table(pl.DataFrame(rows, schema_overrides=_TYPES), sizes)
    assert [method for method, *_ in table] == ["high", "low"]
    assert [[one.kind for one in verdicts] for *_, verdicts in table] == [["finds", "few"]] * 2


def test_what_was_stopped_is_told_as_a_lower_bound():
    none = {"rho": None, "pooled": None, "rho_n_tasks": None, "n_traces": None, "seconds": None}
    slow = _rows(status="too_slow", cost_s_extrapolated=70.0, lower_bound=True, **none)
    assert _verdict(slow)[:8] == ("slow", None, False, 7.0, False, 0, 1, True)
    # One world of three is enough for the median to be one; what is measured somewhere is measured.
    known = [slow | {"preset": name, "lower_bound": False} for name in ("two", "three")]
    assert _verdict(slow, *known).at_least and not _verdict(*known).at_least
    assert not _verdict(slow, _rows(preset="two")).at_least


def test_the_report_of_a_method_that_was_stopped_has_no_blank(tmp_path):
    config = ot.study.parse_config(
        {
            "sizes": [{"events": n, "agents": 3, "traces": 16} for n in (10, 40, 160)],
            "presets": {"additive": {"outcome": "linear"}},
            "methods": ["flow", "uniform"],
            "units": ["agent"],
        }
    )
    place, bench, known = StudyFolder.begun(tmp_path, config), Bench(config), _Forecast()
    for cell in cells(config):
        found = bench.measure(cell)
        if cell.run.name == "flow":
            found = known.foreseen(cell, config)
            if cell.size.events == 10:
                assert found is None
                found = {
                    "status": "too_slow",
                    "reason": "budget",
                    "numbers": {},
                    "cost": {"stopped_s": 120.0},
                }
                known.learn(cell, found)
                known.complete(cell, found)
        place.write(cell, found)
    ot.study.report(tmp_path, envelopes=ENVELOPES)
    row = next(
        line
        for line in (tmp_path / "report.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| `flow`")
    )
    # 120 s for 16 runs of 10 steps.
    assert [part.strip() for part in row.split("|")][3:6] == [
        "at least ~7.5 s",
        "at least ~30 s",
        "at least ~120 s",
    ]


def test_replicates_of_a_cell_count_once():
    both = _verdict(_rows(rho=0.4), _rows(replicate=1, rho=0.6))
    assert both.rho == pytest.approx(0.5) and both.presets == 1


def test_rungs_are_the_nearest_on_a_logarithmic_scale():
    sizes = (Size(10, 2), Size(90, 4), Size(4000, 300), Size(100_000, 300))
    assert [size.events for size in rungs(sizes, ENVELOPES)] == [10, 4000]
    assert rungs(sizes, ENVELOPES.head(0)) == (sizes[0], sizes[-1])
    # Nothing is concluded from sizes with too few tasks.
    few = (*sizes[:2], Size(4000, 300, 16), Size(100_000, 300, 12, 2))
    assert [size.tasks for size in few] == [8, 8, 2, 6]
    assert [size.events for size in rungs(few, ENVELOPES)] == [10, 90]
    assert rungs((Size(10, 2, 16),), ENVELOPES) is None
    assert (
        gap_sentences(
            pl.DataFrame([_rows()], schema_overrides=_TYPES),
            pl.DataFrame(),
            (Size(100, 5, 40),),
            ENVELOPES.head(0),
        )
        == []
    )


def test_what_is_blank_stays_blank_on_the_map():
    known = placed(ENVELOPES.filter(scope="trace"))
    assert known["system"].to_list() == ["Large <two>", "Small | one", "Steps only"]
    assert known["number"].to_list() == [1, 2, 3] and known["agents"].to_list() == [200.0, 2.0, None]
    corpora = recorded({"a": ot.generate(traces=40, seed=1), "none": ot.generate(traces=3).filter(False)})
    sizes = ot.generate(traces=40, seed=1).traces.collect()["n_events"]
    assert corpora["letter"].to_list() == ["A"] and corpora["n"][0] == 40
    assert corpora["steps_mid"][0] == sizes.quantile(0.5, "nearest")


def test_envelopes_of_the_package_are_the_default(tmp_path):
    config = {
        **CONFIG,
        "sizes": CONFIG["sizes"][:1],
        "presets": {"one": {}},
        "methods": ["flow"],
        "slots": [],
    }
    ot.study.run(config, tmp_path, workers=0)
    ot.study.report(tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "Kimi K2.6" in text and "300" in text and "## Schedules" not in text


def test_mistakes_have_one_clear_line(tmp_path):
    with pytest.raises(ot.InputError, match="has no study"):
        ot.study.report(tmp_path)
    config = ot.study.parse_config(CONFIG)
    from orchestrace.study.folder import StudyFolder

    StudyFolder.begun(tmp_path, config)
    with pytest.raises(ot.ParameterError, match="nothing is measured in"):
        ot.study.report(tmp_path, envelopes=ENVELOPES)
    ot.study.run(CONFIG | {"methods": ["flow"], "slots": []}, tmp_path / "b", workers=0)
    with pytest.raises(ot.ParameterError, match="envelopes lack the column 'steps_max'"):
        ot.study.report(tmp_path / "b", envelopes=ENVELOPES.drop("steps_max"))


def test_pages_of_parts():
    figure = Figure("f", '<svg xmlns="x"><g id="a"/><use clip-path="url(#a)"/></svg>', "What `it` is")
    grid = Grid(["`a|b`", "c"], [[Cell("1 < 2", "finds"), Cell("")]], "under")
    sections = [Section("One & two", ["Text with `code` <i>", figure, grid])]
    page = html_page("T <x>", "meta", sections)
    assert "<h2>One &amp; two</h2>" in page and "<code>code</code> &lt;i&gt;" in page
    assert '<g id="f-a"/><use clip-path="url(#f-a)"/>' in page
    assert '<td class="finds">1 &lt; 2</td><td></td>' in page
    text = markdown_page("T", "meta", sections)
    assert "## One & two" in text and r"| `a\|b` | c |" in text and "*under*" in text
    assert inlined('<?xml version="1.0"?>\n<svg/>', "n") == "<svg/>"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.0, "0 µs"),
        (4.2e-6, "4.2 µs"),
        (0.0123, "12 ms"),
        (0.5, "500 ms"),
        (7.25, "7.2 s"),
        (1234.0, "1,234 s"),
        (3e86, "3e+86 s"),
        (math.ldexp(1, 20), "1e+06 s"),
    ],
)
def test_durations_in_few_characters(value, told):
    assert format_seconds(value) == told
