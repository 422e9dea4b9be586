"""The figures of a report: one look per method, what rests on few tasks marked, no interval cut off."""

import itertools
import re
import xml.etree.ElementTree as ET
from collections import defaultdict
from typing import Any

import numpy as np
import polars as pl
import pytest

import orchestrace as ot
from orchestrace.study.sheet import COLORS, GREY, looks

pytest.importorskip("altair")
vl_convert = pytest.importorskip("vl_convert")

METHODS = [
    "uniform",
    "flow",
    "broadcast",
    "grpo",
    "gae",
    {"name": "gae", "params": {"rows": "events", "lambda_": 0.0, "gamma": 1.0}},
    "dag_gae",
    "c3",
    "difference",
    "return_to_go",
    "gigpo",
]
CONFIG: dict[str, Any] = {
    "sizes": [
        {"events": 12, "agents": 3, "traces": 80},
        {"events": 60, "agents": 6, "traces": 16},
    ],
    "presets": {
        "additive": {"outcome": "linear", "density": 1.0, "decisive": 0.0},
        "swarm": {"outcome": "noisy_or", "topology": "swarm", "noise": 0.2, "value_noise": 0.2},
    },
    "methods": METHODS,
    "slots": [1, 2],
}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A study whose larger size has two tasks: its folder, and the specification of each figure."""
    folder = tmp_path_factory.mktemp("study")
    ot.study.run(CONFIG, folder, workers=0)
    trend = ot.study.downscale(ot.generate(traces=30, seed=0), ["flow", "gae"], shares=[0.5], min_events=8)
    specs: list[dict[str, Any]] = []
    draw = vl_convert.vegalite_to_svg
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vl_convert, "vegalite_to_svg", lambda spec: specs.append(spec) or draw(spec))
        written = ot.study.report(folder, downscaled=trend)
    names = [path.stem for path in written if path.suffix == ".svg"]
    return folder, dict(zip(names, specs, strict=True))


def _marks(svg: str) -> list[tuple[str, str, dict[str, str]]]:
    """Of each mark that a reader of screens is told of: what it is, which method, its attributes."""
    found = []
    for element in ET.fromstring(svg).iter():
        method = re.search(r"method: (.+?)(; |$)", element.get("aria-label", ""))
        if method:
            found.append((element.get("aria-roledescription", ""), method[1], dict(element.attrib)))
    return found


def _colors_of_methods(folder, specs) -> dict[str, set[str]]:
    """Every color that any figure, or its legend, gives a method, but for the grey of those not named."""
    colors = defaultdict(set)
    for name, spec in specs.items():
        if name in ("schedules", "envelope-map"):
            continue
        svg = (folder / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        for _, method, mark in _marks(svg):
            ink = {mark.get("stroke"), mark.get("fill")} - {None, "none", "transparent", "white", GREY}
            colors[method] |= ink
        for scale in _scales(spec, "color"):
            for method, color in zip(scale["domain"], scale["range"], strict=True):
                colors[method].add(color)
    return colors


def _scales(spec: Any, channel: str) -> list[dict[str, Any]]:
    found = []
    if isinstance(spec, dict):
        scale = spec.get(channel, {}).get("scale") if isinstance(spec.get(channel), dict) else None
        found += [scale] if isinstance(scale, dict) and "domain" in scale else []
        found += [one for value in spec.values() for one in _scales(value, channel)]
    elif isinstance(spec, list):
        found += [one for value in spec for one in _scales(value, channel)]
    return found


@pytest.mark.nightly
def test_a_method_has_one_color_in_all_figures(drawn):
    folder, specs = drawn
    assert {"rank-event", "sign-agent", "rollouts-event", "cost-agent", "downscaled"} <= set(specs)
    colors = _colors_of_methods(folder, specs)
    assert len(colors) > len(COLORS)
    # none: one that no figure names is grey in all of them
    assert {method: found for method, found in colors.items() if len(found) > 1} == {}
    # Those that share a color are told apart by their line, in every figure.
    lines = defaultdict(set)
    for spec in specs.values():
        for scale in _scales(spec, "strokeDash"):
            for method, dash in zip(scale["domain"], scale["range"], strict=True):
                lines[method].add(tuple(dash))
    assert all(len(found) == 1 for found in lines.values())
    both = {method: (*colors[method], *lines[method]) for method in lines}
    assert len(set(both.values())) == len(both)


def test_looks_hang_on_the_study_and_not_on_the_figure():
    few = looks(["a", "b", "c"], [])
    assert [few[name].color for name in "abc"] == COLORS[:3]
    assert looks(["a", "b", "c"], ["c", "b"]) == few
    many = looks([str(n) for n in range(40)], ["39", "7", "39", "no method"])
    assert len(many) == 40 and len({(one.color, tuple(one.dash)) for one in many.values()}) == 32
    own = [name for name, one in many.items() if one.dash == [1, 0]]
    # The first that figures name have a color of their own, and keep the order of the study.
    assert own[:8] == ["0", "1", "2", "3", "4", "5", "7", "39"]


# Machado, Oliveira, Fernandes 2009, severity 1, on linear RGB.
_VISION = {
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
    "full": np.eye(3).tolist(),
}
_XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]


def _lab(linear: np.ndarray) -> np.ndarray:
    xyz = np.array(_XYZ) @ np.clip(linear, 0, 1) / np.array([0.95047, 1.0, 1.08883])
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", _VISION)
def test_colors_are_told_apart_with_any_color_vision(vision):
    rgb = np.array([[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in COLORS]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = [_lab(np.array(_VISION[vision]) @ one) for one in linear]
    # A difference of 2.3 is just noticeable; lines in a legend need many times that.
    assert min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2)) > 15


def test_points_of_few_tasks_are_there_and_hollow(drawn):
    folder, specs = drawn
    table = ot.study.load(folder)
    assert table.filter(events=60)["rho_n_tasks"].max() == 2
    named = _scales(specs["rank-event"], "color")[0]["domain"]
    rows = table.filter(pl.col("unit") == "event", pl.col("method").is_in(named)).drop_nulls("rho")
    svg = (folder / "figures" / "rank-event.svg").read_text(encoding="utf-8")
    points = [mark for what, method, mark in _marks(svg) if what == "point" and method in named]
    hollow = [mark for mark in points if mark.get("fill") == "white"]
    assert len(points) == rows.height and len(hollow) == rows.filter(events=60).height > 0
    assert len(points) > len(hollow)
    rules = [mark for what, method, mark in _marks(svg) if what == "rule mark" and method in named]
    assert len(rules) == rows.drop_nulls("rho_lower").height


def test_tables_and_captions_say_what_is_marked_and_why(drawn):
    folder, _ = drawn
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert "no value" not in text
    rows = ot.study.load(folder).filter(method="gae", unit="event", events=60)
    value, low, high = (f"{rows[name].median():.2f}" for name in ("rho", "rho_lower", "rho_upper"))  # type: ignore[str-bytes-safe]
    row = next(line for line in text.splitlines() if line.startswith("| `gae` | event"))
    assert f"| {value}† [{low}, {high}] 2 tasks " in row
    caption = next(line for line in text.splitlines() if line.startswith("*Figure 2."))
    assert "Hollow points rest on fewer than 5 tasks (at 60 steps)" in caption
    assert "†: no world has at least 5 tasks with a value" in text
    gap = text.split("## The gap in numbers")[1].split("##")[0]
    assert "everything at 60 steps (2 tasks: 16 runs in groups of 8)" in gap
    # No claim is made of that size.
    assert "60" not in gap.split("Values from fewer")[0]
    assert '<td class="few">' in (folder / "report.html").read_text(encoding="utf-8")


def _panels(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return spec.get("concat", [spec])


def test_no_interval_is_cut_off(drawn):
    _, specs = drawn
    looked_at = 0
    for name, spec in specs.items():
        for panel in _panels(spec):
            bars = [layer for layer in panel.get("layer", []) if layer["encoding"].get("y2")]
            for layer in bars:
                y = layer["encoding"]["y"]
                if y["field"] != "lower":
                    continue
                assert not y["scale"].get("clamp"), name
                low, high = y["scale"]["domain"]
                rows = spec["datasets"][layer["data"]["name"]]
                looked_at += len(rows)
                assert all(low <= row["lower"] <= row["upper"] <= high for row in rows), name
    assert looked_at > 50


def test_methods_of_one_size_stand_beside_each_other(drawn):
    _, specs = drawn
    for panel in _panels(specs["rank-agent"]):
        bars = next(layer for layer in panel["layer"] if layer["encoding"].get("y2"))
        rows = specs["rank-agent"]["datasets"][bars["data"]["name"]]
        places = [row["x"] for row in rows]
        assert len(set(places)) == len(places)
        assert all(abs(row["x"] / row["events"] - 1) < 0.25 for row in rows)
