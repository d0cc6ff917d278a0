"""The scikit-learn classifier for one design, its decider, and the decision loop."""

from emsco.cascade.classifier import CascadeClassifier
from emsco.cascade.decider import Decider, Guard, decider_of

__all__ = ["CascadeClassifier", "Decider", "Guard", "decider_of"]
