"""Jobs on the machines of a Ray cluster: the only module that imports Ray.

Each machine gets workers of its own, so that it is known what each of them may take. A worker has one job at a time.
A machine that goes away loses the jobs at work there, which are done again elsewhere; one that joins is used. A job
that kills its worker is done again on another machine if there is one, and set aside at the third time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ucc_path import __version__
from ucc_path.engine.ray_connection import connected
from ucc_path.engine.ray_seat import Seat
from ucc_path.engine.ray_tasks import Queue, Task
from ucc_path.engine.values import Cluster, Job, Machine, Remark, Result, Said, Seats, Site
from ucc_path.errors import ClusterError, UccPathError, WorkerError

_LISTEN_EVERY_S = 0.2
_LOOK_EVERY_S = 3.0  # for machines that joined or went
_PATIENCE_S = 60.0  # before it is said that there is no room
_SECONDS_TO_STOP = 10.0


@contextmanager
def site(cluster: Cluster) -> Iterator[Site]:
    """The machines of a cluster, connected."""
    with connected(cluster):
        yield _Machines(cluster)


@dataclass(frozen=True, slots=True)
class _Machines:
    cluster: Cluster

    @property
    def machines(self) -> list[Machine]:
        found = list(self.by_id().values())
        if not found:
            raise ClusterError("no machine of the Ray cluster has cores to work on; see ray status, and add one")
        return found

    def by_id(self) -> dict[str, Machine]:
        """The machines that are there now, by what Ray calls them."""
        found = {}
        for node in ray.nodes():
            offers = node["Resources"]
            cores = min(int(offers.get("CPU", 0)), self.cluster.cores_each or 2**20)
            if node["Alive"] and cores:
                found[node["NodeID"]] = Machine(node["NodeManagerHostname"], cores, int(offers.get("GPU", 0)))
        return found

    def crew(self, seats: Seats, sees: Sequence[Path] = ()) -> Workers:
        return Workers(self, seats, sees)


@dataclass(slots=True, eq=False)
class _Chair:
    """A worker: being started, idle, or at work on a task."""

    node: str
    machine: Machine
    actor: Any
    awaited: Any  # what it will say next
    task: Task | None = None

    @property
    def is_idle(self) -> bool:
        return self.awaited is None


class Workers:
    """As of a `Crew`; close them with `with`."""

    def __init__(self, machines: _Machines, seats: Seats, sees: Sequence[Path]) -> None:
        self._machines, self._seats = machines, seats
        self._sees = [str(path.absolute()) for path in sees]
        self._folder = None if all(path.is_absolute() for path in sees) else str(Path.cwd())
        self._chairs: list[_Chair] = []
        self._unfit: dict[str, str] = {}  # why no worker can be had on a machine, by what Ray calls it
        self._gone: set[str] = set()  # machines
        self._looked_s = self._waiting_since_s = -_LOOK_EVERY_S

    def run(self, work: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[tuple[Job, Result | UccPathError]]:
        """As of a `Crew`."""
        for heard in self.listen(work, jobs):
            if not isinstance(heard, Said | Remark):
                yield heard

    def listen(
        self, work: Callable[[Job], Result], jobs: Iterable[Job]
    ) -> Iterator[tuple[Job, Result | UccPathError] | Said | Remark]:
        """As of a `Crew`."""
        queue, in_hand = Queue(jobs), None
        self._waiting_since_s = time.monotonic()
        try:
            while True:
                while (in_hand := in_hand or queue.take()) and (chair := self._chair_for(in_hand)):
                    chair.task, in_hand = in_hand, None
                    chair.awaited = chair.actor.do.options(num_returns="streaming").remote(work, chair.task.job)
                if in_hand is None and not any(chair.task for chair in self._chairs):
                    return
                yield from self._hire()
                awaited = {chair.awaited: chair for chair in self._chairs if not chair.is_idle}
                for ready in ray.wait(list(awaited), num_returns=1, timeout=_LISTEN_EVERY_S)[0]:
                    yield from self._hear(awaited[ready], queue)
        finally:
            self._dismiss([chair for chair in self._chairs if chair.task])  # of a run that was broken off

    def _chair_for(self, task: Task) -> _Chair | None:
        """An idle worker, for a task that has killed one rather on a machine where it has not."""
        idle = [chair for chair in self._chairs if chair.is_idle]
        return min(idle, key=lambda chair: chair.machine.name in task.killed_on, default=None)

    def _hire(self) -> Iterator[Remark]:
        """Workers for all machines, in turn: those that died, and those on machines that joined."""
        now = time.monotonic()
        if self._chairs and now - self._looked_s < _LOOK_EVERY_S:
            return
        self._looked_s = now
        machines = {node: machine for node, machine in self._machines.by_id().items() if node not in self._unfit}
        there = [chair.node for chair in self._chairs]
        for number in range(self._seats.most_each):
            for node, machine in machines.items():
                if there.count(node) <= number < self._seats.on(machine) and len(self._chairs) < self._seats.most:
                    self._chairs.append(self._start(node, machine))
        if not self._chairs:
            why = next(iter(self._unfit.values()), "no machine with enough free cores is left; see ray status")
            raise ClusterError(f"the Ray cluster has no machine to work on: {why}")
        if any(chair.task or chair.is_idle for chair in self._chairs):
            self._waiting_since_s = now
        elif now - self._waiting_since_s > _PATIENCE_S:
            self._waiting_since_s = now
            yield Remark("the Ray cluster has no room for a worker yet; it is waited for (see ray status)")

    def _start(self, node: str, machine: Machine) -> _Chair:
        how = {
            "num_cpus": self._seats.threads,
            "num_gpus": self._seats.gpus,
            "max_concurrency": 2,  # so that it can be stopped while it is at work
            "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False),
        }
        actor = ray.remote(Seat).options(**how).remote()
        return _Chair(node, machine, actor, actor.settle.remote(__version__, self._folder, self._sees))

    def _hear(self, chair: _Chair, queue: Queue) -> Iterator[tuple[Any, Any] | Said | Remark]:
        """What a worker says now; its job is over with the outcome, or with the worker."""
        try:
            heard = ray.get(chair.awaited if chair.task is None else next(chair.awaited))
        except RayTaskError as err:  # a defect: as if it had happened here
            raise err.cause if isinstance(err.cause, Exception) else err from err
        except RayError as err:
            yield from self._lose(chair, err, queue)
            return
        if chair.task is None:
            chair.awaited = None
            if heard:
                yield from self._give_up(chair, heard)
        elif isinstance(heard, Said):
            yield heard
        else:
            task, chair.task, chair.awaited = chair.task, None, None
            if isinstance(heard[1], WorkerError):
                task.killed_on.append(chair.machine.name)
                yield from self._again(task, queue)
            else:
                yield task.job, heard[1]

    def _lose(self, chair: _Chair, err: RayError, queue: Queue) -> Iterator[tuple[Any, Any] | Remark]:
        """A worker is gone. Where its machine is there and Ray knows of its death, the worker alone died."""
        task, chair.task = chair.task, None
        self._dismiss([chair])
        is_there = chair.node in self._machines.by_id() and not isinstance(err, ActorUnavailableError)
        if task is None and is_there:
            yield from self._give_up(chair, f"no worker can be started there ({_last_line(err)})")
        elif task is not None:
            if is_there:
                task.killed_on.append(chair.machine.name)
            else:
                task.lost += 1
                if chair.node not in self._gone:  # of all its workers the first says so
                    self._gone.add(chair.node)
                    yield Remark(f"{chair.machine.name} went away; what it was working on is done again elsewhere")
            yield from self._again(task, queue)

    def _again(self, task: Task, queue: Queue) -> Iterator[tuple[Any, Any]]:
        if task.reason:
            yield task.job, task.reason
        else:
            queue.put_back(task)

    def _give_up(self, chair: _Chair, why: str) -> Iterator[Remark]:
        """On a machine that cannot be used no worker is tried again."""
        self._dismiss([other for other in self._chairs if other.node == chair.node and other.task is None])
        if chair.node not in self._unfit:
            self._unfit[chair.node] = f"{chair.machine.name}: {why}"
            yield Remark(f"{chair.machine.name} is left out: {why}")

    def _dismiss(self, chairs: Sequence[_Chair]) -> None:
        """Workers that have something to clear up may do so; then they are ended."""
        stopping = [chair.actor.stop.remote() for chair in chairs if chair.task or chair.is_idle]
        if stopping:
            ray.wait(stopping, num_returns=len(stopping), timeout=_SECONDS_TO_STOP)
        for chair in chairs:
            with suppress(RayError, ValueError):
                ray.kill(chair.actor)
        self._chairs = [chair for chair in self._chairs if chair not in chairs]

    def close(self) -> None:
        """Ends all workers."""
        self._dismiss(self._chairs)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _last_line(err: RayError) -> str:
    return next((line.strip() for line in reversed(str(err).splitlines()) if line.strip()), type(err).__name__)[:200]
