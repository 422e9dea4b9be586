"""Every picture: legible, whole, and about what it was given."""

import inspect
import io
import json
import re
from collections import defaultdict
from itertools import chain
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import altair as alt
import polars as pl
import pytest
from hypothesis import example, given, strategies as st

import orchestrace as ot
from namespaces import names
from orchestrace.plot.palette import KIND_COLORS, SERIES, ink
from plot.drawn import DRAWN, corpus_of, pictures_of, pictures_with_names
from plot.picture_checks import faults_of, picture_of, svg_of
from plot.renderers import Fonts
from samples.examples import examples
from samples.hand_runs import event, read, run
from samples.random_runs import corpora, jsonl

SAMPLES = Path(__file__).parents[2] / "data" / "samples"


@pytest.fixture(scope="module")
def corpus() -> ot.Corpus:
    return ot.generate(traces=24, seed=0)


@pytest.fixture(scope="module")
def large() -> ot.Corpus:
    return ot.synthetic.planted(traces=1, length=10_000, agents=60, seed=0)[0]


@pytest.mark.parametrize("name", DRAWN)
def test_no_text_is_cut_or_covered_and_no_pane_is_empty(corpus: ot.Corpus, name: str) -> None:
    chart = DRAWN[name](corpus, "auto")
    assert faults_of(chart) == []
    assert isinstance(chart, alt.LayerChart | alt.VConcatChart)


@pytest.mark.every_nth(3)
@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_has_text_for_those_who_do_not_see_it(corpus: ot.Corpus, name: str) -> None:
    told = DRAWN[name](corpus, "auto").to_dict()["description"]
    assert 30 < len(told) < 700 and told.isprintable()
    assert re.search(r"\d", told), "no number of the data"


@pytest.mark.every_nth(3)
@pytest.mark.parametrize("name", DRAWN)
def test_rows_are_inside_and_the_width_may_be_that_of_a_page(corpus: ot.Corpus, name: str) -> None:
    spec = DRAWN[name](corpus, "auto").properties(width="container").to_dict()
    assert spec["width"] == "container" and "url" not in json.dumps(spec.get("data", {}))
    named = set(re.findall(r'"data": {"name": "(\w+)"}', json.dumps(spec)))
    assert named == set(spec["datasets"])


@pytest.mark.parametrize(("theme", "page"), [("auto", None), ("light", "white"), ("dark", "#16181b")])
def test_themes(corpus: ot.Corpus, theme: Any, page: str | None) -> None:
    spec = ot.plot.timeline(corpus, 0, theme=theme).to_dict()
    assert spec["config"]["background"] == (page or "transparent")
    with pytest.raises(ot.ParameterError, match=r"theme is 'drak', expected .*; did you mean 'dark'"):
        ot.plot.timeline(corpus, 0, theme="drak")  # type: ignore[arg-type]


def _luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(a: str, b: str) -> float:
    high, low = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("page", ["#ffffff", "#0d1117", "#16181b"])
def test_colors_stand_out_from_light_and_dark_pages(page: str) -> None:
    assert _contrast(ink("auto"), page) >= 4
    for color in {*SERIES, *KIND_COLORS.values()}:
        assert _contrast(color, page) >= 2.2
    assert _contrast(ink("light"), "#ffffff") > 7 and _contrast(ink("dark"), "#16181b") > 7


def test_kinds_of_events_have_colors_of_their_own() -> None:
    assert len(set(KIND_COLORS.values())) == len(KIND_COLORS)


@pytest.mark.parametrize("at", range(0, 37, 3))
def test_pictures_of_the_sample_recordings(at: int) -> None:
    samples = ot.read_traces(SAMPLES)
    trace = samples.traces.select("trace").collect()["trace"][at]
    for draw in (ot.plot.timeline, ot.plot.spawn_tree, ot.plot.taint):
        assert faults_of(draw(samples, int(trace))) == []


@pytest.mark.parametrize("draw", [ot.plot.timeline, ot.plot.spawn_tree, ot.plot.taint])
def test_a_run_of_ten_thousand_events_is_joined_and_says_so(large: ot.Corpus, draw: Any) -> None:
    chart = draw(large, 0)
    spec = chart.to_dict()
    assert len(json.dumps(spec)) < 1_000_000
    assert all(len(rows) <= 2_000 for rows in spec["datasets"].values())
    if draw is not ot.plot.spawn_tree:
        said = " ".join(spec["title"]["subtitle"])
        assert re.search(r"10,000 events shown as [\d,]+ bars: bins of ", said)
    assert faults_of(chart) == []


