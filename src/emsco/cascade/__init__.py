"""The scikit-learn classifier for one given design, what decides, and the one loop under it."""

from emsco.cascade.classifier import CascadeClassifier
from emsco.cascade.decider import Decider, Guard

__all__ = ["CascadeClassifier", "Decider", "Guard"]
