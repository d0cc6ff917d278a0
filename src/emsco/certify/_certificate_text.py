"""A certificate in words and as a table: the promise, its exact statement, what was counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emsco._utils.text_table import numbered_rows
from emsco.certify._path import LADDER
from emsco.certify._targets import percent, percentage
from emsco.core.front import learners_of
from emsco.core.measure import share_of
from emsco.core.measures import columns

if TYPE_CHECKING:
    from emsco.certify._certificate import Certificate
    from emsco.certify._certified_candidate import CertifiedCandidate

_MOST_GROUPS = 6  # that have a column
_POINTS = "all thresholds that the ladder could have reached"


def sentence_of(certificate: Certificate) -> str:
    """Return the promise in plain words, then the exact statement, then any doubts.

    Without a promise, the reason why there is none.
    """
    own, stake, groups = certificate, certificate.stake, certificate.groups
    if not own.certified:
        lacking = "" if stake is None else stake.lacking(own.rows, own.shortfalls)
        return f"Not certified: {'; '.join(map(str, own.shortfalls))}.{lacking}"
    drawn_of_each = own.rows + own.left_out < own.rows_given
    risk = (1 - own.confidence) * own.share
    sure = f"{100 - percentage(risk):.12g}%"
    unit = "groups" if drawn_of_each else "rows"
    about, who, coins, with_stakes, of_each = "", "certifying any cascade that actually", "", "", ""
    if stake is not None:
        about += f"{stake.counting} and sending rows above {stake.cap:,.10g} to review, "
        coins, with_stakes = " and of a coin for each", " and their stakes"
    if groups is not None:
        about += f"{groups.holding(own.groups_passed)}, "
        of_each = " of the same group"
        who = "listing any group in which the cascade actually"
        if groups.every:
            who = "certifying any cascade that in any of these groups actually"
    plain = (
        f"With {sure} confidence, {about}{own.targets.promise(own.unit)}"
        f"{', counting one random row per group' if drawn_of_each else ''}, provided that new "
        f"{unit}{with_stakes} resemble the calibration {unit}{of_each}."
    )
    drawn = f"{own.rows:,} calibration rows{', one from each group' if drawn_of_each else ''}"
    future = "a random row of a random new group is" if drawn_of_each else "future rows are"
    broken = own.targets.broken(own.unit)
    exact = (
        f"More exactly, over the random draw of the {drawn}{coins}, the probability of {who} "
        f"{broken}{'' if stake is None else f', {stake.counting},'} is at most {percent(risk)}, "
        f"if {future} exchangeable with the calibration rows{of_each}."
    )
    return " ".join([plain, exact, *own.doubts])


def rows_sentence(certificate: Certificate) -> str:
    """Say how many calibration rows were used, and how many equal a fitted row."""
    used = f"{certificate.rows:,} of {certificate.rows_given:,} calibration rows used"
    if certificate.twins is None:
        return f"{used}."
    return f"{used}; {certificate.twins:,} equal a fitted row in every value."


def table_of(certificate: Certificate) -> Any:
    """Return the header, rows and caption of the table of certified candidates."""
    among = f"the {certificate.tried:,} candidates that could have been listed"
    caption = (
        f"All these bounds hold at once, with a confidence of their own as high as that of the "
        f"promise. They are adjusted for {_POINTS if certificate.way == LADDER else among}, so "
        f"they are wider than the promise, which needs no adjustment. {rows_sentence(certificate)}"
    )
    return *_cells(certificate), caption


def _cells(certificate: Certificate) -> tuple[list[str], list[list[object] | None]]:
    """Return the header and the rows of a table; a star marks the chosen candidate.

    Figures are as counted on the calibration rows, by class too; bounds come last.
    """
    listed = certificate.candidates
    evaluations = [one.evaluation for one in listed]
    table: dict[str, list[object]] = {
        "design": [str(one.candidate.design) for one in listed],
        "threshold": [one.candidate.threshold for one in listed],
        **learners_of([one.candidate for one in listed]),
        "accepted": [int(e.accepted) for e in evaluations],
        "wrong": [int(e.accepted - e.right) for e in evaluations],
        "coverage": [e.coverage for e in evaluations],
        "cost": [e.cost for e in evaluations],
    }
    for label in evaluations[0].class_rows:
        for measure in columns(by_class=True)[:2]:
            shares = [share_of(*measure.count(e, label)) for e in evaluations]
            table[measure.name_of(label)] = [*shares]
    groups = () if certificate.groups is None else certificate.groups.groups
    for group in groups[:_MOST_GROUPS]:
        table[f"wrong in {group!r}"] = [_wrong_in(one, group) for one in listed]
    for bounds in zip(*map(certificate.bounds_asked, listed), strict=True):
        table[bounds[0].head] = [bound.value for bound in bounds]
    header, rows = numbered_rows(table)
    chosen = certificate.chosen_one
    for row in rows:
        if row is not None and chosen is not None and row[0] == listed.index(chosen):
            row[0] = f"*{row[0]}"
    return header, rows


def _wrong_in(one: CertifiedCandidate, group: object) -> str:
    """Return how many accepted rows of a group are wrong; "" if the group is not listed."""
    for own in one.groups:
        if own.group == group:
            accepted, right = own.evaluation.accepted, own.evaluation.right
            return f"{accepted - right:,.0f} of {accepted:,.0f}"
    return ""
