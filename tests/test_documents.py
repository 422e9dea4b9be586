"""The documents say what is: the example, links, paths, trees, commands, tables of columns and codes."""

import doctest
import inspect
import os
import re
import runpy
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

import orchestrace as ot
from document_workspace import calls, commands, laid_out
from namespaces import public
from orchestrace import _core
from orchestrace.cli import app

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [
        *ROOT.glob("*.md"),
        *ROOT.glob("data/*.md"),
        *ROOT.glob("benches/**/*.md"),
        *ROOT.glob("docs/**/*.md"),
    ]
)
ROOTS = ("rust/", "python/", "tests/", "data/", "benches/", "docs/", ".ci/")
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md"))

each_document = pytest.mark.parametrize("name", DOCUMENTS)


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    """Fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text(name), re.MULTILINE | re.DOTALL)


def prose(name: str) -> str:
    """A document without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text(name), flags=re.MULTILINE | re.DOTALL)


def table(name: str, *header: str) -> list[list[str]]:
    """Rows below a header, cells without their backticks."""
    lines = text(name).splitlines()
    start = lines.index(f"| {' | '.join(header)} |") + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
    return rows


def tree_paths(drawing: str) -> Iterator[str]:
    """Paths of a drawn tree. A line names one or several files of one folder, then says what they are."""
    above: list[str] = []
    for line in drawing.splitlines():
        drawn = re.match(r"[│├└─ ]*", line)
        assert drawn
        depth = len(drawn[0]) // 4
        names = re.split(r" {2,}", line[drawn.end() :])[0].split(" ")
        above[depth:] = [names[0]]
        for name in names:
            yield "/".join([*above[1:depth], name]) if depth else "."


@pytest.mark.parametrize(
    ("name", "which"), [("README.md", 0), ("docs/overview.md", 0), ("docs/overview.md", 1)]
)
def test_examples_of_first_pages_print_what_they_say(name: str, which: int) -> None:
    codes, outputs = blocks(name, "python"), blocks(name, "text")
    assert len(codes) == len(outputs) == {"README.md": 1, "docs/overview.md": 2}[name]
    env = {name: value for name, value in os.environ.items() if not name.startswith("POLARS_")}
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", codes[which]],
        cwd=ROOT,
        env=env,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == outputs[which]


@pytest.fixture
def workspace(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the paths of a document exist: below the home folder and from the working folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    here = laid_out(tmp_path, name)
    monkeypatch.chdir(here)
    return here


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.usefixtures("workspace")
def test_examples_of_pages_print_what_they_say(name: str) -> None:
    examples = "\n".join(block for block in blocks(name, "python") if ">>>" in block)
    told: list[str] = []
    test = doctest.DocTestParser().get_doctest(examples, {}, name, name, 0)
    results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=told.append)
    assert not results.failed, "".join(told)


# the changelog names commands without what they are given
NOT_RUN = {
    "orchestrace --install-completion": "it asks which shell runs it; tests/cli/test_help.py gives one",
    "orchestrace --show-completion": "the same",
    "orchestrace taint runs/ --untrusted-tool 'Web*' --trusted-tool '*' --privileged-tool Bash "
    "--privileged-tool Write": "no run here has these tools; tests/cli/test_tables.py asks for its own",
    "orchestrace validate data/samples": "it exits with 1, as it should; tests/cli/test_exits.py",
    "orchestrace stopping abort runs/ --alpha 0.1": "no run here has scores; tests/cli/test_stopping.py",
}
"""Commands that a test of the documents cannot run, and why."""

COMMANDED = [name for name in DOCUMENTS if name != "CHANGELOG.md" and list(commands(text(name)))]
CALLED = [name for name in DOCUMENTS if list(calls(text(name)))]


@pytest.mark.parametrize("name", COMMANDED)
@pytest.mark.usefixtures("workspace")
def test_every_command_of_a_document_runs(name: str) -> None:
    for words in commands(text(name)):
        if shlex.join(["orchestrace", *words]) in NOT_RUN or any("://" in word for word in words):
            continue  # tests/storage/test_page.py has a bucket
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, (words, done.output)


