"""From what a user asks for to a question: promises in numbers, terms by what is expected.

Nothing here may look at a final answer to a row of the walk. What is expected comes from the trust
of the cheap answers, which says how many of them are wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.batch.cheap_answers import CheapAnswers, are_shares, walk_order
from emsco.batch.coins import shuffled
from emsco.batch.label_codes import LabelCodes
from emsco.batch.promises import NEVER, NO_LABEL, Codes, Kind, Promise
from emsco.batch.question import HeldOutRows, Question
from emsco.batch.spot_checks import Risk, Terms, allowed, best_terms
from emsco.certify.check_rate import NOTHING_HELD_OUT, HeldOut
from emsco.exceptions import BatchError, Keyword, Parameter

_EXPECTED_CLASS = 0.9  # of the rows that are expected of a class, as many are counted on


@dataclass(frozen=True)
class Wish:
    """What a user asks for.

    Parameters
    ----------
    agreement : float or None
        The least share of labels that are as the final model's.
    confidence : float
        One minus the probability that any promise is broken.
    max_missed, min_precision : mapping of label to share
        Of the rows that the final model calls this, the largest share labelled otherwise; of the
        rows labelled this, the least share that the final model calls so.
    questions : int
        How many questions about these rows share the confidence.
    """

    agreement: float | None
    confidence: float
    max_missed: Mapping[Any, float]
    min_precision: Mapping[Any, float]
    questions: int = 1

    @classmethod
    def of(
        cls,
        agreement: float | None,
        confidence: float,
        max_missed: Mapping[Any, float] | None,
        min_precision: Mapping[Any, float] | None,
        questions: int,
    ) -> Wish:
        """Check what a user asks for."""
        _share("confidence", confidence)
        if agreement is not None:
            _share("agreement", agreement)
        bounds = {"max_missed": max_missed or {}, "min_precision": min_precision or {}}
        for name, mapping in bounds.items():
            if not isinstance(mapping, Mapping):
                raise BatchError(Parameter(name) + f" must map labels to shares, got {mapping!r}.")
            for label, share in mapping.items():
                _share(f"{name}[{label!r}]", share)
        if agreement is None and not any(bounds.values()):
            raise BatchError("Nothing is promised: give `agreement`, `max_missed` or "
                             "`min_precision`.")  # fmt: skip
        if isinstance(questions, bool) or not isinstance(questions, int) or questions < 1:
            raise BatchError(f"`questions` must be a whole number from 1 on, got {questions!r}.")
        return cls(agreement, confidence, **bounds, questions=questions)

    @property
    def allowed_error(self) -> float:
        """The probability that may go wrong with all questions about these rows."""
        return float(1 - Fraction(str(self.confidence)))

    @property
    def level(self) -> float:
        """The part of it that this question uses."""
        return self.allowed_error / self.questions

    def plain(self) -> list[Any]:
        """Return it as plain values."""
        bounds = [sorted(map(list, each.items()), key=repr)
                  for each in (self.max_missed, self.min_precision)]  # fmt: skip
        return [self.agreement, self.confidence, *bounds, self.questions]


def _share(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
        raise BatchError(f"`{name}` must be a number between 0 and 1, got {value!r}.")


def make_promises(
    wish: Wish,
    cheap: CheapAnswers,
    codes: LabelCodes,
    planned: Codes,
    beside: CheapAnswers | None = None,
) -> list[Promise]:
    """Return the promises in numbers, which are fixed before the first answer.

    How many rows are of a class is known only in the end; here it is estimated, with the answers
    by which may be planned. `beside` are held-out rows that are not of the batch: the estimate is
    one of both together, because by their answers it must not matter which of them are held out.
    """
    n_rows = len(cheap)
    n_promises = (wish.agreement is not None) + len(wish.max_missed) + len(wish.min_precision)
    error = wish.level / n_promises
    promises = []
    if wish.agreement is not None:
        share = 1 - Fraction(str(wish.agreement))
        most = allowed(n_rows, wish.agreement)
        if not most:
            raise BatchError(
                Keyword("agreement", wish.agreement)
                + f" allows no different label among {n_rows:,} rows, so every row would have to "
                f"be sent. It saves calls from {ceil(1 / share):,} rows on."
            )
        promises.append(Promise("agreement", NO_LABEL, share, most, error))
    if n_promises == len(promises):
        return promises
    is_open = planned < 0
    union = codes.read(cheap.labels)[is_open], cheap.trust[is_open]
    scale = 1.0
    if beside is not None:
        scale = len(union[0]) / max(len(union[0]) + len(beside), 1)
        union = (np.append(union[0], codes.read(beside.labels)),
                 np.append(union[1], beside.trust))  # fmt: skip
    by_class: list[tuple[Kind, str, Mapping[Any, float]]] = [
        ("missed", "max_missed", wish.max_missed),
        ("false", "min_precision", wish.min_precision),
    ]
    for kind, parameter, bounds in by_class:
        for label, bound in bounds.items():
            code = codes.known(label, f"`{parameter}`")
            share = Fraction(str(bound)) if kind == "missed" else 1 - Fraction(str(bound))
            known = int((planned == code).sum())
            expected = _EXPECTED_CLASS * (known + scale * _expected(*union, code))
            ratio = share / (1 - share) if kind == "missed" else share
            most = int(Fraction(expected) * ratio)
            if not most:
                rows = ceil(n_rows / max(float(expected * ratio), 1e-9))
                raise BatchError(
                    Keyword(parameter, {label: bound})
                    + f" allows no wrong label: about {expected:.0f} rows of this class are "
                    f"expected among {n_rows:,}. It saves calls from about {rows:,} rows on."
                )
            promises.append(Promise(kind, code, share, most, error))
    return promises


def _expected(cheap: Codes, trust: NDArray[np.float64], code: int) -> float:
    """Return how many rows of a class are expected, by their cheap answers."""
    own, others = cheap == code, (cheap != code) & (cheap != NO_LABEL)
    if not are_shares(trust):
        return float(own.sum())
    sure = np.nan_to_num(trust, nan=0.0)
    n_other = max(len(np.unique(cheap[cheap != NO_LABEL])) - 1, 1)
    return float(sure[own].sum() + (1 - sure[others]).sum() / n_other)


@dataclass(frozen=True)
class Arrangement:
    """All rows in their order, with held-out ones between them."""

    cheap: Codes
    known: NDArray[np.bool_]
    order: NDArray[np.intp]
    trust: NDArray[np.float64]  # down the order
    held: HeldOutRows
    held_trust: NDArray[np.float64]


def arrange(
    cheap: CheapAnswers,
    codes: LabelCodes,
    known: Codes,
    secret: bytes,
    log: tuple[CheapAnswers, Any] | None = None,
) -> Arrangement:
    """Put rows in order, the most trusted first.

    `known` has the codes of rows that were answered beforehand, NEVER for the others.
    """
    cheap_codes = codes.read(cheap.labels)
    cheap_codes[np.isnan(cheap.trust)] = NO_LABEL
    is_known = known != NEVER
    walked = np.flatnonzero(~is_known & (cheap_codes != NO_LABEL))
    held_cheap, held_trust, held_final = _held(log, codes)
    trust = np.append(cheap.trust[walked], held_trust)
    both = walk_order(trust, shuffled(secret, "ties", len(trust)))
    of_batch = both < len(walked)
    order = walked[both[of_batch]]
    held = both[~of_batch] - len(walked)
    above = np.cumsum(of_batch, dtype=np.intp)[~of_batch]
    return Arrangement(
        cheap=cheap_codes,
        known=is_known,
        order=order,
        trust=cheap.trust[order],
        held=HeldOutRows(held_cheap[held], held_final[held], above),
        held_trust=held_trust[held],
    )


def make_terms(promises: Sequence[Promise], rows: Arrangement) -> Terms:
    """Return the terms by which the fewest calls are expected."""
    n_rows, n_held = len(rows.order), len(rows.held_trust)
    counts = HeldOut(n_held, n_rows + n_held) if n_held else NOTHING_HELD_OUT
    risks = None
    if are_shares(np.append(rows.trust, rows.held_trust)):
        risks = [_risk(each, rows) for each in promises]
    terms = best_terms([each.allowance for each in promises], risks, n_rows, counts)
    return terms or Terms(1.0, tuple(0 for _ in promises), float(n_rows), 0.0)


def make_question(
    wish: Wish,
    cheap: CheapAnswers,
    codes: LabelCodes,
    known: Codes,
    secret: bytes,
    *,
    log: tuple[CheapAnswers, Any] | None = None,
    within: bool = False,
    planned: Codes | None = None,
    fixed: Sequence[Any] | None = None,
) -> Question:
    """Fix all that decides; `fixed` are promises and terms that were fixed before.

    `within` says that the rows of the log are rows of the batch, too. `planned` are those of the
    known answers by which may be planned: held-out answers serve
    nothing else, so they are not among them.
    """
    rows = arrange(cheap, codes, known, secret, log)
    beside = None if log is None or within else log[0]
    if fixed is not None:
        promises = [Promise(kind, code, Fraction(share), most, error)
                    for kind, code, share, most, error in fixed[0]]  # fmt: skip
        terms = Terms(fixed[1], tuple(fixed[2]), fixed[3], fixed[4])
    else:
        promises = make_promises(wish, cheap, codes, known if planned is None else planned, beside)
        terms = make_terms(promises, rows)
    return Question(
        labels=codes.labels,
        cheap=rows.cheap,
        order=rows.order,
        known=rows.known,
        promises=tuple(promises),
        terms=terms,
        secret=secret,
        held_out=rows.held if len(rows.held_trust) else None,
    )


def fixed_of(question: Question) -> list[Any]:
    """Return the promises and terms of a question as plain values."""
    terms = question.terms
    promises = [[p.kind, p.code, str(p.share), p.most, p.error] for p in question.promises]
    plain = [promises, terms.rate, list(terms.tolerated), terms.expected_checks,
             terms.expected_cheap]  # fmt: skip
    return list(json.loads(json.dumps(plain)))


def _held(
    log: tuple[CheapAnswers, Any] | None, codes: LabelCodes
) -> tuple[Codes, NDArray[np.float64], Codes]:
    """Return cheap codes, trust and final codes of the held-out rows that have a cheap answer."""
    if log is None:
        none = np.empty(0, dtype=np.int32)
        return none, np.empty(0), none
    cheap, final = log
    cheap_codes, final_codes = codes.read(cheap.labels), codes.read(final)
    there = (cheap_codes != NO_LABEL) & ~np.isnan(cheap.trust)
    return cheap_codes[there], cheap.trust[there], final_codes[there]


def _risk(promise: Promise, rows: Arrangement) -> Risk:
    """Return the expected disagreements of a promise, down the order.

    They are those of the batch and of held-out rows together, each side with its share: which rows
    are held out must not matter.
    """
    own = np.where(promise.concerns(rows.cheap[rows.order]), 1 - rows.trust, 0.0)
    if not len(rows.held_trust):
        return Risk(np.cumsum(own))
    held = np.where(promise.concerns(rows.held.cheap), 1 - rows.held_trust, 0.0)
    n_rows, n_all = len(own), len(own) + len(held)
    expected = np.cumsum(np.insert(own, rows.held.above, held))
    ranks = np.linspace(0, n_all - 1, n_rows).round().astype(np.intp)
    share = n_rows / n_all
    return Risk(share * expected[ranks], (1 - share) * expected[ranks])
