"""The checks of pictures find what they are for."""

import altair as alt
import pytest

from plot.picture_checks import faults_of, picture_of, svg_of, width_of


def words(rows: list[dict[str, object]], width: int = 200, **mark: object) -> alt.Chart:
    axis = {"axis": None, "scale": alt.Scale(domain=[0, 100])}
    chart = alt.Chart(alt.Data(values=rows)).mark_text(**mark)
    encoded = chart.encode(x=alt.X("x:Q", **axis), y=alt.Y("y:Q", **axis), text="t:N")
    return encoded.properties(width=width, height=100)


def test_a_good_picture_has_no_fault() -> None:
    assert not faults_of(words([{"x": 50, "y": 20, "t": "one"}, {"x": 50, "y": 80, "t": "two"}]))


def test_text_over_text_is_a_fault() -> None:
    rows = [{"x": 50, "y": 50, "t": "first name"}, {"x": 55, "y": 52, "t": "second name"}]
    (fault,) = faults_of(words(rows))
    assert "overlaps" in fault


def test_turned_text_is_judged_by_its_own_box() -> None:
    rows = [{"x": 40, "y": 50, "t": "a name that is long"}, {"x": 50, "y": 50, "t": "a name that is long"}]
    assert faults_of(words(rows))
    assert not faults_of(words(rows, angle=300))
    assert faults_of(words(rows, angle=355))


def test_text_out_of_the_picture_is_a_fault() -> None:
    cut = words([{"x": 95, "y": 50, "t": "a long word that goes on and on"}])
    assert not faults_of(cut)  # there is room for it beside the plot
    fixed = cut.properties(autosize=alt.AutoSizeParams(type="none"), padding=0)
    (fault,) = faults_of(fixed)
    assert fault.startswith("out of the picture at the side")


def test_a_picture_without_marks_is_a_fault() -> None:
    assert faults_of(words([])) == ["nothing is drawn"]


def test_an_empty_pane_beside_a_full_one_is_a_fault() -> None:
    full, empty = words([{"x": 50, "y": 50, "t": "here"}]), words([])
    assert not faults_of(full | full)
    (fault,) = faults_of(full | empty)
    assert fault.endswith("is empty")


def test_what_is_transparent_or_of_no_size_does_not_count() -> None:
    rows = [{"x": 50, "y": 50, "t": "here"}]
    assert faults_of(words(rows, opacity=0)) == ["nothing is drawn"]


def test_bold_letters_have_widths_of_their_own() -> None:
    assert width_of("WWWW", 11, bold=True) == width_of("WWWW", 11)
    assert width_of("nnnn", 11, bold=True) == pytest.approx(26.9, abs=0.1)


@pytest.mark.parametrize(("text", "width"), [("", 0), ("iiii", 9.8), ("WWWW", 41.5), ("日本", 22)])
def test_widths_are_those_of_the_font(text: str, width: float) -> None:
    assert width_of(text, 11) == pytest.approx(width, abs=0.1)


def test_lines_of_one_text_are_several() -> None:
    svg = svg_of(words([{"x": 50, "y": 50, "t": "one\ntwo"}], lineBreak="\n"))
    texts = picture_of(svg).texts
    assert [text.words for text in texts] == ["one", "two"]
    assert texts[0].corners[2][1] <= texts[1].corners[0][1] + 2
    assert not faults_of(svg)