@examples(24)
@given(corpora(max_traces=2, max_events=14))
def test_any_run_has_a_timeline_and_a_tree(documents: list[dict[str, Any]]) -> None:
    corpus = ot.read_traces(io.BytesIO(jsonl(documents)), format="native")
    for draw in (ot.plot.timeline, ot.plot.spawn_tree, ot.plot.taint):
        assert faults_of(draw(corpus, 0)) == []


ARIAL_OR_NOT: tuple[Fonts, Fonts] = ("Arial", "none")


@pytest.mark.every_nth(4)
@pytest.mark.parametrize("name", DRAWN)
def test_fonts_of_the_machine_do_not_move_a_picture(corpus: ot.Corpus, name: str) -> None:
    chart = DRAWN[name](corpus, "auto")
    with_arial, without = (re.sub(r"gradient_\d+", "gradient", svg_of(chart, own)) for own in ARIAL_OR_NOT)
    assert with_arial == without


LETTERS = {"Han": "名前", "emoji": "😀", "Arabic": "السلام ", "Hebrew": "שלום", "capitals": "WM"}


@pytest.mark.every_nth(3)
@pytest.mark.parametrize("letters", LETTERS)
def test_names_have_room_whatever_fonts_a_renderer_has(letters: str) -> None:
    names = [(LETTERS[letters] * 40)[:40] + str(n) for n in range(6)]
    for name, chart in pictures_with_names(names).items():
        for fonts in ("none", "narrow", "widest"):
            assert faults_of(chart, fonts) == [], (name, fonts)


WIDE = "名前" * 20
NAMES = st.one_of(
    st.text(min_size=1, max_size=60),
    st.sampled_from(
        [
            "<script>alert(1)</script>",
            "</script><img src=x onerror=alert(1)>",
            "\"'`${x}\\",
            "a'b\"c",
            "\u202egnirts a\u202c",
            "\u05e9\u05dc\u05d5\u05dd",
            "&amp;&lt;&#x3c;",
            "datum.value",
            "\x1b[31mred\x07",
            "line\nline\ttab\r",
            "\u2028\u2029\ufeff",
            WIDE,
            " ",
            "]]>",
            "x" * 500,
            "null",
            "1e5",
        ]
    ),
).filter(lambda name: name.isascii() or not any("\ud800" <= c <= "\udfff" for c in name))


@examples(24)
@given(st.lists(NAMES, min_size=1, max_size=8))
@example(["0", "1", "2", WIDE])
@example(["0", WIDE])
@example([WIDE + str(n) for n in range(8)])
def test_hostile_names_are_text(names: list[str]) -> None:
    corpus = corpus_of(names)
    if len(corpus) == 0:
        return  # a name that no recording may have
    for chart in pictures_of(corpus).values():
        for fonts in ("none", "narrow"):
            svg = svg_of(chart, fonts)
            tags = {node.tag.rpartition("}")[2] for node in ElementTree.fromstring(svg).iter()}
            assert tags <= {"svg", "g", "path", "text", "tspan", "line", "rect", "defs", "clipPath"} | {
                "linearGradient",
                "stop",
            }
            assert all(text.words.isprintable() for text in picture_of(svg).texts)
            assert faults_of(svg) == []


def _emptied() -> dict[str, tuple[Any, dict[str, Any]]]:
    corpus = ot.generate(traces=6, seed=0)
    credits = ot.credit(corpus, unit="agent")
    law = ot.scaling.fit_law(
        pl.DataFrame({"trace_id": ["a", "b"] * 4, "n": [1.0, 2, 3, 4] * 2, "y": [1.0] * 8}),
        x="n",
        y="y",
        n_boot=5,
    )
    epochs, _ = ot.synthetic.stops(runs=40, seed=0)
    curve = ot.stopping.frontier(epochs, ["fixed"], prices=[0.0], n_boot=5)
    return {
        "credit": (ot.plot.credit, {"credits": credits.clear()}),
        "no credit": (
            ot.plot.credit,
            {"credits": credits.with_columns(credit=pl.lit(None, pl.Float64))},
        ),
        "effects": (
            ot.plot.effects,
            {"frame": ot.replay(corpus, ot.interventions.drop(each="agent")).clear()},
        ),
        "scaling": (ot.plot.scaling, {"curve": ot.schedules.scaling_curve(corpus).clear()}),
        "stopping": (ot.plot.stopping, {"frame": curve.clear()}),
        "values": (ot.plot.stopping, {"frame": curve.drop("price").clear()}),
        "laws": (ot.plot.laws, {"fit": law.clear()}),
        "envelopes": (ot.plot.envelopes, {"table": ot.scaling.list_envelopes().clear()}),
        "agreement": (
            ot.plot.agreement,
            {"corpus": corpus, "credits": [credits.clear(), credits.clear()]},
        ),
    }


