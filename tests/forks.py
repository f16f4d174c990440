"""`ucc-path` as processes of their own that start at once: one process imports all of it, each run is a fork of that.

Importing torch takes seconds, a fork takes milliseconds. A fork has its own exit status, can be sent signals or
killed, and runs beside others.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

_SERVER = """
import gc, json, os, signal, sys, traceback
import sklearn.cluster, torch._dynamo, ucc_path_cli.show, ucc_path_cli.train
import ucc_path.workflows.reproduce, ucc_path.workflows.train
from ucc_path_cli.main import main

gc.freeze()

def serve():
    going = set()
    for line in sys.stdin:
        asked = json.loads(line)
        if "arguments" not in asked:
            pid, status = os.waitpid(asked["pid"], os.WNOHANG)
            going.discard(pid)
            print(json.dumps(os.waitstatus_to_exitcode(status) if pid else None), flush=True)
        elif pid := os.fork():
            going.add(pid)
            print(pid, flush=True)
        else:
            return asked
    for pid in going:
        os.kill(pid, signal.SIGKILL)
    sys.exit()

asked = serve()
os.setsid()
os.chdir(asked["folder"])
os.environ.update(asked["environment"])
for target, name in enumerate(("/dev/null", asked["stdout"], asked["stderr"])):
    opened = os.open(name, os.O_RDWR | os.O_CREAT, 0o644)
    os.dup2(opened, target)
    os.close(opened)
sys.argv = ["ucc-path", *asked["arguments"]]
status = 1
try:
    main()
except SystemExit as err:
    status = err.code
except BaseException:
    traceback.print_exc()
sys.stdout.flush()
sys.stderr.flush()
os._exit(status)  # to clear up all modules takes half a second
"""

LONGEST_S = 300  # a busy machine may take its time; only what hangs is to be found


class Forks:
    """The process that has everything imported."""

    def __init__(self, logs: Path) -> None:
        self._logs, self._started = logs, 0
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )

    def start(self, folder: Path, *arguments: str | Path, environment: Mapping[str, str] | None = None) -> Started:
        self._started += 1
        stdout, stderr = (self._logs / f"{self._started}.{name}" for name in ("stdout", "stderr"))
        pid = self._ask(
            folder=str(folder),
            arguments=[str(argument) for argument in arguments],
            environment=dict(environment or {}),
            stdout=str(stdout),
            stderr=str(stderr),
        )
        return Started(int(pid or 0), stdout, stderr, lambda: self._ask(pid=pid))

    def close(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait()

    def _ask(self, **what: object) -> int | None:
        if self._process.stdin is None or self._process.stdout is None:
            raise ValueError("the forks are closed")
        print(json.dumps(what), file=self._process.stdin, flush=True)
        answer: int | None = json.loads(self._process.stdout.readline())
        return answer


@dataclass(frozen=True, slots=True)
class Started:
    """A run on its way."""

    pid: int
    stdout: Path
    stderr: Path
    poll: Callable[[], int | None]

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """As a power cut would."""
        self.send(signal.SIGKILL)
        self.wait()

    def wait_for(self, is_there: Callable[[], bool]) -> None:
        """Until something is there; a run that ends before fails the test."""
        began_s = time.monotonic()
        while not is_there():
            status = self.poll()
            if status is not None or time.monotonic() - began_s > LONGEST_S:
                raise AssertionError(f"it never came; exit status {status}: {self.stderr.read_text()}")
            time.sleep(0.002)

    def wait(self) -> subprocess.CompletedProcess[str]:
        """What came of it."""
        began_s = time.monotonic()
        while (status := self.poll()) is None:
            if time.monotonic() - began_s > LONGEST_S:
                os.kill(self.pid, signal.SIGKILL)
                raise AssertionError(f"it never ended: {self.stderr.read_text()}")
            time.sleep(0.002)
        return subprocess.CompletedProcess([], status, self.stdout.read_text(), self.stderr.read_text())
