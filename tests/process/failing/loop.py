"""Every call of a command fails once: `python -m process.failing.loop --help`, in the folder of tests.

A process that has imported the package, and has no thread, forks for each call that fails: once for the
command, and once for who comes after it, who reads what is there, gives the same command again, and reads
again. The second is left out where another call left the same files.
"""

import argparse
import collections
import errno
import gc
import importlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from orchestrace import cli
from orchestrace.base.errors import OrchestraceError
from orchestrace.base.process import polars_has_threads
from process.failing.control import Control, Fault, compiled
from process.failing.scenarios import SCENARIOS, Scenario, State, digest
from samples import on_disk

FAULTS: Final = (
    Fault("change", "kill"),
    Fault("write", "fail", errno.ENOSPC),
    Fault("write", "torn", errno.EIO),
    Fault("sync", "fail", errno.EIO),
    Fault("sync", "drop"),
    Fault("rename", "fail", errno.EIO),
    Fault("truncate", "fail", errno.ENOSPC),
    Fault("unlink", "fail", errno.EACCES),
    Fault("mkdir", "fail", errno.ENOSPC),
    Fault("copy", "fail", errno.ENOSPC),
    Fault("copy", "torn", errno.EIO),
    Fault("list", "fail", errno.EMFILE),
    Fault("lock", "fail", errno.ENOLCK),
    Fault("map", "fail", errno.ENOMEM),
    Fault("open", "fail", errno.EMFILE),
    Fault("read", "fail", errno.EIO),
    Fault("close", "fail", errno.EIO),
    Fault("stat", "fail", errno.EIO),
    Fault("memory", "fail", errno.ENOMEM),
)
"""A call that fails once, or is the last one."""
VARIANTS: Final = (
    Fault("write", "fail", errno.ENOSPC, lasting=True),
    Fault("sync", "fail", errno.EIO, lasting=True),
    Fault("rename", "fail", errno.ENOSPC, lasting=True),
    Fault("unlink", "fail", errno.EACCES, lasting=True),
    Fault("open", "fail", errno.EACCES, lasting=True),
    Fault("read", "fail", errno.EIO, lasting=True),
    Fault("write", "fail", errno.EINTR),
    Fault("write", "short"),
    Fault("sync", "fail", errno.EINTR),
    Fault("open", "fail", errno.EINTR),
    Fault("read", "fail", errno.EINTR),
    Fault("read", "short"),
)
"""All later calls of the kind fail too; and what is no fault, but a call that has to be gone on with."""
MODULES: Final = ("ingest", "credit", "export", "plan", "run_task", "reduce", "view")
SECONDS: Final = 120
ANOTHER: Final = re.compile(r"\Aerror: [^\n]*(into another folder|choose another)\n\Z")
"""How a command refuses to go on with what lies in a folder, in one line."""


@dataclass
class Trial:
    """One command of which a call failed."""

    fault: Fault
    number: int
    where: str
    is_of_worker: bool
    """Whether it was a process that the command had started."""
    command: str
    """How it ended."""
    found: str
    """What one read afterwards."""
    faults: list[str] = field(default_factory=list)
    """What is wrong with that."""

    def __str__(self) -> str:
        ended = f"{self.command}; {self.found}; {'; '.join(self.faults)}"
        return f"{self.fault} #{self.number} ({self.where}): {ended}"


