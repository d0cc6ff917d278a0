"""One model for every set of sources."""

from emsco.learners.masked_classifier import MaskedClassifier

__all__ = ["MaskedClassifier"]
