"""The file: hostile names, its size, its bytes, how it is written."""

import base64
import hashlib
import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from cli.commands import error_line, recordings, run
from orchestrace.view.packing import packed_json
from samples.examples import examples
from view.pages import HOSTILE, data_of, hostile_corpus, rows

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@examples(300)
@given(VALUES)
def test_packed_json_is_json_that_cannot_end_a_script(value: object) -> None:
    try:
        text = packed_json(value)
        text.encode()
    except UnicodeEncodeError:  # no text of a recording has a surrogate
        return
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029\n") & set(text)


def test_what_json_has_no_number_for_is_a_word() -> None:
    text = packed_json([float("inf"), -float("inf"), float("nan"), {"a": (1.0, float("inf"))}])
    assert text == '["Infinity","-Infinity","NaN",{"a":[1.0,"Infinity"]}]'


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_hostile_names_add_no_markup(tmp_path: Path) -> None:
    page, plain = tmp_path / "page.html", tmp_path / "plain.html"
    corpus = hostile_corpus(tmp_path)
    assert len(corpus) == len(HOSTILE)
    ot.view(corpus, page, text=True)
    ot.view(ot.generate(traces=len(HOSTILE), seed=0), plain)
    found, usual = _Tags(), _Tags()
    found.feed(page.read_text(encoding="utf-8"))
    usual.feed(plain.read_text(encoding="utf-8"))
    assert [tag for tag, _ in found.found] == [tag for tag, _ in usual.found]
    assert not any(
        name.startswith("on") or name in ("src", "srcset") for _, own in found.found for name in own
    )
    ids = {row["trace_id"] for row in rows(data_of(page)["corpus"]["runs"])}
    assert ids == {f"{name} 0" for name in HOSTILE.values()}


def test_the_policy_lets_in_the_script_and_the_style_alone(tmp_path: Path) -> None:
    ot.view(ot.generate(traces=1, seed=0), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    script = re.search(r"<script>(.*)</script>", text, re.DOTALL)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert policy and script and style

    def allowed(content: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"

    assert policy[1] == (
        f"default-src 'none'; script-src {allowed(script[1])}; style-src {allowed(style[1])};"
        " base-uri 'none'; form-action 'none'"
    )
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", script[1]
    )
    assert not re.search(r"https?://|//cdn|@import|url\(", text.replace("application/json", ""))


def test_the_same_recordings_give_the_same_bytes(tmp_path: Path) -> None:
    ot.generate(tmp_path / "runs.jsonl", traces=6, seed=2)
    pages = []
    for threads in (1, 2, 5):
        ot.view(ot.read_traces(tmp_path / "runs.jsonl"), tmp_path / f"{threads}.html", threads=threads)
        pages.append((tmp_path / f"{threads}.html").read_bytes())
    assert pages[0] == pages[1] == pages[2]


@pytest.mark.every_nth(3)
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_page_is_never_larger_than_its_limit_and_says_what_is_left_out(
    share: float, tmp_path: Path
) -> None:
    corpus = ot.generate(traces=40, seed=1)
    whole = ot.view(corpus, tmp_path / "whole.html", runs=40)
    assert not whole.left_out
    empty = ot.view(corpus.filter(False), tmp_path / "empty.html").bytes + 8_000
    limit = int(empty + (whole.bytes - empty) * share)
    made = ot.view(corpus, tmp_path / "page.html", runs=40, max_bytes=limit)
    assert made.bytes == (tmp_path / "page.html").stat().st_size <= limit
    data = data_of(tmp_path / "page.html")
    assert list(made.left_out) == data["corpus"]["left_out"] != []
    assert made.n_detailed == sum(name.startswith("run-") for name in data) < 40
    assert sum(row["detail"] for row in rows(data["corpus"]["runs"])) == made.n_detailed


def test_events_of_a_single_run_are_cut_to_the_limit(tmp_path: Path) -> None:
    corpus, _ = ot.synthetic.planted(traces=1, agents=10, events=200, seed=1)
    whole = ot.view(corpus, tmp_path / "whole.html")
    made = ot.view(corpus, tmp_path / "page.html", max_bytes=whole.bytes * 2 // 3)
    assert made.bytes <= whole.bytes * 2 // 3 and made.n_detailed == 1
    run_ = data_of(tmp_path / "page.html")["run-0"]
    shown = rows(run_["events"])
    assert 1 < len(shown) < run_["n_events"]
    critical = ot.schedules.simulate(corpus).filter("critical")["seq"].to_list()
    kept = {row["seq"] for row in shown}
    assert set(critical) <= kept or kept <= set(critical)
    assert all({edge["src"], edge["dst"]} <= kept for edge in rows(run_["edges"]))


def test_a_limit_below_an_empty_page_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ot.ParameterError, match=r"^max_bytes: a page without any run has [\d,]+ bytes, more than"
    ):
        ot.view(ot.generate(traces=1, seed=0), tmp_path / "page.html", max_bytes=100)
    assert not list(tmp_path.iterdir())


def test_a_file_that_exists_stays(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    target.write_text("mine")
    corpus = ot.generate(traces=1, seed=0)
    with pytest.raises(ot.InputError, match="exists"):
        ot.view(corpus, target)
    assert target.read_text() == "mine"
    ot.view(corpus, target, overwrite=True)
    assert target.read_text().startswith("<!DOCTYPE html>")


def test_unknown_names_are_told(tmp_path: Path) -> None:
    corpus = ot.generate(traces=2, seed=0)
    with pytest.raises(ot.ParameterError, match="unknown method 'flo'; did you mean 'flow'"):
        ot.view(corpus, tmp_path / "page.html", methods=["flo"])
    with pytest.raises(ot.ParameterError, match="unknown trace_id 'x'"):
        ot.view(corpus, tmp_path / "page.html", trace_id="x")


def test_the_command_writes_and_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = recordings(tmp_path)
    out = run("view", path).stdout
    assert re.match(r"view.html: 3 runs in detail, [\d,]+ bytes\n", out)
    assert "exists" in error_line(run("view", path, code=1))
    run("view", path, "--force", "--method", "uniform", "--runs", "1", "-o", "other.html")
    data = data_of(tmp_path / "other.html")
    assert [one["method"] for one in data["corpus"]["methods"]] == ["uniform"]
    assert sum(name.startswith("run-") for name in data) == 1
    assert error_line(run("view", path, "--force", "--max-bytes", "10", code=2)).startswith(
        "--max-bytes: a page without any run"
    )


def test_open_asks_the_browser_for_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: asked.append(url) is None)
    run("view", recordings(tmp_path), "-o", tmp_path / "page.html", "--open")
    assert asked == [(tmp_path / "page.html").as_uri()]


def test_the_demo_ends_with_how_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: asked.append(url) is None)
    *_, where, last = run("demo", "-o", tmp_path / "demo").stdout.rstrip().splitlines()
    page = tmp_path / "demo" / "runs.html"
    assert where == f"A page of the runs is in {page}. To open it in a browser:" and asked == []
    assert last.startswith("$ orchestrace demo ")
    run(*shlex.split(last)[2:])
    assert asked == [page.as_uri()]
