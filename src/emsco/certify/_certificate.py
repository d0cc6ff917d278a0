"""Certificates: a promise about cascades and its assumptions, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, fields
from html import escape
from typing import Any

from emsco._utils.text_table import html_table, numbered_rows, text_table
from emsco.cascade import CascadeClassifier
from emsco.cascade.fingerprint import fingerprint
from emsco.certify._certified_candidate import CertifiedCandidate, ChosenCandidate, RequestedBound
from emsco.certify._path import BY_LADDER, FRONT, LADDER
from emsco.certify._serialization import (
    expect,
    expect_keys,
    number,
    shortfall_from,
    targets_from,
    texts,
    whole,
)
from emsco.certify._targets import Shortfall, Targets, percent, percentage
from emsco.certify.binomial import check_between
from emsco.core.front import learners_of
from emsco.core.measure import share_of
from emsco.core.measures import MEASURES, columns
from emsco.exceptions import CertificateError, EmscoError, Message, Parameter, nearest
from emsco.search import CascadeSearchCV

_POINTS = "all thresholds that the ladder could have reached"
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
    by : {"front", "ladder"}, default="front"
        What was tested: candidates of the front, or thresholds of one design from strict to loose.
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
    by: str = FRONT

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
        if not self.certified:
            return f"Not certified: {'; '.join(map(str, self.shortfalls))}."
        grouped = self.rows + self.left_out < self.rows_given
        risk = (1 - self.confidence) * self.share
        sure = f"{100 - percentage(risk):.12g}%"
        unit = "groups" if grouped else "rows"
        alike = f"new {unit} resemble the calibration {unit}"
        plain = (
            f"With {sure} confidence, {self.targets.promise(self.unit)}"
            f"{', counting one random row per group' if grouped else ''}, provided that {alike}."
        )
        drawn = f"{self.rows:,} calibration rows{', one from each group' if grouped else ''}"
        future = "a random row of a random new group is" if grouped else "future rows are"
        exact = (
            f"More exactly, over the random draw of the {drawn}, the probability of certifying any "
            f"cascade that actually {self.targets.broken(self.unit)} is at most "
            f"{percent(risk)}, if {future} exchangeable with the calibration rows."
        )
        return " ".join([plain, exact, *self.doubts])

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
        notes = [BY_LADDER] * (self.by == LADDER)
        if self.chosen is not None:
            notes.append(self.chosen.sentence(self.chosen_one))
        if self.filters:
            notes.append(
                "Candidates were left out unless their selected figures show: "
                + Message("; ").join(self.filters)
                + ". This is a filter, not a promise."
            )
        return tuple(notes)

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
            raise CertificateError(
                "The certificate does not hold for this cascade: its fingerprint matches none of "
                f"the {len(self.candidates)} certified cascades. It was fitted again, changed, or "
                "never certified, and needs its own certificate on rows that were not used yet."
            )
        return found

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
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        known = [c.candidate.design.names for c in (*self.candidates, self.chosen) if c is not None]
        names = known[0] if known else None
        data = own | {
            "targets": self.targets.to_dict(),
            "sources": None if names is None else list(names),
            "candidates": [candidate.to_data() for candidate in self.candidates],
            "shortfalls": [shortfall._asdict() for shortfall in self.shortfalls],
            "doubts": list(self.doubts),
            "chosen": None if self.chosen is None else self.chosen.to_data(),
            "filters": list(map(str, self.filters)),
        }
        if self.by == FRONT:  # what files said before there was anything else
            del data["by"]
        return data

    @classmethod
    def from_data(cls, data: Any) -> Certificate:
        """Rebuild a certificate from the values of `to_data`, or raise if they are invalid."""
        try:
            return cls._from_data(data)
        except CertificateError:
            raise
        except (EmscoError, TypeError, ValueError) as error:  # of a part that checks itself
            raise CertificateError(f"The data does not describe a certificate: {error}") from error

    @classmethod
    def _from_data(cls, data: Any) -> Certificate:
        by = data.get("by", FRONT) if isinstance(data, dict) else FRONT
        own = [field.name for field in fields(cls) if field.name != "by" or by != FRONT]
        expect_keys(data, [*own, "sources"])
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
            rows=whole(data["rows"], "rows", rows_given),
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
            by=by,
        )
        if (
            by not in (FRONT, LADDER)
            or not certificate.rows
            or certificate.rows + certificate.left_out > rows_given
            or not certificate.share
            or len(certificate.candidates) > certificate.tried
            or (certificate.candidates and certificate.shortfalls)
            or any(c.evaluation.rows != certificate.rows for c in certificate.candidates)
            or len({c.bounds.labels() for c in certificate.candidates}) > 1
        ):
            raise CertificateError("A certificate has counts that contradict one another.")
        return certificate

    def _table(self) -> Any:
        """Return the header, rows and caption of the table of certified candidates."""
        among = f"the {self.tried:,} candidates that could have been listed"
        caption = (
            f"All these bounds hold at once, with a confidence of their own as high as that of the "
            f"promise. They are adjusted for {_POINTS if self.by == LADDER else among}, so they "
            f"are wider than the promise, which needs no adjustment. {self._rows_sentence()}"
        )
        return *self._cells(), caption

    def _cells(self) -> tuple[list[str], list[list[object] | None]]:
        """Return the header and the rows of a table; a star marks the chosen candidate.

        Figures are as counted on the calibration rows, by class too; bounds come last.
        """
        evaluations = [one.evaluation for one in self.candidates]
        table: dict[str, list[object]] = {
            "design": [str(one.candidate.design) for one in self.candidates],
            "threshold": [one.candidate.threshold for one in self.candidates],
            **learners_of([one.candidate for one in self.candidates]),
            "accepted": [int(e.accepted) for e in evaluations],
            "wrong": [int(e.accepted - e.right) for e in evaluations],
            "coverage": [e.coverage for e in evaluations],
            "cost": [e.cost for e in evaluations],
        }
        for label in evaluations[0].class_rows:
            for measure in columns(by_class=True)[:2]:
                shares = [share_of(*measure.count(e, label)) for e in evaluations]
                table[measure.name_of(label)] = [*shares]
        for bounds in zip(*map(self.bounds_asked, self.candidates), strict=True):
            table[bounds[0].head] = [bound.value for bound in bounds]
        header, rows = numbered_rows(table)
        chosen = self.chosen_one
        for row in rows:
            if row is not None and chosen is not None and row[0] == self.candidates.index(chosen):
                row[0] = f"*{row[0]}"
        return header, rows

    def _rows_sentence(self) -> str:
        used = f"{self.rows:,} of {self.rows_given:,} calibration rows used"
        if self.twins is None:
            return f"{used}."
        return f"{used}; {self.twins:,} equal a fitted row in every value."

    def __repr__(self) -> str:
        table = text_table(*self._table()) if self.candidates else self._rows_sentence()
        return "\n".join([self.sentence, *self.notes, table])

    def _repr_html_(self) -> str:
        paragraphs = "".join(f"<p>{escape(line)}</p>" for line in (self.sentence, *self.notes))
        table = html_table(*self._table()) if self.candidates else escape(self._rows_sentence())
        return f"{paragraphs}{table}"


def problem_with(certificate: Any, model: CascadeClassifier | CascadeSearchCV) -> str:
    """Return why a certificate does not hold for a model; "" if it does."""
    try:
        certificate.check(model)
    except CertificateError as error:
        return str(error)
    return ""