class Loop:
    """The folder, the library and the commands."""

    def __init__(self, scenario: Scenario, control: Control, folder: Path, least: int) -> None:
        self._scenario = scenario
        self._control = control
        self._least = least
        self._work = folder / "work"
        self._begin = folder / "begin"
        self._aside = folder / "aside"
        self._judgements: dict[frozenset[tuple[str, str]], dict[str, Any]] = {}
        """What came after a command, by the files that it left."""
        self._aside.mkdir(parents=True, exist_ok=True)
        for path in (self._work, self._begin):
            shutil.rmtree(path, ignore_errors=True)
        self._work.mkdir()
        self._in_child(lambda: scenario.prepare(self._work))
        os.replace(self._work, self._begin)
        self.before = self._undisturbed(is_run=False)
        self.after = self._undisturbed(is_run=True)
        self.counts = self._counted()
        """How many calls of each kind the command makes."""

    def _restore(self) -> None:
        shutil.rmtree(self._work, ignore_errors=True)
        shutil.copytree(self._begin, self._work)

    def _undisturbed(self, *, is_run: bool) -> Any:
        self._restore()
        if is_run:
            ended = self._in_child(self._command, is_first=True)
            assert ended["exit"] == 0, ended
            self._import(ended)
        read = self._in_child(self._reading, is_first=True)
        self._import(read)
        return read["state"]

    def _import(self, ended: dict[str, Any]) -> None:
        """Import what a child had to import, so that no other child has to."""
        for module in ended["modules"]:
            with suppress(ImportError):
                importlib.import_module(module)
        gc.collect()
        gc.freeze()

    def _counted(self) -> dict[str, int]:
        self._restore()
        self._control.arm(self._work, FAULTS[0], 0, self._least)
        self._in_child(self._command)
        self._control.disarm()
        return self._control.counts

    def trials(self, fault: Fault, first: int, step: int) -> Iterator[Trial]:
        """The command again and again, until it makes fewer calls than the one that is to fail; of a sample
        until it made fewer before."""
        number = first
        while step == 1 or number <= self.counts[fault.kind]:
            trial = self.tried(fault, number)
            if trial is None:
                break
            yield trial
            number += step

    def tried(self, fault: Fault, number: int) -> Trial | None:
        """The command, of which this call fails; null where it did not come so far."""
        self._restore()
        self._control.arm(self._work, fault, number, self._least)
        ended = self._in_child(self._command)
        self._control.disarm()
        if not self._control.fired:
            return None
        if fault.action in ("kill", "drop"):
            self._cut_power()
        where = self._control.where.replace(str(self._work), "")
        is_of_worker = self._control.pid != ended["pid"]
        trial = Trial(fault, number, where, is_of_worker, described(ended), "")
        if not (is_of_worker and fault.action == "kill"):  # the task of a worker that died is begun again
            trial.faults += misbehaviour(ended, fault)
        left = self._left()
        if left not in self._judgements:
            self._judgements[left] = self._in_child(self._aftermath)
        after = self._judgements[left]
        if "state" not in after:
            trial.found = described(after)
            trial.faults.append(f"who comes after it failed: {after['text'][-600:]}")
            return trial
        trial.found = self._judged(after, ended, trial)
        return trial

    def _judged(self, after: dict[str, Any], ended: dict[str, Any], trial: Trial) -> str:
        """What one reads, in words; what is wrong with that is added to the faults of the trial."""
        fault, faults, where = trial.fault, trial.faults, trial.where
        state = after["state"]
        if after["again"]["exit"] != 0:
            # What a disk lost that had said it was written, a manifest may name and not hold.
            if not (fault.action == "drop" and ANOTHER.search(after["text"])):
                faults.append(f"the same call again fails: {after['text'][-600:]}")
        elif after["mended"] != self.after and not (fault.action == "drop" and "/index/" in where):
            # Without an index, traces get the numbers of a new corpus.
            faults.append(
                f"the same call again gives something else{differences(after['mended'], self.after)}"
            )
        # Others may write to the same place, so nobody removes what a process left there that was killed.
        may_stay = not self._scenario.is_alone and (ended["exit"] < 0 or fault.kind == "unlink")
        if after["untidy"] and not may_stay:
            faults.append(f"leftovers: {after['untidy'][-300:]}")
        if state == self.after:
            return "as after"
        if ended["exit"] == 0 and fault.action != "drop":
            faults.append("the call said that all is well")
        if state == self.before:
            return "as before"
        if isinstance(state, str):
            if "\n" in state:
                faults.append(f"not one line: {state}")
            if fault.action != "drop" and not isinstance(self.before, str):
                faults.append(f"it is damaged: {state}")
            return "one line"
        if fault.action == "drop" and self._scenario.reconcile is None:
            return "damaged"  # a file by itself says nothing of its bytes; the same call makes it anew
        begun = {} if isinstance(self.before, str) else self.before
        if self._scenario.is_stepwise and is_between(state, begun, self.after):
            return "in part"
        faults.append(f"it reads differently{differences(state, self.after)}")
        return "differently"

    def _left(self) -> frozenset[tuple[str, str]]:
        """Every file and folder that is there; who writes a temporary one does not matter."""
        return frozenset(
            (
                re.sub(r"\.[0-9a-f]{16}\.", ".", path.relative_to(self._work).as_posix()),
                digest(path.read_bytes()) if path.is_file() else "",
            )
            for path in self._work.rglob("*")
        )

    def _cut_power(self) -> None:
        """Take the bytes that no fsync covers."""
        unsynced = self._control.unsynced
        for path in self._work.rglob("*"):
            if path.is_file() and path.stat().st_ino in unsynced:
                os.truncate(path, path.stat().st_size // 2)

    # --- in a child ---

    def _command(self) -> dict[str, Any]:
        if self._scenario.room is not None:
            on_disk.make_small(setattr, room=self._scenario.room)
        sys.argv = ["orchestrace", *map(str, self._scenario.words(self._work))]
        try:
            cli.main()
        except SystemExit as ended:
            return {"exit": ended.code or 0}
        return {"exit": 0}

    def _reading(self) -> dict[str, Any]:
        try:
            state = self._scenario.read(self._work)
        except (OrchestraceError, OSError) as error:
            return {"state": f"{type(error).__name__}: {error}"}
        return {"state": {name: sorted(rows) for name, rows in state.items()}}

    def _aftermath(self) -> dict[str, Any]:
        found = self._reading()
        untidy = ""
        if found["state"] not in (self.before, self.after) and self._scenario.reconcile is not None:
            self._scenario.reconcile(self._work)
        is_there = self._scenario.is_once and found["state"] == self.after
        again = {"exit": 0} if is_there else self._command()
        if again["exit"] == 0:
            try:
                self._scenario.check_tidy(self._work)
            except (AssertionError, OrchestraceError) as error:
                untidy = f"{type(error).__name__}: {error}"
        return {**found, "again": again, "mended": self._reading()["state"], "untidy": untidy}

    def _in_child(self, run: Callable[[], Any], *, is_first: bool = False) -> dict[str, Any]:
        """What a function returns in a process of its own, and what it printed as an error."""
        assert not polars_has_threads(), "a process with threads cannot fork"
        answer, said = self._aside / "answer.json", self._aside / "said.txt"
        answer.unlink(missing_ok=True)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
                result = run()
                self._control.disarm()
                result = result if isinstance(result, dict) else {}
                if is_first:
                    result["modules"] = sorted(sys.modules)
                answer.write_text(json.dumps(result))
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(70)
            sys.stderr.flush()
            os._exit(0)
        status = waited(child)
        text = said.read_text(errors="replace") if said.exists() else ""
        result = json.loads(answer.read_text()) if answer.exists() else {"exit": status}
        return {**result, "text": text, "pid": child}


def waited(child: int) -> int:
    """How a child ended; one that hangs is killed."""
    until = time.monotonic() + SECONDS
    pause = 0.001
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -99


def described(ended: dict[str, Any]) -> str:
    code = ended.get("exit", 0)
    return {0: "ended well", -9: "killed", -6: "aborted", -99: "hangs"}.get(code, f"exit {code}")


def misbehaviour(ended: dict[str, Any], fault: Fault) -> list[str]:
    """What a command must not do, whatever fails."""
    code, text = ended.get("exit", 0), ended["text"]
    errors = [line for line in text.splitlines() if line.startswith("error: ")]
    if fault.action == "kill":
        return [] if code == -signal.SIGKILL else [f"it survived: {text}"]
    if fault.kind == "memory":
        return (
            []
            if code in (0, 1, -signal.SIGABRT) or "MemoryError" in text
            else [f"it ended with {code}: {text[-600:]}"]
        )
    if code == 0:
        return ["it printed an error and ended well"] if errors or "Traceback" in text else []
    if fault.error == errno.EINTR or fault.action == "short":
        return [f"it failed for what is no fault: {text[-600:]}"]
    if code != 1 or len(errors) != 1 or "Traceback" in text or "panicked" in text:
        return [f"not one line and exit code 1, but {code}: {text[-1500:]}"]
    return []


def is_between(state: State, before: State, after: State) -> bool:
    """Whether there are only rows that were there before or are there afterwards.

    Counts of records grow from batch to batch; that they add up is asked of the corpus itself.
    """
    return all(
        set(rows) <= {*before.get(name, ()), *after.get(name, ())}
        for name, rows in state.items()
        if name != "record_counts"
    )


def differences(found: Any, expected: Any) -> str:
    if isinstance(found, str) or isinstance(expected, str):
        return f": {str(found)[:300]}"
    names = [name for name in {*found, *expected} if found.get(name) != expected.get(name)]
    counts = [f"{name} {len(found.get(name, ()))}/{len(expected.get(name, ()))}" for name in sorted(names)]
    return f" ({', '.join(counts)})"


def load() -> None:
    """Import the commands, so that no child has to."""
    for name in MODULES:
        importlib.import_module(f"orchestrace.cli.commands.{name}")


def begin_with_library(place: Path) -> None:
    """Begin this process again with the library, and with libraries that start no threads."""
    environment = {
        "LD_PRELOAD": str(compiled(place)),
        "FAILING_CALLS": str(place / "control"),
        "OPENBLAS_NUM_THREADS": "1",
        "POLARS_MAX_THREADS": "1",
    }
    Control(place / "control")
    words = [sys.executable, "-m", "process.failing.loop", *sys.argv[1:], "--folder", str(place)]
    os.execve(sys.executable, words, os.environ | environment)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", help=f"of: {', '.join(SCENARIOS)}; default: all")
    parser.add_argument("--kinds", default="", help="of calls, with commas between")
    parser.add_argument("--nth", type=int, default=1, help="let each nth call fail only")
    parser.add_argument("--first", type=int, default=1, help="the first call that fails")
    parser.add_argument("--variants", choices=["all", "none", "only"], default="all", help="of faults")
    parser.add_argument("--least", type=int, default=1 << 20, help="bytes of an allocation that fails")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder is None:
        begin_with_library(Path(tempfile.mkdtemp()).resolve())
    try:
        run(options)
    finally:
        shutil.rmtree(options.folder, ignore_errors=True)


def run(options: argparse.Namespace) -> None:
    """Let calls fail, and print what came of it."""
    load()
    control = Control(options.folder / "control")
    faults = {"all": FAULTS + VARIANTS, "none": FAULTS, "only": VARIANTS}[options.variants]
    total = wrong = 0
    for name in options.scenarios or SCENARIOS:
        loop = Loop(SCENARIOS[name], control, options.folder / name, options.least)
        print(
            f"{name}: {', '.join(f'{count} {kind}' for kind, count in loop.counts.items() if count)}",
            flush=True,
        )
        for fault in faults:
            if options.kinds and fault.kind not in options.kinds.split(","):
                continue
            trials = list(loop.trials(fault, options.first, options.nth))
            if trials:
                tally = collections.Counter(f"{trial.command}, {trial.found}" for trial in trials)
                outcomes = "; ".join(f"{count} {outcome}" for outcome, count in tally.items())
                workers = sum(trial.is_of_worker for trial in trials)
                of = f"{loop.counts[fault.kind]}{f', {workers} in workers' * bool(workers)}"
                print(f"  {fault}: {len(trials)} of {of}: {outcomes}", flush=True)
            for trial in trials:
                if trial.faults:
                    print(f"    WRONG {trial}", flush=True)
            total += len(trials)
            wrong += sum(bool(trial.faults) for trial in trials)
    print(f"{total} calls failed, {wrong} of them with a wrong outcome")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
