"""The command line: what it prints where, what it writes, and its exit codes."""

import io
import json
import os
import subprocess
import sys

import polars as pl
import pytest
from typer.testing import CliRunner

import orchestrace as ot
from orchestrace.base.schema import CREDITS
from orchestrace.cli import app

GOOD = {
    "trace_id": "x",
    "task_id": "q",
    "events": [
        {"id": "e1", "t": 0, "type": "message", "agent": "[red]lead", "to": "w"},
        {"id": "e2", "t": 1, "type": "return", "agent": "w\x1b[2J"},
    ],
    "edges": [{"src": "e1", "dst": "e2", "type": "message"}],
    "rewards": {"team": 1, "form": 0.5},
    "costs": {"tokens": 3, "wall_clock_s": 2},
}


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.jsonl"
    path.write_text(json.dumps(GOOD) + "\n")
    return str(path)


@pytest.fixture
def bad(tmp_path):
    path = tmp_path / "bad.jsonl"
    wrong = GOOD | {"costs": {"tokens": -1, "wall_clock_s": 2}}
    path.write_text("\n".join([json.dumps(GOOD), "{broken", json.dumps(wrong)]) + "\n")
    return str(path)


def run(*args, code=0, stdin=None, columns=160):
    result = CliRunner().invoke(app, list(args), input=stdin, env={"COLUMNS": str(columns)})
    assert result.exit_code == code, result.output
    return result


def test_validate_accepts(good):
    assert run("validate", good).stdout == "1 record: 1 used; 1 trace\n"


def test_validate_says_where_and_why(bad, good):
    lines = run("validate", good, bad, code=1).stdout.splitlines()
    assert lines[0].startswith(f"{bad}:2: json.syntax")
    assert lines[1].startswith(f"{bad}:3: field.minimum /costs/tokens: ")
    assert lines[2:] == ["4 records: 1 used, 1 duplicate, 2 quarantined; 1 trace"]
    rows = json.loads(run("validate", bad, "--json", code=1).stdout)
    assert [row["code"] for row in rows] == ["json.syntax", "field.minimum"]


def test_validate_reads_what_the_other_commands_read(tmp_path):
    other = tmp_path / "other.json"
    other.write_text(
        '{"history": [{"role": "human", "content": "x"}], "mistake_agent": "A", "mistake_step": "0"}'
    )
    assert run("validate", str(other)).stdout == "1 record: 1 used; 1 trace\n"
    native = run("validate", str(other), "--format", "native", code=1).stdout
    assert native.splitlines()[-1] == "1 record: 1 quarantined; 0 traces"


def test_validate_reads_standard_input(good):
    with open(good) as file:
        assert "1 used" in run("validate", "-", stdin=file.read()).stdout


def test_nothing_to_validate_is_a_failure(tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    run("validate", str(empty), code=1)


def test_names_cannot_act_on_the_terminal(good):
    out = run("credit", good, "--unit", "agent").stdout
    assert "[red]lead" in out
    assert "w\\x1b[2J" in out
    assert "\x1b[2J" not in out


def test_credit_as_json_and_parquet(good, tmp_path):
    target = tmp_path / "credits.parquet"
    args = ["credit", good, "--method", "flow", "--unit", "agent", "-P", "retention=0.2"]
    rows = json.loads(run(*args, "--json").stdout)
    assert sum(row["credit"] for row in rows) == pytest.approx(1.0)
    assert json.loads(rows[0]["params"])["retention"] == 0.2
    run(*args, "-o", str(target))
    assert pl.read_parquet(target).columns == CREDITS.names()
    weighted = json.loads(run(*args, "--reward", "team=0.5", "--reward", "form", "--json").stdout)
    assert sum(row["credit"] for row in weighted) == pytest.approx(1.0)
    assert weighted[0]["reward"] == "1.0*form + 0.5*team"


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["credit", "GOOD", "--method", "flwo"], 2, "flow"),
        (["credit", "GOOD", "-P", "retention"], 2, "NAME=VALUE"),
        (["credit", "GOOD", "-P", "seed=3"], 2, "'seed' is an option"),
        (["credit", "GOOD", "--reward", "team=much"], 2, "'much' is not a number"),
        (["credit", "GOOD", "-o", "out.csv"], 2, ".parquet"),
        (["credit", "GOOD", "-o", "/no/such/folder/out.parquet"], 1, "/no/such/folder"),
        (["describe", "/no/such/file"], 1, "no such file or folder: '/no/such/file'"),
        (["describe", "/no/such/*.json"], 1, "no file matches '/no/such/*.json'"),
        (["describe", "GOOD", "--format", "natif"], 2, "native"),
        (["generate", "OUT", "--preset", "mixt"], 2, "mixed"),
        (["metrics", "GOOD", "--by", "agents"], 2, "agent"),
    ],
)
def test_errors_of_the_user_are_one_line(args, code, message, good, tmp_path):
    args = [good if a == "GOOD" else str(tmp_path / "out") if a == "OUT" else a for a in args]
    result = run(*args, code=code)
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert result.stdout == ""


