"""The action of the gate: its shape, and its script with the command itself, for each verdict."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from samples.paired_runs import Outcomes, alike, written

ACTION: dict[str, Any] = yaml.safe_load(
    (Path(__file__).resolve().parents[2] / ".github" / "actions" / "gate" / "action.yml").read_text()
)
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]


def test_the_action_is_a_composite_one_whose_inputs_all_reach_the_script() -> None:
    assert ACTION["runs"]["using"] == "composite"
    passed = {value for step in STEPS for value in step["env"].values()}
    assert passed == {f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"]}
    for step in STEPS:
        # text of a caller in a script would be code there
        assert step["shell"] == "bash" and "${{" not in step["run"]
    assert ACTION["outputs"]["verdict"]["value"] == "${{ steps.gate.outputs.verdict }}"
    assert {name for name, one in ACTION["inputs"].items() if one.get("required")} == {"base", "new"}
    assert all("default" in one or one.get("required") for one in ACTION["inputs"].values())


@pytest.mark.skipif(sys.platform == "win32", reason="the script is of bash")
@pytest.mark.process
@pytest.mark.parametrize(
    ("new", "inputs", "code", "verdict"),
    [
        (alike()[1], {"margin": "0.1"}, 0, "pass"),
        ({task: [0.0, 0.0] for task in alike()[0]}, {}, 1, "fail"),
        (alike()[1], {"margin": "0.001"}, 2, "inconclusive"),
        (alike()[1], {"margin": "0.001", "inconclusive": "warn"}, 0, "inconclusive"),
        (alike(40)[1], {}, 4, "refused"),
        (
            alike(40)[1],
            {"options": "--allow\ntasks", "metric": "success\ntokens", "margin": "0.2"},
            0,
            "pass",
        ),
    ],
)
def test_the_script_gives_the_verdict(
    new: Outcomes, inputs: dict[str, str], code: int, verdict: str, tmp_path: Path
) -> None:
    written(tmp_path / "base.jsonl", alike()[0])
    written(tmp_path / "new $(touch evil).jsonl", new, shift=0.5)
    command = tmp_path / "bin" / "orchestrace"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m orchestrace.cli "$@"\n')
    command.chmod(0o755)
    inputs = {"base": "base.jsonl", "new": "new $(touch evil).jsonl", "junit": "gate.xml", **inputs}
    values = {name: inputs.get(name, one.get("default", "")) for name, one in ACTION["inputs"].items()}
    script = STEPS[1]
    env = {name: values[text.split("inputs.")[1].split(" ")[0]] for name, text in script["env"].items()}
    files = {"GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script["run"]],
        cwd=tmp_path,
        env={**os.environ, **env, **files, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == code, done.stderr
    assert (tmp_path / "output").read_text() == f"verdict={verdict}\n"
    assert not (tmp_path / "evil").exists()
    if verdict == "refused":
        assert not (tmp_path / "summary").exists() and not (tmp_path / "gate.xml").exists()
    else:
        assert (tmp_path / "summary").read_text().startswith(f"### orchestrace gate: {verdict}\n")
        assert ElementTree.parse(tmp_path / "gate.xml").getroot().tag == "testsuites"
