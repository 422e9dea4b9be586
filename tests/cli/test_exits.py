"""How commands end: with codes that a script can trust, and a line that says how to go on."""

import os
import shlex
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import orchestrace as ot
from cli.commands import error_line, recordings, run
from cli.examples import EXAMPLES, command_of, commands
from orchestrace import cli

READERS = {
    name: next(line for line in EXAMPLES if command_of(line) == name and ".jsonl" in line)
    for name, command in commands().items()
    if any(param.name == "paths" for param in command.params)
}
"""An example of every command that reads recordings, which are files of its folder."""

NOTHING: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "nothing could be used: the input has no record"),
    "noise": (
        b"noise\n{}\n",
        "nothing could be used of 2 records: 2 quarantined, the first at PATH:1: json.syntax",
    ),
    "parquet": (
        b"PAR1\x15\0\n\n\nPAR1",
        "nothing could be used of 1 record: 1 quarantined, the first at PATH:1: rows.damaged: found no "
        "Parquet file that can be opened: ",
    ),
}


@pytest.mark.every_nth(4)
@pytest.mark.parametrize("content", NOTHING)
@pytest.mark.parametrize("name", READERS)
def test_where_nothing_could_be_used_the_exit_code_says_so(
    name: str, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, message = NOTHING[content]
    line = READERS[name]
    path = next(word for word in line.split() if word.endswith(".jsonl"))
    monkeypatch.chdir(tmp_path)
    Path(path).write_bytes(data)
    Path("house.json").write_text('{"trace": {"id": "/run"}, "step": {"kind": "/k"}}')
    if name == "quarantined" and content != "empty":
        run(*line.split())  # what could not be used is what it is for
        assert Path(line.split()[-1]).stat().st_size > 0
        return
    if name == "grep":  # it searches what is there, and may find nothing
        assert run(*line.split(), code=1).stderr == "no match for 'trace_id'\n"
        return
    result = run(*line.split(), code=1)
    if name == "validate":
        assert result.stdout.splitlines()[-1].endswith("0 traces")
    elif name == "mapping check":  # it says what became of each record
        assert "fields that no key reads" not in result.stdout and result.stderr == ""
    else:
        assert error_line(result).startswith(message.replace("PATH", path))


def test_what_could_be_used_in_part_is_used(tmp_path: Path) -> None:
    path = recordings(tmp_path)
    path.write_text(path.read_text() + "noise\n")
    for name in ("credit", "metrics", "describe"):
        result = run(name, path)
        assert result.stderr == f"1 of 4 records quarantined; to see why: orchestrace validate {path}\n"
        run(name, path, "--strict", code=3)


@pytest.mark.process
@pytest.mark.parametrize("place", ["runs.jsonl", "with blanks and 'quotes'.jsonl"])
def test_the_hint_is_a_command_that_tells_the_same_records(tmp_path: Path, place: str) -> None:
    path = recordings(tmp_path).rename(tmp_path / place)
    path.write_text(path.read_text() + "noise\n{}\n")
    mapping = Path(__file__).resolve().parents[2] / "data" / "importers" / "mapping"
    for options in ([], ["--format", "native"]):
        hint = run("metrics", path, *options).stderr
        program, *command = shlex.split(hint.partition("to see why: ")[2])
        told_by_it = run(*command, code=1).stdout.splitlines()
        assert program == "orchestrace" and command[2:] == options
        assert len(told_by_it) == 3 and told_by_it[-1] == "5 records: 3 used, 2 quarantined; 3 traces"
    house = [mapping / "input.jsonl", "--mapping", mapping / "mapping.json"]
    hint = run("metrics", *house).stderr
    _, *command = shlex.split(hint.partition("to see why: ")[2])
    assert command == ["validate", *map(str, house)]
    count = int(hint.split()[0])
    assert len(run(*command, code=1).stdout.splitlines()) == count + 1
    run("ingest", path, "-o", tmp_path / "corpus")
    hint = run("metrics", tmp_path / "corpus").stderr
    _, *command = shlex.split(hint.partition("to see why: ")[2])
    assert len(run(*command, code=1).stdout.splitlines()) == 3


def test_validate_counts_records_as_records(tmp_path: Path) -> None:
    sessions = Path(__file__).resolve().parents[2] / "data" / "importers" / "claude_code"
    records = ot.read_traces(sessions).records
    shown = run("validate", sessions, code=1).stdout.splitlines()
    assert len(shown) == records["quarantined"] + 1
    counts = ", ".join(f"{count} {what}" for what, count in records.items() if count and what != "read")
    assert shown[-1] == f"{records['read']} records: {counts}; {len(ot.read_traces(sessions))} traces"


def test_errors_name_options_of_the_command(tmp_path: Path) -> None:
    path = recordings(tmp_path)
    several = error_line(run("explain", path, "--id", "lead", code=2))
    assert several.startswith("3 traces have unit 'lead': give --trace, one of '00000000")
    run("export", path, "--to", "jsonl", "-o", tmp_path / "out.jsonl")
    large = error_line(
        run("export", path, "--to", "ocel", "--max-bytes", "5", "-o", tmp_path / "x.json", code=2)
    )
    assert "--trace" in large and "give --max-bytes " in large and "=" not in large
    little = error_line(run("ingest", path, "-o", tmp_path / "corpus", "--memory", "10", code=2))
    assert little == "--memory is 10 bytes, expected at least 64MiB"
    run("credit", path, "--sink", tmp_path / "sink")
    again = error_line(run("credit", path, "--sink", tmp_path / "sink", "--no-resume", code=2))
    assert "give --resume to continue it" in again


def test_warnings_are_one_line(tmp_path: Path) -> None:
    path = recordings(tmp_path, count=1)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = run("credit", path, "--method", "c3")
    (line,) = [line for line in result.stderr.splitlines() if line]
    assert line.startswith("warning: method 'c3' compares the rollouts of a group") and ".py" not in line


def kept(folder: Path) -> int:
    return len(ot.read_corpus(folder)) if (folder / "manifest.json").exists() else 0


@pytest.mark.process
def test_ctrl_c_says_what_an_ingest_keeps_and_how_to_go_on(tmp_path: Path) -> None:
    path, folder = tmp_path / "runs.jsonl", tmp_path / "corpus"
    ot.generate(path, events=400_000, seed=0)
    code = "from orchestrace.cli import main; main()"
    args = [sys.executable, "-c", code, "ingest", path, "-o", folder, "--memory", "64MiB", "--threads", "1"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(args, env=environment, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not kept(folder) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    line = f"stopped: {kept(folder):,} traces kept in {folder}; run the same command again to resume\n"
    assert said.endswith(line) and "Traceback" not in said
    done = subprocess.run(args, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "resumed" in done.stdout, done.stderr


def test_ctrl_c_waits_for_types_that_polars_asks_for() -> None:
    script = """if True:
        import os, signal, time
        from orchestrace.cli.interrupts import hold_back_interrupts

        hold_back_interrupts()
        types = {"__name__": "polars.datatypes.classes", "os": os, "signal": signal}
        exec("def asked(): os.kill(os.getpid(), signal.SIGINT); return 'answered'", types)
        try:
            print(types["asked"](), flush=True)
            time.sleep(10)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        try:
            os.kill(os.getpid(), signal.SIGINT)
            print("not interrupted")
        except KeyboardInterrupt:
            print("at once")
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60
    )
    assert ended.stdout.splitlines() == ["answered", "interrupted", "at once"], ended.stderr


def test_ctrl_c_before_a_verb_runs_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "buffer_output", stopped)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130 and capsys.readouterr().err == "stopped\n"


LOADING = """if True:
    import os, signal, sys

    class Stopping:  # Ctrl-C in the moment in which a module is looked for
        def find_spec(self, name, path=None, target=None):
            if name == MODULE:
                os.kill(os.getpid(), signal.SIGINT)

    sys.meta_path.insert(0, Stopping())
    from orchestrace.cli import main
    main()
"""
"""What the installed script does, which also begins with an import of `orchestrace.cli`."""
MODULES = (
    *("orchestrace._core", "orchestrace.base.namespaces", "orchestrace.cli", "orchestrace.cli.output"),
    *("typer", "orchestrace.cli.application", "orchestrace.cli.commands.metrics", "polars"),
)


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.every_nth(2)
def test_ctrl_c_while_modules_load_is_one_line(tmp_path: Path, module: str) -> None:
    script = tmp_path / "orchestrace"
    script.write_text(LOADING.replace("MODULE", repr(module)))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run(
        [sys.executable, script, "metrics", recordings(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr, ended.stdout) == (130, "stopped\n", "")


@pytest.mark.nightly
@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.1, 0.2, 0.4, 0.7])
def test_ctrl_c_in_the_first_second_is_one_line(tmp_path: Path, seconds: float) -> None:
    script = tmp_path / "orchestrace"
    # Python itself has no word for it before
    begun = "import orchestrace.base.start\nprint('begun', flush=True)\n"
    script.write_text(f"{begun}from orchestrace.cli import main\nmain()\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    args = [sys.executable, script, "metrics", recordings(tmp_path)]
    with subprocess.Popen(
        args, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    # a fast machine may be done by then
    assert (process.returncode, said) in ((130, "stopped\n"), (0, ""))


def test_a_library_leaves_ctrl_c_alone() -> None:
    script = (
        "import signal, orchestrace; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert ended.stdout == "True\n", ended.stderr


def test_ctrl_c_of_other_commands_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_args: object, **_options: object) -> None:
        raise KeyboardInterrupt

    path = recordings(tmp_path)
    for place, command in (("credit.credit", ["credit", path]), ("metrics.metrics", ["metrics", path])):
        monkeypatch.setattr(f"orchestrace.cli.commands.{place}", stopped)
        result = run(*command, code=130)
        assert (result.stderr, result.stdout) == ("stopped\n", "")
    sunk = run("credit", path, "--sink", tmp_path / "sink", code=130).stderr
    assert sunk == f"stopped: what is done is in {tmp_path / 'sink'}; run the same command again to resume\n"
