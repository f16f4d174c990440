"""A real Ray cluster of several machines, all of them on this one and bound to 127.0.0.1."""

from __future__ import annotations

import os
import secrets
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import ucc_path.engine.sites as sites

# Before any test imports Ray, which looks at them only then.
os.environ.update(sites.QUIET | sites.STAY_HERE)
os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))

OBJECTS_BYTES = 80 * 10**6  # of shared memory, of which a sandbox has little


class Machines:
    """A head without cores, and as many machines as are added."""

    def __init__(self, folder: Path) -> None:
        os.environ["PYTHONPATH"] = str(Path(__file__).parent / "engine")  # for the work that tests send
        from ray._common.utils import get_default_ray_temp_dir
        from ray.cluster_utils import Cluster

        # A cluster's address is noted there, and nobody makes that folder on a machine where Ray has never run.
        Path(get_default_ray_temp_dir()).mkdir(parents=True, exist_ok=True)
        head = self._how(num_cpus=0, include_dashboard=False, temp_dir=str(folder))
        self._cluster = Cluster(initialize_head=True, head_node_args=head)

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add(self, cores: int = 1) -> Any:
        return self._cluster.add_node(**self._how(num_cpus=cores))

    def is_at_work(self, machine: Any) -> bool:
        """Whether a process of ours is there: it is started by one of Ray's, and that by the machine's own."""
        own = machine.all_processes["raylet"][0].process.pid
        rays = {pid for pid, parent in _parents().items() if parent == own}
        return any(parent in rays for parent in _parents().values())

    def kill(self, machine: Any) -> None:
        """As a power cut would. Ray's agents, which live on for two minutes otherwise, go with it."""
        own = machine.all_processes["raylet"][0].process.pid
        agents = [pid for pid, parent in _parents().items() if parent == own and _name(pid).endswith("Agent")]
        self._cluster.remove_node(machine, allow_graceful=False)
        for pid in agents:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        self._cluster.shutdown()

    def _how(self, **more: Any) -> dict[str, Any]:
        return {"object_store_memory": OBJECTS_BYTES, "node_ip_address": "127.0.0.1", **more}


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0 ").decode(errors="replace")
    except OSError:
        return ""


def _parents() -> dict[int, int]:
    """The parent of every process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            found[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    return found
