"""The one place where an engine is chosen. Ray is imported only where it is asked for."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager

from ucc_path.engine import local
from ucc_path.engine.values import Cluster, Site
from ucc_path.errors import ClusterError

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

# Ray reads these when it is imported: it reports nothing home, prints nothing of its own on the user's terminal, and
# leaves alone which GPUs a worker without one may see.
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
# By this Ray listens on 127.0.0.1 alone, where all of a cluster is on this machine.
_STAY_HERE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


def site_of(cluster: Cluster | None, cores: int) -> AbstractContextManager[Site]:
    """The machines of a cluster, or so many cores of this one; for as long as it is open."""
    if cluster is None:
        return local.site(cores)
    os.environ.update(_QUIET)
    if cluster.address is None or cluster.address.rpartition(":")[0] in _LOOPBACK:
        os.environ.update(_STAY_HERE)
    try:
        from ucc_path.engine import ray_cluster
    except ImportError as err:
        if (err.name or "").partition(".")[0] != "ray":
            raise
        raise ClusterError(
            "--engine ray needs Ray, which is not installed; get it with pip install 'ucc-path[cluster]'"
        ) from err
    return ray_cluster.site(cluster)
