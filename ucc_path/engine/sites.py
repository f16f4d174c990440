"""The one place where an engine is chosen. Ray is imported only where it is asked for."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from ucc_path.engine import local
from ucc_path.engine.values import Cluster, Site
from ucc_path.errors import ClusterError

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

# Ray reads these when it is imported: it reports nothing home, prints nothing of its own on the user's terminal, and
# leaves alone which GPUs a worker without one may see.
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
# By this Ray listens on 127.0.0.1 alone, where all of a cluster is on this machine.
STAY_HERE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


@contextmanager
def site_of(cluster: Cluster | None, cores: int) -> Iterator[Site]:
    """The machines of a cluster, or so many cores of this one; for as long as it is open."""
    if cluster is None:
        with local.site(cores) as here:
            yield here
        return
    with _environment(cluster):
        try:
            from ucc_path.engine import ray_cluster
        except ImportError as err:
            if (err.name or "").partition(".")[0] != "ray":
                raise
            raise ClusterError(
                "--engine ray needs Ray, which is not installed; get it with pip install 'ucc-path[cluster]'"
            ) from err
        with ray_cluster.site(cluster) as machines:
            yield machines


@contextmanager
def _environment(cluster: Cluster) -> Iterator[None]:
    """What Ray and the processes it starts are told, and nobody afterwards.

    A cluster of this machine's own has a secret of its own: Ray would otherwise write one into the user's home.
    """
    told = dict(QUIET)
    if cluster.address is None or cluster.address.rpartition(":")[0] in _LOOPBACK:
        told |= STAY_HERE
    if cluster.address is None:
        told |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
