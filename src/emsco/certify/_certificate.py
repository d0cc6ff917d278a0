"""Certificates: a promise about cascades and its assumptions, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from emsco._utils.text_table import html_table, text_table
from emsco.cascade import CascadeClassifier
from emsco.cascade.fingerprint import fingerprint
from emsco.certify._certificate_data import certificate_from, certificate_to
from emsco.certify._certificate_text import rows_sentence, sentence_of, table_of
from emsco.certify._certified_bounds import RequestedBound
from emsco.certify._certified_candidate import CertifiedCandidate, ChosenCandidate
from emsco.certify._group_terms import GroupTerms
from emsco.certify._path import BY_LADDER, FRONT, LADDER
from emsco.certify._stake_terms import StakeTerms, with_cap
from emsco.certify._targets import Shortfall, Targets, percent
from emsco.core.measures import MEASURES
from emsco.exceptions import CertificateError, EmscoError, Message, Parameter, nearest
from emsco.search import CascadeSearchCV

_BEST = ("cost", "coverage", "accuracy")  # what a certified candidate can be chosen by


@dataclass(frozen=True, repr=False)
class Certificate:
    """A promise about one or more cascades, or the reason why no promise could be made.

    Parameters
    ----------
    targets : Targets
        The targets that certified cascades meet.
    confidence : float
        One minus the probability of any false certificate on these rows.
    share : float
        The part of that probability that this certificate uses.
    rows, rows_given : int
        The number of calibration rows used and given; with groups, fewer are used than given.
    tried : int
        The number of candidates to test: those whose selected figures meet the targets.
    candidates : tuple of CertifiedCandidate
        The certified candidates, those with better selected figures first.
    shortfalls : tuple of Shortfall
        If no candidate is certified, the targets that the closest candidate was not shown to meet.
    rows_fingerprint : str
        A fingerprint of the calibration rows and their labels, independent of their order.
    twins : int or None
        The number of calibration rows equal to a fitted row in every value; None if unknown.
    unit : str
        The unit of costs.
    doubts : tuple of str, default=()
        Sentences about what could not be determined about the rows; part of `sentence`.
    chosen : ChosenCandidate or None, default=None
        The candidate that the search had chosen, and its result. None if a single cascade was
        certified, nothing was chosen, or it is unknown.
    filters : tuple of str, default=()
        What selected figures had to show for a candidate to be tested; this is not promised.
    least_coverage : float, default=0.0
        The minimum share of calibration rows that a candidate given by `select` accepts; this is
        not promised.
    left_out : int, default=0
        The number of calibration rows left out because they are copies of others.
    way : {"front", "ladder"}, default="front"
        What was tested: candidates of the front, or thresholds of one design from strict to loose.
    stake : StakeTerms or None, default=None
        If shares are those of a stake: its column and cap, and on how much the certificate rests.
        Candidates are evaluated on the calibration rows that were kept by the coin.
    groups : GroupTerms or None, default=None
        If the promise is by group: the groups, and whether it is for every one of them.
    """

    targets: Targets
    confidence: float
    share: float
    rows: int
    rows_given: int
    tried: int
    candidates: tuple[CertifiedCandidate, ...]
    shortfalls: tuple[Shortfall, ...]
    rows_fingerprint: str
    twins: int | None
    unit: str = ""
    doubts: tuple[str, ...] = ()
    chosen: ChosenCandidate | None = None
    filters: tuple[str, ...] = ()
    least_coverage: float = 0.0
    left_out: int = 0
    way: str = FRONT
    stake: StakeTerms | None = None
    groups: GroupTerms | None = None

    @property
    def certified(self) -> bool:
        """Whether any candidate is certified."""
        return bool(self.candidates)

    @property
    def needed_rows(self) -> int | None:
        """The number of rows the closest candidate would have needed; None if one is certified.

        These are accepted rows, with the same number of errors. If its accuracy is shown but too
        many rows of a class may be missed, they are rows of that class.
        """
        return next((s.needed for s in self.shortfalls if s.needed is not None), None)

    @property
    def sentence(self) -> str:
        """The promise in plain words, then the exact statement, then any doubts.

        Without a promise, the reason why there is none.
        """
        return sentence_of(self)

    @property
    def chosen_one(self) -> CertifiedCandidate | None:
        """The certified candidate that the search had chosen; None if it is not certified."""
        own = None if self.chosen is None else self.chosen.candidate
        return next((c for c in self.candidates if c.candidate == own), None)

    @property
    def suitable(self) -> list[CertifiedCandidate]:
        """The certified candidates that keep, on the searched rows, what the choice kept."""
        return [one for one in self.candidates if one.keeps]

    @property
    def why_not_kept(self) -> str:
        """Say what could be certified, if none of it keeps what the choice kept; else ""."""
        if self.suitable or not self.candidates:
            return ""
        first = [c.candidate for c in self.candidates[:5]]
        listed = [f"{one.design}: {one.evaluation.in_one_line}" for one in first]
        return (
            f"{len(self.candidates):,} candidates could be certified, but on the searched rows "
            "none keeps what the choice kept: every class, and the conditions of the default. As "
            f"selected: {'; '.join(listed)}{', ...' * (len(self.candidates) > 5)}. To use one of "
            "them, choose it and certify it on other rows."
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes beside the promise: the ladder, the choice, and which candidates were left out."""
        notes = [BY_LADDER] * (self.way == LADDER)
        if self.chosen is not None:
            notes.append(self.chosen.sentence(self.chosen_one))
        if self.filters:
            notes.append(
                "Candidates were left out unless their selected figures show: "
                + Message("; ").join(self.filters)
                + ". This is a filter, not a promise."
            )
        if self.stake is not None:
            notes.append(self.stake.note(self.rows))
        if self.groups is not None:
            notes.append(self.groups.note)
            if self.certified and self.shortfalls:
                notes.append(f"Not listed: {'; '.join(map(str, self.shortfalls))}.")
        return tuple(notes)

    @property
    def groups_passed(self) -> tuple[Any, ...]:
        """The groups in which all certified candidates keep the targets; () if not by group."""
        return tuple(own.group for own in self.candidates[0].groups) if self.candidates else ()

    def select(self, by: str = "cost", *, min_coverage: float | None = None) -> CertifiedCandidate:
        """Choose a certified candidate: the lowest cost, or the highest coverage or accuracy.

        The promise holds for all of them at once. Candidates that do not keep what the choice of
        the search kept are left out, and those that accept too few calibration rows; if no other
        candidate is certified, this raises an error. `candidates` lists all of them.

        Parameters
        ----------
        by : {"cost", "coverage", "accuracy"}, default="cost"
            What to optimise, on the calibration rows.
        min_coverage : float, default=None
            The minimum share of calibration rows accepted. None: `least_coverage`. 0: any.

        Raises
        ------
        CertificateError
            If no candidate is certified, or none of them keeps enough and accepts enough rows.
        """
        if by not in _BEST:
            raise CertificateError(
                Parameter("by")
                + f" must be one of {', '.join(_BEST)}; got {by!r}"
                + nearest(by, _BEST),
                value=by,
            )
        if not self.candidates:
            raise CertificateError(self.sentence)
        least = self.least_coverage if min_coverage is None else min_coverage
        if not self.suitable:
            raise CertificateError(self.why_not_kept)
        covering = [c for c in self.suitable if c.evaluation.coverage >= least]
        if not covering:
            most = max(c.evaluation.coverage for c in self.suitable)
            raise CertificateError(
                f"None of the {len(self.suitable):,} certified candidates accepts at least "
                f"{percent(least)} of the calibration rows; the most that one accepts is "
                f"{percent(most)}. Use select(..., min_coverage=0) to choose among them anyway."
            )
        best = MEASURES[by]
        return min(covering, key=lambda c: best.sign * best.of(c.evaluation))

    def bounds_asked(self, candidate: CertifiedCandidate) -> list[RequestedBound]:
        """Return the bounds of a certified candidate on the given targets, each with a phrase.

        Its other bounds hold as well, but are not shown.
        """
        found = []
        for measure, value in self.targets.measures():
            for label, bound in candidate.bounds.on(measure).items():
                if label is None or label in value:
                    share = f"{bound:.1%}" if measure.is_share else f"{bound:.4g} {self.unit}"
                    than = "at least" if measure.is_better_high else "at most"
                    phrase = measure.does.format(limit=f"{than} {share}".rstrip(), label=label)
                    found.append(RequestedBound(measure, label, bound, phrase))
        return found

    def holds_for(self, model: CascadeClassifier | CascadeSearchCV) -> bool:
        """Return whether a cascade, or the one chosen by a search, is certified."""
        return self._find(model) is not None

    def check(self, model: CascadeClassifier | CascadeSearchCV) -> CertifiedCandidate:
        """Return the certified candidate of a cascade, or of a search's choice, or raise."""
        found = self._find(model)
        if found is None:
            enforced = (
                ""
                if self.stake is None or self._is_capped(model)
                else (
                    f" Its cap on {self.stake.column!r}, {self.stake.cap:,.10g}, is not enforced: "
                    "use the cascade that `certificate.enforce(model)` returns."
                )
            )
            raise CertificateError(
                "The certificate does not hold for this cascade: its fingerprint matches none of "
                f"the {len(self.candidates)} certified cascades."
                + (
                    enforced
                    or " It was fitted again, changed, or never certified, and needs its own "
                    "certificate on rows that were not used yet."
                )
            )
        return found

    def enforce(self, model: CascadeClassifier | CascadeSearchCV) -> CascadeClassifier:
        """Return a certified cascade that rejects all rows with a stake above the cap.

        A certificate of shares of a stake is about this cascade, and not about the one without the
        cap. It needs the stake of every row: `decide(X, stake=)`, or the column in X, in a file or
        among the `known` values of a live row. Without stakes, it raises an error.

        Parameters
        ----------
        model : CascadeClassifier or CascadeSearchCV
            A certified cascade, or the search that has chosen it.

        Examples
        --------
        >>> import numpy as np
        >>> from emsco import CascadeClassifier
        >>> from emsco.certify import certify
        >>> from emsco.datasets import make_costly_classification
        >>> X, y, costs = make_costly_classification(3000, 3, class_sep=3, random_state=0)
        >>> stake = np.random.default_rng(0).uniform(1, 100, len(y))
        >>> cascade = CascadeClassifier(costs=costs).fit(X[:1000], y[:1000])
        >>> certificate = certify(
        ...     cascade, X[1000:], y[1000:], accuracy=0.9, stake=stake[1000:], cap=80
        ... )
        >>> certificate.holds_for(cascade)
        False
        >>> capped = certificate.enforce(cascade)
        >>> capped.decide(X[:2], stake=[50, 90]).reason.tolist()
        ['', 'above cap: stake']
        """
        if self.stake is None:
            raise CertificateError("This certificate has no cap on stakes, so none is enforced.")
        cascade = model if isinstance(model, CascadeClassifier) else model.best_cascade_
        capped = with_cap(cascade, self.stake.rule)
        self.check(capped)
        capped.certificate_ = self
        return capped

    def _is_capped(self, model: CascadeClassifier | CascadeSearchCV) -> bool:
        """Return whether a model enforces the cap of the certificate."""
        decider = getattr(getattr(model, "best_cascade_", model), "decider_", None)
        return decider is not None and self.stake is not None and decider.cap == self.stake.rule

    def _find(self, model: CascadeClassifier | CascadeSearchCV) -> CertifiedCandidate | None:
        is_cascade = isinstance(model, CascadeClassifier)
        cascade: Any = model if is_cascade else getattr(model, "best_cascade_", None)
        if cascade is None:
            return None
        own = fingerprint(cascade)
        return next((c for c in self.candidates if c.fingerprint == own), None)

    def to_data(self) -> dict[str, Any]:
        """Return the certificate as plain values, for files.

        Examples
        --------
        >>> from emsco import CascadeClassifier
        >>> from emsco.certify import Certificate, certify
        >>> from emsco.datasets import make_costly_classification
        >>> X, y, costs = make_costly_classification(800, 3, class_sep=3, random_state=0)
        >>> cascade = CascadeClassifier(costs=costs).fit(X[:400], y[:400])
        >>> certificate = certify(cascade, X[400:], y[400:], accuracy=0.8)
        >>> Certificate.from_data(certificate.to_data()) == certificate
        True
        """
        return certificate_to(self)

    @classmethod
    def from_data(cls, data: Any) -> Certificate:
        """Rebuild a certificate from the values of `to_data`, or raise if they are invalid."""
        try:
            return certificate_from(cls, data)
        except CertificateError:
            raise
        except (EmscoError, TypeError, ValueError) as error:  # of a part that checks itself
            raise CertificateError(f"The data does not describe a certificate: {error}") from error

    def __repr__(self) -> str:
        table = text_table(*table_of(self)) if self.candidates else rows_sentence(self)
        return "\n".join([self.sentence, *self.notes, table])

    def _repr_html_(self) -> str:
        paragraphs = "".join(f"<p>{escape(line)}</p>" for line in (self.sentence, *self.notes))
        table = html_table(*table_of(self)) if self.candidates else escape(rows_sentence(self))
        return f"{paragraphs}{table}"


def problem_with(certificate: Any, model: CascadeClassifier | CascadeSearchCV) -> str:
    """Return why a certificate does not hold for a model; "" if it does."""
    try:
        certificate.check(model)
    except CertificateError as error:
        return str(error)
    return ""