def test_usage_is_exit_code_2():
    run("credit", code=2)
    run("no-such-command", code=2)


def test_strict_fails_late(bad):
    assert json.loads(run("describe", bad, "--json").stdout)["quarantine"]
    result = run("describe", bad, "--json", "--strict", code=3)
    assert json.loads(result.stdout)["tables"][0] == {"table": "traces", "rows": 1}
    assert "2 of 3 records quarantined" in result.stderr
    run("credit", bad, "--strict", code=3)


def test_report_fits_a_terminal(bad):
    result = CliRunner().invoke(app, ["describe", bad], env={"COLUMNS": "70"})
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 70
    assert "json.syntax" in result.stdout


def test_generate_writes_what_reads_back(tmp_path):
    target = tmp_path / "made.jsonl"
    counts = json.loads(run("generate", str(target), "--traces", "7", "--seed", "1", "--json").stdout)
    assert counts["traces"] == 7
    assert len(ot.read_traces(target)) == 7
    again = ["generate", str(target), "--traces", "7", "--seed", "1"]
    assert "exists; give --force to replace it" in run(*again, code=1).stderr
    assert "7 traces" in run(*again, "--force").stdout


def test_methods_and_importers():
    assert "flow" in run("methods").stdout
    assert {"flow", "grpo"} <= {row["name"] for row in json.loads(run("methods", "--json").stdout)}
    assert "native" in run("importers").stdout


def test_demo_shows_and_writes(tmp_path):
    folder = tmp_path / "demo"
    out = run("demo", "-o", str(folder)).stdout
    for word in ("traces", "events", "quarantine", "credits_flow", "credits_grpo"):
        assert word in out
    written = {path.stem for path in folder.glob("*.parquet")}
    assert {"traces", "events", "edges", "quarantine", "credits_flow", "credits_grpo"} <= written
    assert pl.read_parquet(folder / "quarantine.parquet").height > 0
    assert f"A page of the runs is in {folder / 'runs.html'}." in out
    assert "<html" in (folder / "runs.html").read_text()


def test_version():
    assert run("--version").stdout.strip() == ot.__version__


COMMAND = [sys.executable, "-c", "from orchestrace.cli import main; main()"]


def test_a_closed_pipe_is_quiet(good):
    process = subprocess.Popen(
        [*COMMAND, "credit", good, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ),
    )
    process.stdout.close()
    error = process.stderr.read().decode()
    process.stderr.close()
    assert (process.wait(60), error) == (1, "")


@pytest.mark.parametrize(
    "args",
    [
        ["describe", "GOOD", "--threads", str(2**70)],
        ["describe", "GOOD", "--threads", "1025"],
        ["credit", "GOOD", "--seed", str(2**63)],
        ["generate", "OUT", "--traces", str(2**70)],
        ["generate", "OUT", "--events", str(10**12 + 1)],
    ],
)
def test_numbers_out_of_range_are_usage_errors(args, good, tmp_path):
    args = [good if a == "GOOD" else str(tmp_path / "out") if a == "OUT" else a for a in args]
    result = run(*args, code=2)
    assert "less than or equal to" in result.stderr
    assert not (tmp_path / "out").exists()


def test_closed_standard_input_is_one_line():
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, "validate", "-"], capture_output=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.endswith(b"error: standard input is closed\n")
    assert b"Traceback" not in done.stderr


def test_compare_puts_methods_into_one_table(good):
    done = run(
        "compare", good, "--method", "uniform", "--method", "flow:kernel=edge_type,retention=0.2", "--json"
    )
    rows = json.loads(done.stdout)
    assert [row["method"] for row in rows] == ["uniform", "flow"]
    assert json.loads(rows[1]["params"])["retention"] == 0.2
    assert [row["error"] for row in rows] == [None, None]
    every = json.loads(run("compare", good, "--json", "--unit", "turn").stdout)
    assert [row["method"] for row in every] == ot.list_methods()["name"].to_list()
    assert "did you mean 'flow'" in run("compare", good, "--method", "flwo", code=2).stderr
    assert "expected NAME=VALUE" in run("compare", good, "--method", "flow:kernel", code=2).stderr