def test_commands_and_calls_of_documents_are_found() -> None:
    assert {"README.md", "docs/study.md", "docs/survey.md", "docs/recording.md"} <= set(COMMANDED)
    assert sum(len(list(commands(text(name)))) for name in COMMANDED) >= 20
    assert {"docs/overview.md", "docs/formats/claude_code.md", "docs/formats/codex.md"} <= set(CALLED)
    wrapped = list(commands("`orchestrace credit runs.jsonl\n--unit agent`\n"))
    assert wrapped == [["credit", "runs.jsonl", "--unit", "agent"]]
    assert list(commands("```sh\npip install . && orchestrace demo  # all\n```\n")) == [["demo"]]


@pytest.mark.parametrize("name", CALLED)
def test_every_path_of_a_document_can_be_read(name: str, workspace: Path) -> None:
    for function, arguments, options in calls(text(name)):
        if "://" in arguments[0]:
            continue  # tests/storage/test_page.py has a bucket
        if options.get("mapping") == "house.toml":  # logs of that house
            (workspace / "logs" / "runs.jsonl").unlink(missing_ok=True)
            (workspace / "log.jsonl").rename(workspace / "logs" / "log.jsonl")
        if function == "read_corpus" and not Path(arguments[0]).exists():
            ot.ingest("runs.jsonl", arguments[0])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read = getattr(ot, function)(*arguments, **options)
            assert not isinstance(read, pl.LazyFrame) or read.collect().height


def test_parquet_of_trl_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(laid_out(tmp_path, "docs/formats/trl.md"))
    (code,) = blocks("docs/formats/trl.md", "python")
    read = eval(code, {"ot": ot})
    assert read.traces.collect()["importer"].unique().to_list() == ["trl"]


def test_a_page_of_credit_is_about_every_method() -> None:
    """One that people wrote, beside the list that is made of the registry."""
    families = "\n".join(text(name) for name in PAGES if name != "docs/methods.md")
    # Of a process of its own: examples that ran in this one have registered methods of their own.
    told = "import orchestrace as ot; print(*ot.list_methods()['name'])"
    methods = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    for method in methods.stdout.split():
        assert f"`{method}`" in families, method


def test_the_edge_cases_of_formats_have_their_tests() -> None:
    """Each test that the table names is there, and each format has its row."""
    rows = table("docs/formats/README.md", "Format", "Tests, by case", "Cannot occur")
    assert set(re.findall(r"\w+", " ".join(row[0].split(", each")[0] for row in rows))) == set(
        ot.list_importers()["name"]
    )
    sources = [*ROOT.glob("rust/orchestrace-core/src/**/*.rs"), *ROOT.glob("tests/**/*.py")]
    defined = {
        name for path in sources for name in re.findall(r"\b(?:fn|def) (\w+)", path.read_text("utf-8"))
    } | {path.stem for path in ROOT.glob("data/cases/*/*.txt")}
    for row in rows:
        named = re.findall(r"`?(\w{8,})`?", row[1])
        assert named and set(named) <= defined, set(named) - defined


def test_the_commands_of_the_readme() -> None:
    """One sets a machine up and does the main job, one passes all tests."""
    (block,) = blocks("README.md", "sh")
    commands = [line.partition(" #")[0].rstrip() for line in block.splitlines()]
    assert commands == ["make demo", "make test"]
    assert "\nmake test\n" in text(".ci/run")


@each_document
def test_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(name)):
        if re.match(r"https?:|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (ROOT / name).parent / path if path else ROOT / name
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in headings}, (
                target
            )


@each_document
def test_tables_are_rectangular(name: str) -> None:
    """Rows have as many cells as the header, which a renderer cuts or fills up without a word."""
    cells = 0
    for number, line in enumerate(prose(name).split("\n"), 1):
        found = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert not cells or not found or found == cells, f"{name}: row {number} of the prose: {line}"
        cells = found


@each_document
def test_paths_exist(name: str) -> None:
    for quoted in re.findall(r"`([^`\n]+)`", prose(name)):
        path = quoted.partition("::")[0]
        if path.startswith(ROOTS) and not re.search(r"[<*… ]", path):
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_drawn_trees_are_the_tree(name: str) -> None:
    (drawing,) = [block for block in blocks(name, "text") if block.startswith("orchestrace/\n")]
    paths = list(tree_paths(drawing))
    assert len(paths) > 15
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_rooms_are_drawn_in_the_order_of_their_imports() -> None:
    rooms = runpy.run_path(str(ROOT / ".ci" / "rooms.py"))
    (drawing,) = [block for block in blocks("ARCHITECTURE.md", "text") if "orchestrace/\n" in block]
    core = "rust/orchestrace-core/src/"
    for folder, order in ((core, rooms["CORE_ROOMS"]), ("python/orchestrace/", rooms["ROOMS"])):
        paths = [path.replace("//", "/").rstrip("/") for path in tree_paths(drawing)]
        drawn = [Path(path).stem for path in paths if path.rpartition("/")[0] + "/" == folder]
        assert [room for room in drawn if room in order] == [room for room in order if room]


