"""Certificates: what a cascade keeps on fresh rows, with a confidence that survives the search.

A certificate needs rows that neither the fits nor the search have seen. For every candidate, the
hypothesis is that it breaks one of the targets; the candidate is certified if an exact binomial
test rejects this. The chosen candidate is tested first, the others in the order of their selected
figures. The procedure bounds the probability of *any* false certificate, so users may choose freely
among the certified candidates. Agreement with a final model can be certified by a ladder instead:
along one path of thresholds, from strict to loose.
"""

from emsco.cascade.fingerprint import fingerprint
from emsco.certify._certificate import Certificate, problem_with
from emsco.certify._certified_bounds import CertifiedBounds
from emsco.certify._certified_candidate import (
    CertifiedCandidate,
    CertifiedGroup,
    ChosenCandidate,
)
from emsco.certify._certify import certify
from emsco.certify._certify_together import certify_together
from emsco.certify._group_terms import GroupTerms
from emsco.certify._stake_terms import StakeTerms
from emsco.certify._targets import Shortfall, Targets
from emsco.certify.binomial import required_rows
from emsco.rows.ledger import keep_ledger

__all__ = [
    "Certificate",
    "CertifiedBounds",
    "CertifiedCandidate",
    "CertifiedGroup",
    "ChosenCandidate",
    "GroupTerms",
    "Shortfall",
    "StakeTerms",
    "Targets",
    "certify",
    "certify_together",
    "fingerprint",
    "keep_ledger",
    "problem_with",
    "required_rows",
]
