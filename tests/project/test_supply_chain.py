"""A script that needs nothing installed judges what the project takes from others; here, that it can fail."""

import ast
import importlib.metadata
import importlib.util
import re
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import orchestrace as ot

ROOT = Path(__file__).resolve().parents[2]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"ci_{name}", ROOT / ".ci" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def crates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script on a copy of what it reads; what cargo says of the module is that of the notices."""
    module = script("crates")
    for name in (*module.LOCKS, "deny.toml", ".ci/crates.csv", "THIRD_PARTY_NOTICES.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "LICENCES", tmp_path / ".ci" / "crates.csv")
    monkeypatch.setattr(module, "NOTICES", tmp_path / "THIRD_PARTY_NOTICES.txt")
    monkeypatch.setattr(module, "linked", lambda host_only: sorted(module.noticed()))
    return module


def test_all_is_as_allowed(crates: ModuleType) -> None:
    assert "sources, checksums and licences are as deny.toml allows" in crates.check()


def edited(name: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        text = (root / name).read_text()
        changed = re.sub(old, new, text, count=1)
        assert changed != text
        (root / name).write_text(changed)

    return edit


FAULTS = {
    "a crate from elsewhere": (
        edited(
            "Cargo.lock",
            r"registry\+https://github.com/rust-lang/crates.io-index",
            "git+https://example.org/x",
        ),
        "comes from git",
    ),
    "a crate without a checksum": (edited("rust/fuzz/Cargo.lock", r"checksum = .*\n", ""), "has no checksum"),
    "a crate that nobody judged": (
        edited(
            "benches/rust/Cargo.lock",
            r'(?s)name = "aho-corasick"\nversion = "[^"]*"',
            r'name = "aho-corasick"\nversion = "99.0.0"',
        ),
        "aho-corasick 99.0.0 is not in crates.csv",
    ),
    "a licence that is not allowed": (
        edited("deny.toml", r'    "BSL-1.0",\n', ""),
        "which deny.toml does not allow",
    ),
    "a crate that is banned": (edited("deny.toml", '"openssl-sys"', '"rayon"'), "is banned by deny.toml"),
    "a crate that is gone": (
        edited(".ci/crates.csv", r"(?m)^libc,", "left-pad,1.0.0,MIT\nlibc,"),
        "left-pad 1.0.0, which nothing uses",
    ),
    "a notice of another version": (
        edited("THIRD_PARTY_NOTICES.txt", r"- rayon \S+:", "- rayon 0.0.1:"),
        "rayon 0.0.1, which Cargo.lock has not",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_in_one_line(
    crates: ModuleType, tmp_path: Path, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make, expected = FAULTS[fault]
    make(tmp_path)
    assert crates.main(["check"]) == 1
    told = capsys.readouterr().err
    assert expected in told and told.count("\n") == 1


def test_a_crate_without_a_notice_is_told(crates: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        crates, "linked", lambda host_only: [*sorted(crates.noticed()), ("left-pad", "1.0.0")]
    )
    with pytest.raises(crates.Fault, match=r"lacks left-pad 1\.0\.0"):
        crates.check()


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("MIT/GPL-3.0", True),
        ("GPL-3.0 OR MIT", True),
        ("GPL-3.0 AND MIT", False),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("(GPL-3.0 OR Apache-2.0) AND GPL-2.0", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("GPL-2.0 WITH Classpath-exception-2.0", False),
        ("MIT AND (GPL-3.0 OR LGPL-2.1-or-later)", False),
    ],
)
def test_licences_are_judged_as_expressions(crates: ModuleType, expression: str, told: bool) -> None:
    assert crates.allowed(expression, set(crates.rules()["licenses"]["allow"])) is told


def test_the_notices_are_those_of_what_is_linked_and_in_the_package() -> None:
    text = (ROOT / "THIRD_PARTY_NOTICES.txt").read_text()
    for crate in ("arrow-array", "tikv-jemalloc-sys", "zstd-sys", "pyo3", "rayon"):
        assert re.search(rf"^- {crate} \S+: ", text, re.MULTILINE), crate
    for owner in (
        "Jason Evans",
        "Meta Platforms",
        "Apache Arrow",
        "Redistribution and use in source and binary",
    ):
        assert owner in text, owner
    files = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license-files"]
    assert "THIRD_PARTY_NOTICES.txt" in files
    package = Path(ot.__file__).resolve()
    if ROOT in package.parents:
        return  # the checkout itself, not an installed package
    installed = {str(path) for path in importlib.metadata.files("orchestrace") or []}
    assert any(path.endswith("licenses/THIRD_PARTY_NOTICES.txt") for path in installed), installed


def test_every_dependency_has_a_lowest_version_that_can_be_tried() -> None:
    lowest = script("floors").floors()
    assert set(lowest) == {"polars", "numpy", "pyarrow", "scipy", "threadpoolctl", "typer", "rich"}


def starts(path: Path) -> list[list[str]]:
    """The beginnings of the commands of a file that start a Python with code or a module."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.List | ast.Tuple):
            words = [ast.literal_eval(one) if isinstance(one, ast.Constant) else "" for one in node.elts[:4]]
            if {"-m", "-c"} & set(words[1:3]) and not words[0]:
                found.append([str(word) for word in words])
    return found


def test_every_python_that_is_started_leaves_the_current_folder_alone() -> None:
    """With ``-m`` and ``-c`` Python imports from where it is started first, whatever lies there."""
    folders = ("python", ".ci", "benches", "rust/fuzz", "examples")
    found = {
        path: words for folder in folders for path in (ROOT / folder).rglob("*.py") for words in starts(path)
    }
    assert len({path.parent for path in found}) >= 4  # the package, .ci, the site, benches
    assert not {path: words for path, words in found.items() if words[1] != "-P"}