def test_the_first_pages_are_short() -> None:
    assert len(text("README.md").splitlines()) <= 110
    pictures = [path.stat().st_size for path in (ROOT / "docs" / "pictures").iterdir()]
    assert pictures and max(pictures) < 150_000
    assert len(text("ARCHITECTURE.md").splitlines()) <= 300


ELSEWHERE = {"docs/STATS.md", "docs/claim_ledger.md"}
"""Documents of the survey's own repository."""

SOURCES = sorted(
    path
    for pattern in (
        "*.md",
        "*.toml",
        "docs/**/*.md",
        "benches/**/*.md",
        "benches/**/*.py",
        "benches/**/*.rs",
        "examples/**/*.py",
        "python/**/*.py",
        "rust/**/*.rs",
        "tests/**/*.py",
    )
    for path in ROOT.glob(pattern)
    if "target" not in path.parts
)


def test_documents_that_are_cited_exist() -> None:
    """In code, tests and other documents; with the heading or the number that is cited of them."""
    for path in SOURCES:
        code = re.sub(r"\s*\n\s*(?://[/!]|#)?\s*", " ", path.read_text(encoding="utf-8"))
        for cited in re.findall(r"(?<![\w./-])(?:docs/[\w/-]+\.md|ARCHITECTURE\.md)", code):
            assert cited in ELSEWHERE or (ROOT / cited).exists(), (path, cited)
        for cited, section in re.findall(r"(docs/[\w/-]+\.md|ARCHITECTURE\.md), section (\d+)", code):
            assert re.search(rf"^## {section}\.", text(cited), re.MULTILINE), (path, cited, section)
        for cited, heading in re.findall(r"(docs/[\w/-]+\.md|ARCHITECTURE\.md), \"(\w[^\"\\]*)\"", code):
            assert re.search(rf"^(##+ |- \*\*){heading}", text(cited), re.MULTILINE), (path, cited, heading)


def test_numbers_that_are_cited_are_defined() -> None:
    """D1, D2 ... of the definitions and R1, R2 ... of the rules for importers, wherever they stand."""
    defined = set(re.findall(r"^- \*\*(D\d+a?) ", text("docs/reference/definitions.md"), re.MULTILINE))
    rules = set(re.findall(r"^- \*\*(R\d+) ", text("docs/reference/importer-rules.md"), re.MULTILINE))
    assert len(defined) > 20 and len(rules) == 12
    cited = [
        (path, number)
        for path in SOURCES
        if ROOT / "tests" not in path.parents
        for number in re.findall(r"(?<![\w-])[DR]\d+a?\b", path.read_text(encoding="utf-8"))
    ]
    assert len(cited) > 100
    assert [(path, number) for path, number in cited if number not in defined | rules] == []


def test_what_registries_make_is_what_there_is() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "pages.py", "check"], capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    assert len([name for name, _ in public() if "." not in name]) <= 32


def test_every_public_function_has_an_example() -> None:
    functions = {name: one for name, one in public() if inspect.isfunction(one)}
    assert len(functions) > 70
    assert [name for name, one in functions.items() if ">>> " not in (one.__doc__ or "")] == []


@each_document
def test_tasks_and_commands_exist(name: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", text("Makefile"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", text(name))) <= targets
    command = typer.main.get_command(app)
    assert set(re.findall(r"`orchestrace ([a-z]+(?:-[a-z]+)*)", text(name))) <= set(command.commands)  # type: ignore[attr-defined]


def test_the_list_of_commands_is_complete() -> None:
    listed = re.findall(
        r"^\| `([a-z-]+)` \| (.+) \|$", text("docs/command.md").partition("## Tables")[0], re.M
    )
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert listed == [(name, command.help.splitlines()[0]) for name, command in commands.items()]


def test_sections_of_docstrings_are_underlined() -> None:
    for path in ROOT.glob("python/orchestrace/**/*.py"):
        assert not re.search(r"^ +(Parameters|Returns|Raises|Notes|Examples) -{2,}", text(str(path)), re.M), (
            path
        )


