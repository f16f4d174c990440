"""The way into a Ray cluster and out of it again: one that is named, or one of this machine's own."""

from __future__ import annotations

import logging
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import ray
from ray.exceptions import RayError

from ucc_path.ahead import usable_cores
from ucc_path.engine.values import Cluster
from ucc_path.errors import ClusterError

AUTO = "auto"  # the cluster that runs on this machine

_ANSWER_S = 5.0
_OBJECTS_BYTES = 100 * 10**6  # Ray's shared memory: jobs and records are small
_LONGEST_FOLDER = 40  # sockets lie deep in it, and their paths may have 107 letters
# How HTTP/2 begins, by which Ray speaks: the client's greeting, and settings that change nothing.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_SETTINGS = 4


@contextmanager
def connected(cluster: Cluster) -> Iterator[None]:
    """Connected to a cluster; one that was started here is ended again, and nothing of it is left."""
    if cluster.address not in (None, AUTO):
        _require_answer(str(cluster.address))
    how: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL, "configure_logging": True}
    with ExitStack() as stack:
        if cluster.address is None:
            cores = cluster.cores_each or usable_cores()
            how |= {"num_cpus": cores, "include_dashboard": False, "object_store_memory": _OBJECTS_BYTES}
            how |= {"_temp_dir": stack.enter_context(_folder())}
        stack.callback(ray.shutdown)
        try:
            with _own_signals(), _hushed():
                ray.init(cluster.address or "local", **how)
        except (OSError, RuntimeError, ValueError, RayError) as err:
            raise ClusterError(_words(cluster, err)) from err
        yield


def _folder() -> tempfile.TemporaryDirectory[str]:
    usual = tempfile.gettempdir()
    return tempfile.TemporaryDirectory(
        prefix="ucc-path-ray-", dir=usual if len(usual) <= _LONGEST_FOLDER else "/tmp", ignore_cleanup_errors=True
    )


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray takes SIGTERM for itself; it is given back to whoever had it."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _hushed() -> Iterator[None]:
    """What Ray's libraries write to the terminal while they connect, past Python, is not written."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _require_answer(address: str) -> None:
    """ClusterError where nothing answers that could be Ray, which itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if "//" in address or not host or not port.isdigit():
        raise ClusterError(f"--ray-address {address} is no HOST:PORT; give the one that ray start names, or auto")
    nobody = ClusterError(
        f"no Ray cluster answers at {address}; give the address that ray start --head has named, and see that it runs"
    )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S) as line:
            if os.environ.get("RAY_USE_TLS", "0") != "0":
                return
            line.settimeout(_ANSWER_S)
            line.sendall(_GREETING)
            heard = line.recv(9)
    except (OSError, OverflowError) as err:
        raise nobody from err
    if len(heard) < 4 or heard[3] != _SETTINGS:
        raise nobody


def _words(cluster: Cluster, err: BaseException) -> str:
    """Ray's own explanations are long: the first sentence tells what is wrong."""
    first = " ".join(str(err).split()).partition(". ")[0][:300]
    if cluster.address is None:
        return f"Ray cannot be started on this machine ({first}); use --engine local"
    if "AuthToken" in f"{err}{err.__cause__}{err.__context__}":
        return (
            f"the Ray cluster at {cluster.address} wants its token; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN as they "
            "were set for ray start --head"
        )
    if cluster.address == AUTO:
        return f"no Ray cluster runs on this machine ({first}); start one with ray start --head, or give its address"
    return (
        f"the Ray cluster at {cluster.address} cannot be used from here ({first}); this machine must be one of it, "
        "with the same versions of Ray and Python"
    )
