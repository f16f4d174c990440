"""How good a mask is: predicted against true, counted, scored, and compared with others."""

from ucc_path.evaluation.scores import Scores, scores

__all__ = ["Scores", "scores"]
