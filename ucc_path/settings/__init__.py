"""Every tunable number of every stage, as frozen dataclasses; the only place where a default is written.

A settings file is TOML with one table per stage, `[tissue] min_area_um2 = 20000`. A flag on the command line wins over
the file, and the file over the defaults here.
"""

from ucc_path.settings.checking import from_table, within_bounds
from ucc_path.settings.presets import (
    DEFAULT_SPLIT,
    EXPERIMENTS,
    PRESETS,
    REPRODUCED,
    TABLES,
    UNANNOTATED,
    reproduction_preset,
)
from ucc_path.settings.stages import (
    ASSIGNMENTS,
    CLEANINGS,
    ENCODERS,
    INFERENCES,
    MODELS,
    NORMS,
    POOLINGS,
    PRECISIONS,
    REFITS,
    SUPERVISIONS,
    AnnotationSettings,
    EvaluationSettings,
    ModelSettings,
    ReproductionSettings,
    SegmentationSettings,
    TilingSettings,
    TissueSettings,
    TrainingSettings,
)

__all__ = [
    "ASSIGNMENTS",
    "CLEANINGS",
    "DEFAULT_SPLIT",
    "ENCODERS",
    "EXPERIMENTS",
    "INFERENCES",
    "MODELS",
    "NORMS",
    "POOLINGS",
    "PRECISIONS",
    "PRESETS",
    "REFITS",
    "REPRODUCED",
    "SUPERVISIONS",
    "TABLES",
    "UNANNOTATED",
    "AnnotationSettings",
    "EvaluationSettings",
    "ModelSettings",
    "ReproductionSettings",
    "SegmentationSettings",
    "TilingSettings",
    "TissueSettings",
    "TrainingSettings",
    "from_table",
    "reproduction_preset",
    "within_bounds",
]
