"""Models that exist already, as the last stage of a cascade."""

from emsco.learners.final_model import LoggedAnswers, OnnxModel

__all__ = ["LoggedAnswers", "OnnxModel"]
