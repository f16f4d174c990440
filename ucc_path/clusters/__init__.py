"""Features become clusters, and clusters classes with names."""

from ucc_path.clusters.axes import principal_axes
from ucc_path.clusters.fitting import (
    UNKNOWN,
    Clusters,
    CountingHead,
    Merged,
    fit,
    kmeans,
    margins,
    merge,
    named,
    named_after,
    nearest,
    refit,
    spectral,
)
from ucc_path.clusters.parting import Parting, parted_by_counts

__all__ = [
    "UNKNOWN",
    "Clusters",
    "CountingHead",
    "Merged",
    "Parting",
    "fit",
    "kmeans",
    "margins",
    "merge",
    "named",
    "named_after",
    "nearest",
    "parted_by_counts",
    "principal_axes",
    "refit",
    "spectral",
]
