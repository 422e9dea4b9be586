"""What a release consists of: one version, a workflow of make targets, wheels, sources, sums."""

import json
import re
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import orchestrace as ot

from .test_supply_chain import ROOT, script

VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
WORKFLOW = (ROOT / ".github" / "workflows" / "release.yml").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()


def entries(text: str) -> dict[str, str]:
    """The entries of a YAML file that stand at its left edge, without quotes."""
    return {key: told.strip("\"' ") for key, told in re.findall(r"^([\w-]+):[ \t]*(.*)$", text, re.MULTILINE)}


def test_the_version_is_one() -> None:
    assert ot.__version__ == VERSION
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" in project["dynamic"] and "version" not in project
    for lock in ("Cargo.lock", "rust/fuzz/Cargo.lock", "benches/rust/Cargo.lock"):
        packages = tomllib.loads((ROOT / lock).read_text())["package"]
        own = {one["version"] for one in packages if one["name"] in ("orchestrace-core", "orchestrace-py")}
        assert own == {VERSION}, lock
    for name in ("wheels", "sbom", "sdist"):
        assert sourced(name).version() == VERSION


def test_the_changelog_has_the_version_with_its_day_below_what_is_not_released() -> None:
    heads = re.findall(
        r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert heads[0] == ("Unreleased", "")
    assert heads[1][0] == VERSION and heads[1][1]
    assert entries((ROOT / "CITATION.cff").read_text())["date-released"] == heads[1][1]


def test_the_citation_has_what_readers_of_it_need() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    told = entries(text)
    assert {"cff-version", "message", "title", "authors", "type", "license", "references"} <= set(told)
    assert (told["cff-version"], told["type"], told["version"]) == ("1.2.0", "software", VERSION)
    assert "arXiv:2605.02801" in text


def test_the_security_policy_serves_this_version() -> None:
    policy = (ROOT / "SECURITY.md").read_text()
    assert f"| {'.'.join(VERSION.split('.')[:2])}.x | yes |" in policy


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE))


def test_the_workflow_runs_make_targets_that_exist() -> None:
    used = set(re.findall(r"\bmake ([a-z-]+)", re.sub(r"(?m)^\s*#.*$", "", WORKFLOW)))
    assert used == {"wheels", "wheel-check", "sdist", "sdist-check", "sbom", "checksums"}
    assert used <= targets()


def test_every_target_of_make_is_phony() -> None:
    """None of them is a file, whatever lies in the folder."""
    phony = set(re.findall(r"[a-z-]+", " ".join(re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE))))
    assert phony == targets()


def test_the_workflow_builds_every_target_and_publishes_only_where_it_is_told() -> None:
    assert set(re.findall(r"\b\w+-(?:unknown|apple|pc)-[a-z-]+", WORKFLOW)) == set(sourced("wheels").TARGETS)
    publish = WORKFLOW.partition("\n  publish:\n")[2]
    assert "vars.PUBLISH == 'true'" in publish and "refs/tags/v" in publish
    assert "id-token: write" in publish and "secrets." not in WORKFLOW


def test_the_workflow_is_yaml() -> None:
    read = yaml.safe_load(WORKFLOW)
    jobs = read["jobs"]
    assert set(jobs) == {"linux", "others", "tried", "source", "inventory", "release", "publish"}
    for name, job in jobs.items():
        needs = job.get("needs", [])
        assert {needs} if isinstance(needs, str) else set(needs) <= set(jobs), name
        assert all(("run" in step) != ("uses" in step) for step in job["steps"]), name
    assert set(jobs["inventory"]["needs"]) == {"linux", "others", "tried", "source"}
    assert jobs["release"]["needs"] == "inventory" and jobs["publish"]["needs"] == "release"


def sourced(name: str) -> ModuleType:
    sys.path.insert(0, str(ROOT / ".ci"))  # scripts find their neighbors as they do when they are run
    try:
        return script(name)
    finally:
        sys.path.remove(str(ROOT / ".ci"))


@pytest.fixture(scope="module")
def wheels() -> ModuleType:
    return sourced("wheels")


