"""Pages that answer a question or come from another tool: each block prints what the page says."""

import doctest
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from document_workspace import commands, laid_out
from orchestrace import _core
from orchestrace.cli import app
from orchestrace.credit import registry

ROOT = Path(__file__).resolve().parents[1]
HOW_TO = sorted(path.name for path in ROOT.glob("docs/how-to/*.md") if path.name != "README.md")
COMING_FROM = sorted(path.name for path in ROOT.glob("docs/coming-from/*.md") if path.name != "README.md")
GUIDES = [
    *(f"docs/how-to/{name}" for name in HOW_TO),
    *(f"docs/coming-from/{name}" for name in COMING_FROM),
]
PUBLISHED = "ORCHESTRACE_CORPORA"


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def examples(name: str) -> str:
    """The blocks of Python of a page, as one session."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", text(name), re.MULTILINE | re.DOTALL))


OF_SHIPPED = [name for name in GUIDES if PUBLISHED not in examples(name)]
OF_PUBLISHED = [name for name in GUIDES if PUBLISHED in examples(name)]


@pytest.fixture
def workspace(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the paths of a page exist; methods that it registers are gone afterwards."""
    monkeypatch.setattr(registry, "_METHODS", registry.registered())
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(laid_out(tmp_path, name))


def prints_what_it_says(name: str) -> None:
    said: list[str] = []
    here = {"__name__": "__main__"}
    test = doctest.DocTestParser().get_doctest(examples(name), here, name, name, 0)
    results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert not results.failed, "".join(said)


@pytest.mark.parametrize("name", OF_SHIPPED)
@pytest.mark.usefixtures("workspace")
def test_examples_on_shipped_recordings_print_what_they_say(name: str) -> None:
    prints_what_it_says(name)


@pytest.mark.corpora
@pytest.mark.every_nth(1)
@pytest.mark.skipif(not os.environ.get(PUBLISHED), reason=f"{PUBLISHED} is not set")
@pytest.mark.parametrize("name", OF_PUBLISHED)
@pytest.mark.usefixtures("workspace")
def test_examples_on_published_recordings_print_what_they_say(name: str) -> None:
    prints_what_it_says(name)


def answered(name: str) -> Iterator[tuple[list[list[str]], str]]:
    """Commands of a page that are followed by what they print."""
    shown = r"^```sh\n((?:(?!```).)*?)^```\n\n```text\n(.*?)^```$"
    for block, output in re.findall(shown, text(name), re.MULTILINE | re.DOTALL):
        yield list(commands(f"```sh\n{block}```\n")), output


@pytest.mark.parametrize("name", [name for name in GUIDES if list(answered(name))])
@pytest.mark.usefixtures("workspace")
def test_commands_print_what_the_page_says(name: str) -> None:
    for lines, output in answered(name):
        results = [CliRunner().invoke(app, words, env={"COLUMNS": "100"}) for words in lines]
        assert [result.exit_code for result in results] == [0] * len(results)
        printed = "".join(result.stdout for result in results).rstrip("\n")
        assert [line.rstrip() for line in printed.split("\n")] == output.rstrip("\n").split("\n")


@pytest.mark.parametrize("name", HOW_TO)
def test_a_page_answers_one_question_on_one_screen(name: str) -> None:
    page = text(f"docs/how-to/{name}")
    title, *lines = page.rstrip("\n").split("\n")
    assert re.fullmatch(r"# [A-Z].*\?", title) and len(lines) <= 76
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == ["How to read it", "When not to believe it"]
    (more,) = re.findall(r"^More: (.*)", page, re.MULTILINE | re.DOTALL)
    assert "](../" in more
    assert ">>> " in page


def test_every_question_is_in_the_list_of_questions() -> None:
    rows = re.findall(
        r"^\| ([A-Z].*\?.*) \| \[([\w-]+)\]\(\2\.md\) \|$", text("docs/how-to/README.md"), re.MULTILINE
    )
    titles = {name.removesuffix(".md"): text(f"docs/how-to/{name}").partition("\n")[0][2:] for name in HOW_TO}
    assert {page: question for question, page in rows} == titles
    assert len(titles) >= 15


def test_the_glossary_is_in_order_and_has_no_word_twice() -> None:
    words = re.findall(r"^\*\*(.+?)\*\*: ", text("docs/glossary.md"), re.MULTILINE)
    assert len(words) > 70
    assert words == sorted(set(words), key=str.lower)
    paragraphs = text("docs/glossary.md").strip().split("\n\n")[2:]
    assert len(paragraphs) == len(words), "a paragraph that defines nothing"


def test_words_that_the_glossary_compares_are_in_it() -> None:
    words = {word.lower() for word in re.findall(r"^\*\*(.+?)\*\*: ", text("docs/glossary.md"), re.M)}
    compared = re.findall(r"(?:Compare|Unlike an) \*(.+?)\*", text("docs/glossary.md"))
    assert len(compared) > 5 and set(compared) <= words


def test_compatibility_names_the_versions_of_the_project() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    page = text("docs/compatibility.md")
    assert project["requires-python"] == ">=3.11" and "| Python | 3.11 and later;" in page
    assert [one for one in project["dependencies"] if f"`{one}`" not in page] == []
    assert f"at present {_core.SCHEMA_VERSION}." in page
    rust = tomllib.loads(text("Cargo.toml"))["workspace"]["package"]["rust-version"]
    assert f"| Rust, to build from source | {rust} and later |" in page
