"""The figures that the paper reports for its own crops of CAMELYON16, for reference: other tiles, other slides."""

from __future__ import annotations

PAPER: dict[str, dict[str, float]] = {
    "UCC": {"TPR": 0.818, "FPR": 0.149, "TNR": 0.851, "FNR": 0.182, "PA": 0.863},
    "Unet": {"TPR": 0.860, "FPR": 0.126, "TNR": 0.874, "FNR": 0.140, "PA": 0.889},
    "k-means": {"TPR": 0.370, "FPR": 0.271, "TNR": 0.729, "FNR": 0.630, "PA": 0.512},
}
"""The mean over images (Oner, Lee, Sung; ICLR 2020)."""