@pytest.mark.parametrize("name", _emptied())
def test_without_rows_a_picture_says_so(name: str) -> None:
    verb, given_ = _emptied()[name]
    chart = verb(**given_)
    assert faults_of(chart) == []
    texts = " ".join(text.words for text in picture_of(svg_of(chart)).texts)
    assert re.search(r"\b(no|No|None)\b", texts)
    assert "no" in chart.to_dict()["description"].lower()


def test_a_clean_run_says_that_nothing_is_tainted() -> None:
    corpus = read([run(0, 1.0, [event(0, trusted=True), event(1, trusted=True)], [(0, 1)])])
    texts = " ".join(text.words for text in picture_of(svg_of(ot.plot.taint(corpus, 0))).texts)
    assert "No event of the run is untrusted or tainted" in texts


@pytest.mark.parametrize("name", DRAWN)
def test_without_altair_one_line_says_what_to_install(
    corpus: ot.Corpus, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "altair", None)
    with pytest.raises(
        ot.ParameterError, match=r"^plots need Altair: pip install '\.\[plot\]' in your clone"
    ):
        DRAWN[name](corpus, "auto")


def test_every_function_has_themes_and_one_line_first() -> None:
    for name in set(names(ot.plot)) - {"save"}:
        assert inspect.signature(getattr(ot.plot, name)).parameters["theme"].default == "auto"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c: ot.plot.timeline(c, 99), "unknown trace 99"),
        (lambda c: ot.plot.timeline(c, "nope"), "unknown trace 'nope'"),
        (lambda c: ot.plot.spawn_tree(c, None), "trace is None, expected a whole number from 0 or text"),
        (lambda c: ot.plot.timeline(3, 0), "corpus is 3, expected a corpus"),
        (lambda c: ot.plot.timeline(c, 0, credit=pl.DataFrame({"trace": [0]})), "credit has no column 'seq'"),
        (
            lambda c: ot.plot.timeline(c, 0, credit=pl.concat([ot.credit(c), ot.credit(c)])),
            "an event has two credits",
        ),
        (lambda c: ot.plot.timeline(c, 0, credit=ot.credit(c).clear()), "credit has no event of"),
        (lambda c: ot.plot.credit(ot.credit(c), top=0), "top is 0, expected a whole number from 1 to 60"),
        (
            lambda c: ot.plot.credit(pl.concat([ot.credit(c, unit="agent"), ot.credit(c, unit="role")])),
            "credits have several values of 'unit'",
        ),
        (lambda c: ot.plot.effects(pl.DataFrame({"x": [1]})), "frame has no column 'trace'"),
        (lambda c: ot.plot.agreement(c, ot.credit(c)), "credits is one frame"),
        (lambda c: ot.plot.agreement(c, [ot.credit(c)]), "credits has 1 frame, expected 2 to 16"),
        (
            lambda c: ot.plot.agreement(c, [ot.credit(c)] * 2, metric="spearmen"),
            "metric is 'spearmen', expected 'spearman', ",
        ),
        (lambda c: ot.plot.scaling(ot.schedules.scaling_curve(c, slots=[2])), "no row with k = 1"),
        (
            lambda c: ot.plot.scaling(ot.schedules.scaling_curve(c).drop("lower")),
            "curve has no column 'lower'",
        ),
        (lambda c: ot.plot.scaling(ot.schedules.scaling_curve(c), title=3), "title is 3, expected text"),
        (lambda c: ot.plot.envelopes(corpora=[c]), "corpora is of type list"),
    ],
)
def test_refusals(corpus: ot.Corpus, call: Any, words: str) -> None:
    with pytest.raises(ot.ParameterError) as error:
        call(corpus)
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("name", DRAWN)
def test_a_field_with_a_legend_has_no_other_without(corpus: ot.Corpus, name: str) -> None:
    # some versions of Vega-Lite, that of marimo 0.25 for one, then show neither
    legends = defaultdict(list)
    spec = DRAWN[name](corpus, "auto").to_dict()
    for layer in chain.from_iterable(panel["layer"] for panel in spec.get("vconcat", [spec])):
        for encoded in layer.get("encoding", {}).values():
            if isinstance(encoded, dict) and "legend" in encoded:
                legends[encoded.get("field")].append(encoded["legend"] is None)
    assert [field for field, absent in legends.items() if len(set(absent)) > 1] == []