def test_explain_shows_what_made_a_credit(good):
    done = run("explain", good, "--id", "[red]lead", "-P", "retention=0.25", "--json")
    rows = json.loads(done.stdout)
    assert [row["kind"] for row in rows] == ["value", "edge"]
    assert rows[0]["amount"] == 0.75 and rows[1]["other"] == "e2"
    assert "e1" in run("explain", good, "--id", "[red]lead", "--trace", "x", "--method", "uniform").stdout
    assert run("explain", good, "--id", "[red]lead", "--trace", "0", "--reward", "form", "--json").stdout
    assert "no row of unit 'ghost'" in run("explain", good, "--id", "ghost", code=2).stderr
    assert "option of its own" in run("explain", good, "--id", "w", "-P", "unit=3", code=2).stderr


# --- replay -----------------------------------------------------------------------------------------------

FORK = GOOD | {
    "events": [
        {"id": "e0", "t": 0, "type": "orchestrator_decision", "agent": "lead"},
        {"id": "e1", "t": 1, "type": "message", "agent": "ann", "to": "lead", "score": 0.6},
        {"id": "e2", "t": 2, "type": "message", "agent": "bob", "to": "lead", "score": 0.9},
        {"id": "e3", "t": 3, "type": "aggregate", "agent": "lead", "score": 0.8},
    ],
    "edges": [
        {"src": src, "dst": dst, "type": "causal"}
        for src, dst in (("e0", "e1"), ("e0", "e2"), ("e1", "e3"), ("e2", "e3"))
    ],
}


@pytest.fixture
def fork(tmp_path):
    path = tmp_path / "fork.jsonl"
    path.write_text(json.dumps(FORK) + "\n")
    return str(path)


def test_replay_shows_effects_with_their_tiers(fork):
    shown = run("replay", fork, "--drop", "agent=ann", "--each", "agent", "--aggregate", "best").stdout
    assert "effects on the outcome: 5 rows" in shown
    for word in ("drop(agent='ann')", "-0.22", "surrogate", "observed", "gate.unstable", "effect", "bounds"):
        assert word in shown, word


def test_replay_shows_the_answer_on_a_narrow_terminal(fork):
    shown = run("replay", fork, "--each", "agent", "--slots", "1,2", columns=80).stdout
    effects, schedules = shown.split("schedules:")
    assert "effects on the outcome of drop(each='agent'): 3 rows" in effects
    for word in ("unit_id", "effect", "tier", "reason", "bounds", "gate.unstable", "-0.8..0"):
        assert word in effects, word
    for word in ("concurrency(2)", "makespan_cf", "tier", "schedule"):
        assert word in schedules, word


def test_replay_with_what_is_faster(fork):
    rows = json.loads(run("replay", fork, "--speed-up", "agent=bob:2", "--slots", "2", "--json").stdout)
    assert [row["intervention"] for row in rows] == ["speed_up(2, agent='bob')", "concurrency(2)"]
    assert [row["tier"] for row in rows] == ["schedule"] * 2
    assert rows[0]["makespan_cf"] < rows[0]["makespan"]


def test_replay_shows_the_tier_beside_the_longest_names(fork):
    shown = run("replay", fork, "--drop", "agent=ann", "--slots", "1,2", "--together", columns=80).stdout
    assert "makespan_cf" in shown and "schedule " in shown


