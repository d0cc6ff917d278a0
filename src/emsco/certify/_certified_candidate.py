"""What a certificate says about one candidate: figures and bounds, or why it is not certified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from emsco._utils.text_table import cell
from emsco.certify._certified_bounds import CertifiedBounds
from emsco.certify._serialization import (
    candidate_from,
    candidate_to,
    evaluation_from,
    evaluation_keys,
    evaluation_to,
    expect,
    expect_keys,
    number,
    whole,
)
from emsco.core.evaluation import Evaluation
from emsco.core.front import Candidate
from emsco.exceptions import CertificateError


@dataclass(frozen=True)
class CertifiedGroup:
    """What a certificate says of one group of rows, as a certified candidate decides them.

    Parameters
    ----------
    group : str, int, float or bool
        The group.
    evaluation : Evaluation
        The evaluation on its calibration rows.
    reached : tuple of int
        The number of its calibration rows that bought each stage.
    p_value : float
        The p-value of the hypothesis that some target is broken in this group.
    bounds : CertifiedBounds
        Bounds on its true figures; those of all groups hold at once.
    """

    group: Any
    evaluation: Evaluation
    reached: tuple[int, ...]
    p_value: float
    bounds: CertifiedBounds

    def to_data(self) -> dict[str, Any]:
        """Return it as plain values and lists of them."""
        return {
            "group": self.group,
            **evaluation_to(self.evaluation, "fresh"),
            "reached": list(self.reached),
            "p_value": self.p_value,
            **self.bounds.to_data(),
        }

    @classmethod
    def from_data(cls, data: Any) -> CertifiedGroup:
        """Rebuild it from the values of `to_data`."""
        own = ["group", *evaluation_keys("fresh"), "reached", "p_value"]
        expect_keys(data, [*own, *CertifiedBounds.keys_in(data)])
        return cls(
            data["group"],
            evaluation_from(data, "fresh"),
            tuple(whole(n, "rows of a group") for n in expect(data["reached"], list, "reached")),
            number(data["p_value"], "p-value", 0, 1),
            CertifiedBounds.from_data(data),
        )


@dataclass(frozen=True)
class CertifiedCandidate:
    """A certified candidate, with its counts on the calibration rows.

    Parameters
    ----------
    candidate : Candidate
        Design and threshold; its own evaluation is the selected one.
    fingerprint : str
        The fingerprint of the fitted cascade that was tested.
    evaluation : Evaluation
        The evaluation on the calibration rows.
    reached : tuple of int
        The number of calibration rows that bought each stage.
    prices : tuple of float
        What a row has paid in total after buying each stage.
    p_value : float
        The p-value of the hypothesis that some target is broken.
    bounds : CertifiedBounds
        Lower bound of accuracy, both bounds of coverage, upper bounds of cost and of the share
        missed per class; upper bounds of the share rejected and lower bounds of precision for the
        labels that were asked for.
    keeps : bool, default=True
        Whether it keeps, on the searched rows, what the choice of the search kept: the conditions
        of the default choice, and every class. Others are listed, but not used in its place.
    """

    candidate: Candidate
    fingerprint: str
    evaluation: Evaluation
    reached: tuple[int, ...]
    prices: tuple[float, ...]
    p_value: float
    bounds: CertifiedBounds
    keeps: bool = True
    groups: tuple[CertifiedGroup, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """Return the candidate as plain values and lists of them."""
        data = {
            **candidate_to(self.candidate),
            "fingerprint": self.fingerprint,
            **evaluation_to(self.evaluation, "fresh"),
            "reached": list(self.reached),
            "prices": list(self.prices),
            "p_value": self.p_value,
            **self.bounds.to_data(),
        }
        if self.groups:
            data["groups"] = [group.to_data() for group in self.groups]
        return data if self.keeps else data | {"keeps": False}

    @classmethod
    def from_data(cls, data: Any, names: tuple[str, ...] | None) -> CertifiedCandidate:
        """Rebuild it from the values of `to_data`; `names` are the names of the sources."""
        optional = {"keeps", "learner", "groups"}
        more = optional & data.keys() if isinstance(data, dict) else ()
        expect_keys(data, [*_KEYS, *more, *CertifiedBounds.keys_in(data)])
        if "keeps" in data and data["keeps"] is not False:
            raise CertificateError("A certificate says `keeps` only of a candidate that does not.")
        candidate = candidate_from(data, names)
        evaluation = evaluation_from(data, "fresh")
        reached = tuple(
            whole(n, "rows that bought a stage") for n in expect(data["reached"], list, "reached")
        )
        prices = tuple(number(price, "price") for price in expect(data["prices"], list, "prices"))
        if (
            {len(reached), len(prices)} != {candidate.design.n_stages}
            or reached[0] < evaluation.rows
            or list(reached) != sorted(reached, reverse=True)
        ):
            raise CertificateError("A certificate has counts that contradict one another.")
        groups = [] if "groups" not in data else expect(data["groups"], list, "groups")
        return cls(
            candidate,
            expect(data["fingerprint"], str, "fingerprint"),
            evaluation,
            reached,
            prices,
            number(data["p_value"], "p-value", 0, 1),
            CertifiedBounds.from_data(data),
            keeps="keeps" not in data,
            groups=tuple(CertifiedGroup.from_data(own) for own in groups),
        )


_KEYS = [
    "assignment", "threshold", *evaluation_keys("selected"), "fingerprint",
    *evaluation_keys("fresh"), "reached", "prices", "p_value",
]  # fmt: skip


@dataclass(frozen=True)
class ChosenCandidate:
    """The candidate that a search had chosen at the time of a certificate.

    Parameters
    ----------
    candidate : Candidate
        The candidate with its selected figures.
    tested : bool
        Whether it was tested.
    why : str
        Why it was not tested, or what its test lacked; "" if it is certified.
    """

    candidate: Candidate
    tested: bool
    why: str

    def sentence(self, certified: CertifiedCandidate | None) -> str:
        """Say what was chosen, and what became of it; `certified` is what it is listed as."""
        own = self.candidate
        if certified is not None:
            counted = certified.evaluation.in_one_line
            result = f"It is certified; on the calibration rows: {counted}"
        elif self.tested:
            result = f"It was tested and is not certified: {self.why}"
        else:
            result = f"It was not tested: {self.why}"
        return (
            f"Chosen: {own.title} at threshold {cell(own.threshold)}. As selected: "
            f"{own.evaluation.in_one_line}. {result}."
        )

    def to_data(self) -> dict[str, Any]:
        """Return it as plain values."""
        return candidate_to(self.candidate) | {"tested": self.tested, "why": self.why}

    @classmethod
    def from_data(cls, data: Any, names: tuple[str, ...] | None) -> ChosenCandidate:
        """Rebuild it from the values of `to_data`; `names` are the names of the sources."""
        more = {"learner"} & data.keys() if isinstance(data, dict) else ()
        selected = evaluation_keys("selected")
        expect_keys(data, ["assignment", "threshold", *more, *selected, "tested", "why"])
        if not isinstance(data["tested"], bool):
            raise CertificateError(
                "A certificate must say whether the chosen candidate was tested."
            )
        return cls(candidate_from(data, names), data["tested"], expect(data["why"], str, "reason"))
