"""What an import and a command load: only what they use; and every name is one thing in any order."""

import inspect
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

import namespaces
import orchestrace as ot
from namespaces import names
from orchestrace.cli import app
from orchestrace.cli.commands import command_names, module_of, summary_of

SLOW = ("altair", "numpy", "obstore", "polars", "pyarrow", "ray", "rich", "scipy", "sklearn", "typer")
"""Packages whose import takes longer than that of `orchestrace`."""
VERBS = (
    *("credit", "explain", "export", "generate", "ingest", "metrics", "read_corpus", "read_traces", "replay"),
    *("describe", "scan_events", "scan_traces", "summary", "taint", "view"),
)
"""Of the top, what needs Polars alone until something is estimated."""


def printed(script: str, *arguments: str) -> list[str]:
    """The lines that a script prints in a process of its own."""
    path = f"import sys; sys.path[:0] = {sys.path!r}\n"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", path + textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def slow(script: str, *arguments: str) -> list[str]:
    """The packages of `SLOW` that a script has loaded by its end."""
    (line,) = printed(f"{script}\nprint(*(name for name in {SLOW} if name in sys.modules))", *arguments)
    return line.split()


def test_the_package_alone_loads_no_other_package() -> None:
    assert slow("import orchestrace") == []
    assert slow("import orchestrace as ot; ot.__version__, ot.InputError, ot.study, dir(ot)") == []


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_load_polars_alone(verb: str) -> None:
    assert slow(f"from orchestrace import {verb}") == ["polars"]


def test_reading_and_credit_need_no_numpy(tmp_path: Path) -> None:
    script = """
        import orchestrace as ot
        ot.generate(sys.argv[1], traces=8, seed=0)
        corpus = ot.read_traces(sys.argv[1])
        credits = ot.credit(corpus, method="flow", unit="agent")
        assert ot.metrics(corpus).height and ot.describe(corpus) and credits.height
    """
    assert slow(textwrap.dedent(script), str(tmp_path / "runs.jsonl")) == ["polars"]


def test_the_version_is_printed_without_typer_and_polars() -> None:
    script = """
        import sys
        from orchestrace.cli import main
        sys.argv = ["orchestrace", "--version"]
        main()
        print(*(name for name in %r if name in sys.modules))
    """
    assert printed(script % (SLOW,)) == [ot.__version__, ""]


def test_a_command_loads_its_module_alone() -> None:
    script = """
        import contextlib, io
        from orchestrace.cli.commands import command_names, module_of

        for words in [[], *([name] for name in command_names())]:
            for name in [name for name in sys.modules if name.startswith("orchestrace.cli")]:
                del sys.modules[name]
            from orchestrace.cli import app
            with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
                app([*words, "--help"])
            print(*words, *(name for name in map(module_of, command_names()) if name in sys.modules))
    """
    assert printed(script) == ["", *(f"{name} {module_of(name)}" for name in command_names())]


def test_the_list_of_commands_is_what_modules_define() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert len(commands) > 25 and list(commands) == list(command_names())
    for name, command in commands.items():
        assert (command.help or "").splitlines()[0] == summary_of(name), name
    assert len(app.registered_commands) + len(app.registered_groups) == len(commands)


def shadowed() -> Iterator[tuple[str, str]]:
    """Packages, and their names that a module of theirs has, too, without being it."""
    for package in (ot, *namespaces.SPACES.values()):
        for name in getattr(package, "__all__", ()) if hasattr(package, "__path__") else ():
            if not inspect.ismodule(getattr(package, name)) and find_spec(f"{package.__name__}.{name}"):
                yield package.__name__, name


def test_every_name_is_one_thing_whatever_is_imported_first(tmp_path: Path) -> None:
    """Where a module is called as a name is: all orders of two of importing modules and of using names.

    Of namespaces it is those of the same name.
    """
    pairs = list(shadowed())
    assert {"credit", "metrics", "replay", "view"} <= {name for _, name in pairs}
    script = """
        import itertools, types
        from importlib import import_module
        sys.dont_write_bytecode, sys.pycache_prefix = False, sys.argv[1]  # compiled once, imported often
        pairs = %r
        deeds = [(kind, *pair) for pair in pairs for kind in ("import", "use")]
        for order in itertools.permutations(deeds, 2):
            (_, first, name), (_, second, other) = order
            if first != second or (name != other and first != "orchestrace"):
                continue
            for name in [name for name in sys.modules if name.startswith("orchestrace")]:
                if name != "orchestrace._core":
                    del sys.modules[name]
            for kind, package, name in order:
                if kind == "import":
                    assert isinstance(import_module(f"{package}.{name}"), types.ModuleType)
            for kind, package, name in (*order, *order):
                thing = getattr(import_module(package), name)
                home = sys.modules[thing.__module__]
                if not callable(thing) or vars(home)[name] is not thing:
                    print(order, thing)
                import_module(f"{package}.{name}")
    """
    assert printed(script % (pairs,), str(tmp_path)) == []


def test_names_that_load_late_are_ordinary_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(names(ot)) <= set(dir(ot)) and set(names(ot.stopping)) <= set(dir(ot.stopping))
    assert printed("from orchestrace import *; print(credit.__name__, study.__name__)") == [
        "credit orchestrace.study"
    ]
    for thing in (ot, ot.stopping, ot.credit):
        assert pickle.loads(pickle.dumps(thing)) is thing
    for space in (ot, ot.stopping):
        for name in ("absent", "_absent", "__absent__"):
            assert not hasattr(space, name)
    with pytest.raises(AttributeError, match=r"^module 'orchestrace\.stopping' has no attribute 'absent'$"):
        ot.stopping.__getattr__("absent")
    with monkeypatch.context() as patch:
        patch.setattr(ot, "credit", len)
        assert ot.credit is len
    assert ot.credit.__module__ == "orchestrace.credit.verb"


def test_methods_and_engines_load_when_they_are_named(tmp_path: Path) -> None:
    script = """
        import orchestrace as ot
        where = sys.argv[1]
        ot.generate(f"{where}/runs.jsonl", traces=12, seed=0)
        ot.ingest(f"{where}/runs.jsonl", f"{where}/corpus", partitions=2)
        corpus = ot.read_corpus(f"{where}/corpus")
        plain = ot.metrics(corpus)
        ot.credit(corpus, method="uniform")
        late = ("orchestrace.credit.fitted", "orchestrace.distributed")
        print(*(name in sys.modules for name in late))
        print(ot.metrics(corpus, engine="processes").equals(plain))
        print(*ot.list_methods()["name"].tail(7))
    """
    assert printed(script, str(tmp_path)) == [
        "False False",
        "True",
        "aristocrat coma hca dae rudder vdn qmix",
    ]


def test_coverage_knows_every_verb_that_declares_a_decision() -> None:
    script = """
        import pkgutil
        from importlib import import_module
        import orchestrace, orchestrace.scaling.coverage
        from orchestrace.base.taxonomy import SUB_DECISIONS, verbs_for

        def verbs():
            return [verbs_for(decision.id) for decision in SUB_DECISIONS]

        before = verbs()
        for module in pkgutil.walk_packages(orchestrace.__path__, "orchestrace."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
        print(before == verbs(), *(bool(names) for names in before))
    """
    assert printed(script) == ["True True True True True True"]


def test_a_list_of_names_has_public_ones_only() -> None:
    for package in (ot, ot.effects, ot.decisions, ot.plot):
        assert {name for name in dir(package) if not name.startswith("__")} == {
            name for name in package.__all__ if not name.startswith("__")
        }, package.__name__