def test_tests_that_are_named_exist() -> None:
    sources = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("rust/*/src/**/*.rs"), *ROOT.glob("rust/*/tests/*.rs")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    named = set(re.findall(r"`(\w+_\w+_\w+)`", prose("CONTRIBUTING.md")))
    assert len(named) > 5
    assert [test for test in named if not re.search(rf"(def|fn) {test}\(", code)] == []


def test_tests_lie_where_the_recipes_say() -> None:
    placed = re.findall(r"`(\w+_\w+_\w+)`\s+in\s+`([\w/.]+)`", prose("CONTRIBUTING.md"))
    assert len(placed) > 5
    assert [test for test, path in placed if not re.search(rf"(def|fn) {test}\(", text(path))] == []


def test_definitions_that_are_cited_exist() -> None:
    """What registries cite is of the literature, or a definition of this project."""
    rows = [*_core.metric_definitions(), *_core.methods()]
    references = [row["reference"] for row in rows]
    assert [one for one in references if re.match(r"\d+\.\d|section", one)] == []
    cited = {name for one in references for name in re.findall(r"\bD\d+\b", one)}
    defined = set(re.findall(r"^- \*\*(D\d+) ", text("docs/reference/definitions.md"), re.MULTILINE))
    assert len(cited) > 5 and cited <= defined


def test_tables_of_columns_are_the_schema() -> None:
    written = {row[0]: row[1].split() for row in table("docs/reference/tables.md", "table", "columns")}
    assert written == {name: [column[0] for column in columns] for name, columns in _core.tables()}
    assert f"(version {_core.SCHEMA_VERSION})" in text("docs/reference/tables.md")


def test_the_table_of_codes_is_that_of_the_core() -> None:
    written = [tuple(row) for row in table("docs/reference/codes.md", "level", "code", "severity", "meaning")]
    known = _core.codes()
    assert [row[:3] for row in written] == [code[:3] for code in known]
    for row, (_, _, _, meaning) in zip(written, known, strict=True):
        assert row[3] and meaning in ("", row[3])


def test_the_table_of_limits_is_that_of_reading() -> None:
    limits = table("docs/reference/limits.md", "limit", "option", "default", "code")
    parameters = inspect.signature(ot.read_traces).parameters
    options = [name for name in parameters if name.startswith("max_") and "error" not in name]
    assert sorted(row[1] for row in limits) == sorted(options)
    assert {row[3] for row in limits} <= {code for _, code, _, _ in _core.codes()}
    described = ot.read_traces.__doc__ or ""
    for _, option, default, code in limits:
        (said,) = re.findall(rf"^    {option}\n((?: {{8}}.*\n)+)", described, re.MULTILINE)
        assert default in said and code in said, option


def test_the_changelog_knows_the_version() -> None:
    assert f"## [{ot.__version__}]" in text("CHANGELOG.md")
    assert f"Table layout {_core.SCHEMA_VERSION}." in text("CHANGELOG.md")


def test_the_overview_says_what_methods_find_as_the_page_on_credit_measured_it() -> None:
    """Ranges of rank correlations are over the worlds of the table of docs/credit.md."""
    measured: dict[tuple[str, str], list[float]] = {}
    for row in re.findall(
        r"^\| `(.+?)` \| (event|agent|siblings) \|(.+)$", text("docs/credit.md"), re.MULTILINE
    ):
        worlds = [cell.split("[")[0].strip() for cell in row[2].split("|")[:5]]
        numbers = [float(cell) for cell in worlds if cell not in ("", "-")]
        measured.setdefault((row[0], row[1]), numbers)
    found = table("docs/overview.md", "question", "ask", "rank correlation with planted truth")
    critic = "gae (rows=events, lambda_=0.0, gamma=1.0)"
    told = {
        0: [("c3", "siblings"), ("coma", "siblings")],
        1: [(critic, "event")],
        2: [(critic, "agent")],
        3: [("grpo", "siblings")],
        4: [("uniform", "agent"), ("uniform", "siblings")],
        5: [("flow", "event"), ("flow", "agent")],
    }
    for at, methods in told.items():
        ranges = [
            f"{min(numbers):.2f} to {max(numbers):.2f}" for numbers in (measured[one] for one in methods)
        ]
        assert re.findall(r"-?\d\.\d\d to -?\d\.\d\d", found[at][2]) == ranges, found[at]