def wheel(folder: Path, edit: Callable[[dict[str, bytes]], object] = dict, name: str = "") -> Path:
    """A file that passes for a wheel, but for what `edit` does to its entries."""
    about = f"Metadata-Version: 2.4\nName: orchestrace\nVersion: {VERSION}\nRequires-Python: >=3.11\n"
    info = f"orchestrace-{VERSION}.dist-info/"
    files = dict.fromkeys(
        ("orchestrace/__init__.py", "orchestrace/py.typed", "orchestrace/_core.pyi", "orchestrace/_samples/a",
         "orchestrace/_core.abi3.so", f"{info}licenses/LICENSE", f"{info}licenses/THIRD_PARTY_NOTICES.txt",
         f"{info}sboms/a.cyclonedx.json", f"{info}entry_points.txt"), b""
    )  # fmt: skip
    files[f"{info}METADATA"] = about.encode()
    edit(files)
    made = folder / (
        name or f"orchestrace-{VERSION}-cp311-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    )
    with zipfile.ZipFile(made, "w") as opened:
        for one, content in files.items():
            opened.writestr(one, content)
    return made


def test_a_good_wheel_passes(wheels: ModuleType, tmp_path: Path) -> None:
    assert "10 files" in wheels.judge(wheel(tmp_path))


def without(part: str) -> Callable[[dict[str, bytes]], object]:
    return lambda files: [files.pop(name) for name in list(files) if part in name]


def with_file(name: str, content: bytes = b"") -> Callable[[dict[str, bytes]], object]:
    return lambda files: files.update({name: content})


BAD: dict[str, tuple[Callable[[dict[str, bytes]], object], str, str]] = {
    "another version": (dict, "orchestrace-0.0.1-cp311-abi3-win_amd64.whl", "has version 0.0.1"),
    "one Python only": (dict, f"orchestrace-{VERSION}-cp312-cp312-win_amd64.whl", "is for cp312-cp312"),
    "one machine only": (
        dict,
        f"orchestrace-{VERSION}-cp311-abi3-linux_x86_64.whl",
        "runs on this machine only",
    ),
    "no wheel": (dict, "orchestrace.zip", "is not the name of a wheel"),
    "no module": (without("_core.abi3"), "", "has 0 compiled modules"),
    "no notices": (without("NOTICES"), "", "lacks .dist-info/licenses/THIRD_PARTY_NOTICES.txt"),
    "no bill of materials": (without("sboms"), "", "lacks .dist-info/sboms/"),
    "no types": (without("py.typed"), "", "lacks orchestrace/py.typed"),
    "a test": (with_file("tests/a.py"), "", "has tests/a.py"),
    "a cache": (with_file("orchestrace/__pycache__/a.pyc"), "", "which is not of the package"),
    "other metadata": (
        with_file(f"orchestrace-{VERSION}.dist-info/METADATA", b"Version: 9\n"),
        "",
        "says version 9",
    ),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_wheel_is_refused_in_one_line(
    wheels: ModuleType, tmp_path: Path, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    edit, name, expected = BAD[fault]
    assert wheels.main(["check", "--no-install", str(wheel(tmp_path, edit, name))]) == 1
    told = capsys.readouterr().err
    assert expected in told and told.count("\n") == 1


def test_wheels_that_are_too_large_or_absent_are_refused(
    wheels: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = wheel(tmp_path)
    assert wheels.main(["check", "--no-install", str(tmp_path / made.name.replace("x86_64", "aarch64"))]) == 1
    assert "is not there" in capsys.readouterr().err
    monkeypatch.setattr(wheels, "MOST_BYTES", 10)
    with pytest.raises(wheels.Fault, match="expected at most 10"):
        wheels.judge(made)


def test_linux_is_linked_by_zig_and_the_rest_at_home(wheels: ModuleType) -> None:
    call, more = wheels.command("aarch64-unknown-linux-musl", "dist")
    assert call[-3:] == ["--zig", "--compatibility", "musllinux_1_2"] and more == {
        "JEMALLOC_SYS_WITH_LG_PAGE": "16"
    }
    call, more = wheels.command("x86_64-pc-windows-msvc", "dist")
    assert "--zig" not in call and not more
    with pytest.raises(wheels.Fault, match="unknown target 'z80'"):
        wheels.command("z80", "dist")


@pytest.mark.parametrize(
    ("found", "tag", "told"),
    [
        ("manylinux_2_5_x86_64", "manylinux_2_17_x86_64", True),
        ("manylinux_2_17_x86_64", "manylinux_2_17_x86_64", True),
        ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", False),
        ("manylinux_2_5_aarch64", "manylinux_2_17_x86_64", False),
        ("musllinux_1_1_x86_64", "manylinux_2_17_x86_64", False),
    ],
)
def test_policies_are_compared(wheels: ModuleType, found: str, tag: str, told: bool) -> None:
    assert wheels._is_older(found, tag) is told


@pytest.fixture
def bill(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    """The script, and the one that it asks for crates; what cargo says is what the notices say."""
    module = sourced("sbom")
    monkeypatch.setattr(module.crates, "linked", lambda host_only: sorted(module.crates.noticed()))
    return module, module.crates


def test_the_bill_of_materials_has_every_crate_that_is_linked(
    bill: tuple[ModuleType, ModuleType], tmp_path: Path
) -> None:
    module, crates = bill
    assert module.main(["--out", str(tmp_path)]) == 0
    (path,) = tmp_path.iterdir()
    made: dict[str, Any] = json.loads(path.read_text())
    components = {one["purl"]: one for one in made["components"]}
    wanted = {f"pkg:cargo/{name}@{told}" for name, told in crates.noticed()}
    assert wanted == {url for url in components if url.startswith("pkg:cargo/")} and len(wanted) > 60
    sums = {one.get("checksum") for one in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]}
    for url in wanted:
        assert components[url]["hashes"][0]["content"] in sums
        assert "/" not in components[url]["licenses"][0]["expression"]
    direct = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {one["name"] for one in made["components"]}
    assert {re.split(r"[>=<]", one)[0] for one in direct} <= names
    assert made["metadata"]["component"]["version"] == VERSION
    refs = {one["ref"] for one in made["dependencies"]}
    assert {on for one in made["dependencies"] for on in one["dependsOn"]} <= refs | set(components)


def test_the_bill_of_materials_is_the_same_twice(bill: tuple[ModuleType, ModuleType]) -> None:
    assert bill[0].bill() == bill[0].bill()


def test_a_crate_without_a_license_is_told(
    bill: tuple[ModuleType, ModuleType], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, crates = bill
    monkeypatch.setattr(crates, "recorded", dict)
    assert module.main([]) == 1
    assert "is not in crates.csv" in capsys.readouterr().err


def test_the_sources_carry_the_settings_of_the_build() -> None:
    carried = script("sdist").CARRIED
    assert ".cargo/config.toml" in carried
    assert [name for name in carried if not (ROOT / name).is_file()] == []
    assert tomllib.loads(script("sdist").SOURCES)["source"]["vendored-sources"] == {"directory": "vendor"}
