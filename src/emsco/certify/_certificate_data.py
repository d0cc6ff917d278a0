"""Certificates as plain values, for files, and back; what contradicts itself is refused."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from emsco.certify._certified_candidate import CertifiedCandidate, ChosenCandidate
from emsco.certify._group_terms import GroupTerms
from emsco.certify._path import FRONT, LADDER
from emsco.certify._serialization import (
    expect,
    expect_keys,
    number,
    shortfall_from,
    targets_from,
    texts,
    whole,
)
from emsco.certify._stake_terms import StakeTerms
from emsco.certify.binomial import check_between
from emsco.exceptions import CertificateError

if TYPE_CHECKING:
    from emsco.certify._certificate import Certificate

# What only some certificates have, with the value of all others.
_LATER: dict[str, Any] = {"way": FRONT, "stake": None, "groups": None}


def certificate_to(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as plain values and lists of them."""
    own = {field.name: getattr(certificate, field.name) for field in fields(certificate)}
    every = (*certificate.candidates, certificate.chosen)
    known = [one.candidate.design.names for one in every if one is not None]
    names = known[0] if known else None
    data = own | {
        "targets": certificate.targets.to_dict(),
        "sources": None if names is None else list(names),
        "candidates": [candidate.to_data() for candidate in certificate.candidates],
        "shortfalls": [shortfall._asdict() for shortfall in certificate.shortfalls],
        "doubts": list(certificate.doubts),
        "chosen": None if certificate.chosen is None else certificate.chosen.to_data(),
        "filters": list(map(str, certificate.filters)),
    }
    for name, value in (("stake", certificate.stake), ("groups", certificate.groups)):
        data[name] = None if value is None else value.to_data()
    for name, default in _LATER.items():  # files that need none of these do not have them
        if data[name] == default:
            del data[name]
    return data


def certificate_from(cls: type[Certificate], data: Any) -> Certificate:
    """Rebuild a certificate from the values of `certificate_to`; refuse what contradicts itself."""
    there = data if isinstance(data, dict) else {}
    own = [f.name for f in fields(cls) if f.name not in _LATER or f.name in there]
    expect_keys(data, [*own, "sources"])
    way, stake, groups = (data.get(name, default) for name, default in _LATER.items())
    rows = whole(data["rows"], "rows", whole(data["rows_given"], "rows given"))
    chosen = data["chosen"]
    check_between("confidence", number(data["confidence"], "confidence"))
    sources = data["sources"]
    names = None if sources is None else texts(sources, "sources")
    rows_given = whole(data["rows_given"], "rows given")
    twins = data["twins"]
    certificate = cls(
        targets=targets_from(data["targets"]),
        confidence=data["confidence"],
        share=number(data["share"], "share", 0, 1),
        rows=rows,
        rows_given=rows_given,
        tried=whole(data["tried"], "number of candidates"),
        candidates=tuple(
            CertifiedCandidate.from_data(one, names)
            for one in expect(data["candidates"], list, "candidates")
        ),
        shortfalls=tuple(map(shortfall_from, expect(data["shortfalls"], list, "shortfalls"))),
        rows_fingerprint=expect(data["rows_fingerprint"], str, "fingerprint of rows"),
        twins=None if twins is None else whole(twins, "twins", rows_given),
        unit=expect(data["unit"], str, "unit"),
        doubts=texts(data["doubts"], "doubts"),
        chosen=None if chosen is None else ChosenCandidate.from_data(chosen, names),
        filters=texts(data["filters"], "filters"),
        least_coverage=number(data["least_coverage"], "least coverage", 0, 1),
        left_out=whole(data["left_out"], "rows left out", rows_given),
        way=way,
        stake=None if stake is None else StakeTerms.from_data(stake, rows),
        groups=None if groups is None else GroupTerms.from_data(groups, rows),
    )
    kept = rows if certificate.stake is None else certificate.stake.kept
    is_list = certificate.groups is not None and not certificate.groups.every
    if (
        way not in (FRONT, LADDER)
        or not certificate.rows
        or certificate.rows + certificate.left_out > rows_given
        or not certificate.share
        or len(certificate.candidates) > certificate.tried
        or (certificate.candidates and certificate.shortfalls and not is_list)
        or any((c.evaluation.rows, c.reached[0]) != (kept, rows) for c in certificate.candidates)
        or not all(_fits(c, certificate.groups) for c in certificate.candidates)
        or len({c.bounds.labels() for c in certificate.candidates}) > 1
    ):
        raise CertificateError("A certificate has counts that contradict one another.")
    return certificate


def _fits(one: CertifiedCandidate, groups: GroupTerms | None) -> bool:
    """Return whether what a file says of groups agrees with what it says of a candidate."""
    if groups is None:
        return not one.groups
    named, rows = (
        [own.group for own in one.groups],
        dict(zip(groups.groups, groups.rows, strict=True)),
    )
    return (
        len(set(named)) == len(named) > 0
        and set(named) <= rows.keys()
        and (not groups.every or len(named) == len(rows))
        and all(own.reached[0] == rows[own.group] >= own.evaluation.rows for own in one.groups)
    )
