"""Certificates: what a cascade keeps on fresh rows, with a confidence that survives the search.

A certificate needs rows that neither the fits nor the search have seen. Every candidate stands for
the hypothesis that it breaks one of the targets; it is certified where an exact binomial test
rejects that. The candidate that was chosen is tested first, the others in the order of their
selected figures, by a procedure that bounds the chance of *any* false one, so that one may choose
freely among the certified ones.
"""

from emsco.cascade.fingerprint import fingerprint
from emsco.certify._certificate import Bounds, Certificate, CertifiedCandidate, Chosen, problem_with
from emsco.certify._certify import certify, certify_together
from emsco.certify._older import OlderCertificate
from emsco.certify._required import required_rows
from emsco.certify._targets import Shortfall, Targets
from emsco.rows.ledger import keep_ledger

__all__ = [
    "Bounds",
    "Certificate",
    "CertifiedCandidate",
    "Chosen",
    "OlderCertificate",
    "Shortfall",
    "Targets",
    "certify",
    "certify_together",
    "fingerprint",
    "keep_ledger",
    "problem_with",
    "required_rows",
]