def test_bars_count_bytes_only_where_bytes_are_read(fork, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    drawn = Terminal()
    monkeypatch.setattr(sys, "stderr", drawn)
    corpus = ot.read_traces(fork, progress=True)
    assert "bytes" in drawn.getvalue() or "KiB" in drawn.getvalue()
    monkeypatch.setattr(sys, "stderr", drawn := Terminal())
    ot.replay(corpus, ot.interventions.drop(each="agent"), progress=True)
    assert "1/1" in drawn.getvalue() and "bytes" not in drawn.getvalue()


def test_replay_as_json_and_as_a_file(fork, tmp_path):
    asked = ["--drop", "edge=e1->e3", "--set", "event=e1:1", "--truncate", "1", "--truncate", "event=e2"]
    path = tmp_path / "out.parquet"
    result = run("replay", fork, *asked, "--outcome", "mean", "--json", "-o", str(path))
    rows = json.loads(result.stdout)
    assert [row["intervention"] for row in rows] == [
        "drop(edge=('e1', 'e3'))",
        "do(event='e1', to=1.0)",
        "truncate(at=1.0)",
        "truncate(event='e2')",
    ]
    assert [round(row["effect"], 12) for row in rows] == [-0.3, 0.2, -0.45, 0]
    scenarios = [
        ot.interventions.drop(edge=("e1", "e3")),
        ot.interventions.do(event="e1", to=1),
        ot.interventions.truncate(at=1),
    ]
    table = ot.replay(ot.read_traces(fork), *scenarios, ot.interventions.truncate(event="e2"), outcome="mean")
    assert pl.read_parquet(path).equals(table)


def test_replay_on_slots_and_at_once(fork):
    rows = json.loads(run("replay", fork, "--slots", "1,none", "--each", "agent", "--json").stdout)
    assert [row["tier"] for row in rows] == ["surrogate"] * 3 + ["schedule"] * 2
    both = ["--drop", "agent=ann", "--drop", "agent=bob", "--mode", "node", "--together", "--json"]
    (row,) = json.loads(run("replay", fork, *both).stdout)
    assert row["intervention"] == "drop(agent='ann', mode='node') & drop(agent='bob', mode='node')"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "nothing to replay: give --drop"),
        (["--drop", "ann"], "--drop 'ann', expected something like agent=NAME"),
        (["--drop", "agnet=ann"], "did you mean 'agent'"),
        (["--drop", "agent=anne"], "unknown agent 'anne'; did you mean 'ann'"),
        (["--drop", "edge=e1"], "expected the ids of two events"),
        (["--each", "agents"], "did you mean 'agent'"),
        (["--each", "agent", "--mode", "tree"], "expected 'subtree' or 'node'"),
        (["--set", "agent=ann"], "expected something like agent=NAME:0.5"),
        (["--set", "agent=ann:x"], "'x' is not a number"),
        (["--set", "edge=a:1"], "unknown selection in --set 'edge'"),
        (["--speed-up", "agent=ann"], "--speed-up 'agent=ann', expected something like agent=NAME:2"),
        (["--speed-up", "agnet=ann:2"], "did you mean 'agent'"),
        (["--speed-up", "agent=ann:0"], "--speed-up is 0"),
        (["--speed-up", "agent=anne:2"], "unknown agent 'anne'; did you mean 'ann'"),
        (["--truncate", "soon"], "--truncate: 'soon' is not a number"),
        (["--aggregate", "median"], "expected 'best', 'majority', 'mean' or 'confidence'"),
        (["--slots", "1,x"], "expected whole numbers and none"),
        (["--slots", "0"], "--slots has 0, expected a whole number from 1"),
        (["--each", "agent", "--outcome", "nand"], "unknown outcome 'nand'"),
    ],
)
def test_replay_tells_mistakes_in_one_line(fork, options, message):
    result = run("replay", fork, *options, code=2)
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: ") and message in line, line
    assert result.stdout == ""


def test_metrics_by_whatever_is_asked(good, tmp_path):
    rows = json.loads(run("metrics", good, "--by", "trace", "--json").stdout)
    assert len(rows) == 1 and rows[0]["n_events"] == 2
    means = json.loads(run("metrics", good, "--group", "span", "--json").stdout)
    assert {row["metric"] for row in means} >= {"span", "parallelism"}
    out = tmp_path / "agents.parquet"
    run("metrics", good, "--by", "agent", "-o", str(out))
    assert pl.read_parquet(out)["n_events"].sum() == 2


def test_survey_shows_and_writes_its_tables(tmp_path):
    fields = "category,is_rl,reward_type,credit_granularity,orchestration_form,scenario,is_core,verified"
    pool = tmp_path / "papers.csv"
    pool.write_text(f"key,{fields}\na,rl_method,yes,shared,agent,swarm,math,core,yes\n")
    (tmp_path / "excluded.csv").write_text("record_id,stage,source,query_family\nE1,screen,arXiv,safety\n")
    shown = run("survey", str(tmp_path)).stdout
    assert "headline: 3 rows" in shown and "audited" in shown and "effects.spawn" in shown
    assert "300 more rows" in shown  # of the 320 cells
    tables = json.loads(run("survey", str(tmp_path), "--json").stdout)
    assert tables["headline"][2] == {"what": "audited", "records": 2}
    assert len(tables["cells"]) == 320
    out = tmp_path / "tables"
    assert (
        run("survey", str(tmp_path), "-o", str(out)).stdout == f"wrote {len(tables)} Parquet files to {out}\n"
    )
    assert {path.stem for path in out.iterdir()} == set(tables)
    assert pl.read_parquet(out / "headline.parquet")["records"].to_list() == [1, 1, 2]
    assert "is not empty" in run("survey", str(tmp_path), "-o", str(out), code=2).stderr
    pool.write_text(f"key,{fields.replace('verified', 'checked')}\n")
    broken = run("survey", str(tmp_path), code=1).stderr
    assert broken.startswith(f"error: {pool} has no column 'verified'") and broken.count("\n") == 1
