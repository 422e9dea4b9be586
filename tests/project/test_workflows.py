"""Workflows: what they run of others is named by commit, and what may sign or publish runs nothing else."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())


def jobs() -> dict[str, dict[str, Any]]:
    """All jobs, by the file and their names."""
    return {
        f"{path.name} {name}": job
        for path in WORKFLOWS
        for name, job in yaml.safe_load(path.read_text())["jobs"].items()
    }


def test_the_workflows_are_those_that_the_documents_name() -> None:
    assert [path.name for path in WORKFLOWS] == ["check.yml", "nightly.yml", "release.yml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_named_by_a_commit_and_say_which_version_it_is(path: Path) -> None:
    """A tag or a branch of somebody else is other code tomorrow."""
    lines = [line for line in path.read_text().splitlines() if re.search(r"^\s*-?\s*uses:", line)]
    steps = [step for name, job in jobs().items() if name.startswith(path.name) for step in job["steps"]]
    assert len(lines) == sum("uses" in step for step in steps) >= 2
    for line in lines:
        assert re.fullmatch(r"\s*- uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
    found: dict[str, set[str]] = {}
    for line in lines:
        name, _, pinned = line.partition("uses: ")[2].partition("@")
        found.setdefault(name, set()).add(pinned)
    assert all(len(pins) == 1 for pins in found.values()), found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_may_read_alone_and_keep_no_credentials(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}
    for name, job in jobs().items():
        for step in job["steps"]:
            if "actions/checkout@" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False, name


def test_jobs_that_sign_or_publish_install_and_build_nothing() -> None:
    """What runs there could sign anything."""
    signing = {name: job for name, job in jobs().items() if "id-token" in job.get("permissions", {})}
    assert set(signing) == {"release.yml release", "release.yml publish"}
    for name, job in signing.items():
        commands = [step["run"] for step in job["steps"] if "run" in step]
        assert not re.search(r"\b(pip|cargo|make|npm|curl|wget|python)\b", "\n".join(commands)), (
            name,
            commands,
        )
        assert not any("checkout" in step.get("uses", "") for step in job["steps"]), name
    others = [job for name, job in jobs().items() if name not in signing]
    assert not any("permissions" in job for job in others)


def test_a_change_is_checked_by_make_targets_side_by_side() -> None:
    checks = {name: job for name, job in jobs().items() if name.startswith("check.yml")}
    called = [
        step["run"] for job in checks.values() for step in job["steps"] if "make " in step.get("run", "")
    ]
    assert called == ["make style lint", "make test-rust", "make test-python", "make site", "make gate"]
    assert not any("needs" in job for job in checks.values())
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {target for line in called for target in line.split()[1:]} <= set(targets)
    events = yaml.safe_load(WORKFLOWS[0].read_text())[True]  # YAML 1.1 takes `on` for true
    assert set(events) == {"push", "pull_request"}


def test_caches_are_those_of_the_lock_file() -> None:
    cached = [
        step["with"]
        for job in jobs().values()
        for step in job["steps"]
        if "actions/cache@" in step.get("uses", "")
    ]
    assert len(cached) == 5 and len({one["key"] for one in cached}) == 5
    for one in cached:
        assert one["path"].split() == ["~/.cargo/registry", "target"]
        assert "hashFiles('Cargo.lock')" in one["key"]
