"""Lets libFuzzer search against every target, as many at once as there are cores, and prints what it did.

FUZZ_SECONDS is how long each target is searched against. FUZZ_RUNS, if it is set, is how often all targets
together are asked instead, by the shares below. FUZZ_TARGETS names some of the targets. What breaks a target
is left in rust/fuzz/artifacts/<target>/; the exit code is then 1.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BINARY = "invariants"
# Parts of FUZZ_RUNS: what is fast gets more. Every importer has the share IMPORTER.
SHARES = {
    "json": 36.0,
    "from_arrow": 8.0,
    "mapping_file": 3.0,
    "tar": 4.0,
    "zip": 4.0,
    "auto": 3.0,
    "decompression": 3.0,
    "chunk_boundary": 1.0,
}
IMPORTER = 2.0
# A mapping that was taken stays for the life of the process.
LONGEST_RUN = {"mapping_file": 50_000}


@dataclass
class Search:
    """What was done against a target."""

    target: str
    executions: int = 0
    seconds: float = 0.0
    crashes: int = 0
    told: str = ""


def build() -> Path:
    """The program with all targets. Stable compilers have the flags that it needs, if asked so."""
    command = ["cargo", "fuzz", "build", "--fuzz-dir", str(HERE), "--sanitizer", "none", "-a", BINARY]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "RUSTC_BOOTSTRAP": "1"}, check=True)
    about = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    (host,) = re.findall(r"^host: (.*)$", about, re.MULTILINE)
    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target"))
    return (ROOT / target / host / "release" / BINARY).resolve()


def targets(program: Path) -> list[str]:
    """Names of the targets, from the program or as the caller says."""
    chosen = os.environ.get("FUZZ_TARGETS", "").split()
    env = {name: value for name, value in os.environ.items() if name != "ORCHESTRACE_FUZZ_TARGET"}
    known = subprocess.run([program], env=env, capture_output=True, text=True, check=True).stdout.split()
    if unknown := set(chosen) - set(known):
        sys.exit(f"fuzz: no target {', '.join(sorted(unknown))}; expected some of {', '.join(known)}")
    return chosen or known


def search(program: Path, target: str, seconds: int, runs: int | None) -> Search:
    """Search against one target until its time is over, its runs are done, or it breaks."""
    corpus, artifacts = HERE / "corpus" / target, HERE / "artifacts" / target
    corpus.mkdir(parents=True, exist_ok=True)
    artifacts.mkdir(parents=True, exist_ok=True)
    before = set(artifacts.iterdir())
    done = Search(target)
    since = time.monotonic()
    left = runs
    while left is None or left > 0:
        now = None if left is None else min(left, LONGEST_RUN.get(target, left))
        bound = f"-max_total_time={seconds}" if now is None else f"-runs={now}"
        options = [bound, "-max_len=4096", "-timeout=20", "-rss_limit_mb=3000", "-print_final_stats=1"]
        command = [program, *options, f"-dict={HERE / 'json.dict'}", f"-artifact_prefix={artifacts}/", corpus]
        shared = Path("/dev/shm")
        env = {**os.environ, "ORCHESTRACE_FUZZ_TARGET": target}
        if shared.is_dir():
            env.setdefault("TMPDIR", str(shared))
        ended = subprocess.run(command, env=env, capture_output=True, check=False)
        told = ended.stderr.decode(errors="replace")
        counted = re.findall(r"stat::number_of_executed_units:\s+(\d+)", told)
        executed = int(counted[-1]) if counted else 0
        done.executions += executed
        if ended.returncode:
            done.told = told[-3000:]
            break
        if left is None:
            break
        left -= max(executed, 1)
    done.seconds = time.monotonic() - since
    done.crashes = len(set(artifacts.iterdir()) - before) or int(bool(done.told))
    return done


def main() -> int:
    program = build()
    chosen = targets(program)
    seconds = int(os.environ.get("FUZZ_SECONDS", "60"))
    wanted = os.environ.get("FUZZ_RUNS")
    shares = {target: SHARES.get(target, IMPORTER) for target in chosen}
    whole = sum(shares.values())

    def one(target: str) -> Search:
        runs = None if wanted is None else -(-int(wanted) * shares[target] // whole)
        found = search(program, target, seconds, None if runs is None else int(runs))
        rate = found.executions / max(found.seconds, 1e-9)
        print(f"{target:24} {found.executions:>11,} {rate:>9,.0f}/s {found.crashes:>3} crashes", flush=True)
        return found

    # The longest first, so that no core waits for one that was begun last.
    chosen.sort(key=lambda target: -shares[target])
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        searches = list(pool.map(one, chosen))
    print(f"\n{'target':24} {'executions':>11} {'execs/s':>9} crashes")
    for found in sorted(searches, key=lambda search: search.target):
        rate = found.executions / max(found.seconds, 1e-9)
        print(f"{found.target:24} {found.executions:>11,} {rate:>9,.0f} {found.crashes:>7}")
    total = sum(found.executions for found in searches)
    crashes = sum(found.crashes for found in searches)
    print(f"{'all':24} {total:>11,} {'':>9} {crashes:>7}")
    for found in searches:
        if found.told:
            print(f"\n{found.target}, see {HERE / 'artifacts' / found.target}:\n{found.told}")
    return int(crashes > 0)


if __name__ == "__main__":
    sys.exit(main())
