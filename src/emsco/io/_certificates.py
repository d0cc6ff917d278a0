"""Certificates in the files of models: stored whole, and checked against their cascade."""

from __future__ import annotations

from typing import Any

from emsco.cascade import CascadeClassifier
from emsco.exceptions import ArtifactError, CertificateWarning, warn
from emsco.io._core_values import Data, expect, expect_keys, records_from, records_to
from emsco.io._json import from_plain, to_plain
from emsco.io._members import MemberReader, MemberWriter

_WHAT = "the certificate"


def certificate_to(writer: MemberWriter, model: Any) -> Data | None:
    """Store the certificate of a model, if it has one; refuse one of another cascade."""
    certificate = getattr(model, "certificate_", None)
    if certificate is None:
        return None
    from emsco.certify import Certificate  # imported only if needed

    if not isinstance(certificate, Certificate):
        raise ArtifactError(
            f"its `certificate_` must be a Certificate, got a {type(certificate).__name__}"
        )
    if isinstance(model, CascadeClassifier) and not certificate.holds_for(model):
        raise ArtifactError(
            "its `certificate_` is about another cascade, or about this one before it was fitted "
            "again; certify it again, or `del cascade.certificate_`"
        )
    data = certificate.to_data()
    candidates = records_to(writer, data.pop("candidates"), _WHAT)
    return {"certificate": to_plain(data, _WHAT), "candidates": candidates}


def certificate_from(reader: MemberReader, data: Any) -> Any:
    """Read the certificate back."""
    if data is None:
        return None
    from emsco.certify import Certificate  # as above

    expect_keys(data, "certificate", "candidates")
    fields = expect(from_plain(data["certificate"]), dict)
    return Certificate.from_data(fields | {"candidates": records_from(reader, data["candidates"])})


def warn_of_misfit(path: str, model: Any) -> None:
    """Warn if the certificate of a model is about another cascade."""
    certificate = getattr(model, "certificate_", None)
    if certificate is None:
        return
    from emsco.certify import problem_with  # as above

    problem = problem_with(certificate, model)
    if problem:
        warn(f"{path}: {problem}", CertificateWarning)
