"""The figures that the paper reports for its own crops of CAMELYON16, for reference: other tiles, other slides."""

from __future__ import annotations

PAPER: dict[str, tuple[float, float, float, float, float]] = {
    "UCC": (0.818, 0.149, 0.851, 0.182, 0.863),
    "Unet": (0.860, 0.126, 0.874, 0.140, 0.889),
    "k-means": (0.370, 0.271, 0.729, 0.630, 0.512),
}
"""TPR, FPR, TNR, FNR, PA, the mean over images (Oner, Lee, Sung; ICLR 2020)."""
