"""What was decided about each row: label, accepted, exit stage, confidence, cost, reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco._utils.text_table import html_table, row_positions, text_table
from emsco.exceptions import DecisionsError, require

ACCEPTED = ""
LOW_CONFIDENCE = "low confidence"
INVALID_VALUE = "invalid value"
INVALID_KEY = "invalid key"
OUT_OF_RANGE = "out of range"
UNSEEN_CATEGORY = "unseen category"
ABOVE_CAP = "above cap"
# For sources that are fetched live.
TIMEOUT = "timeout"
ERROR = "error"
MISSING = "missing"
AMBIGUOUS = "ambiguous"
STALE = "stale"
CIRCUIT_OPEN = "circuit open"
BUDGET = "budget"
DEADLINE = "deadline"
STATE_LOST = "state lost"
# Why rows are rejected. Where a column or a source is the reason, it is named: "out of range: TSH".
KINDS = (
    LOW_CONFIDENCE, INVALID_VALUE, INVALID_KEY, OUT_OF_RANGE, UNSEEN_CATEGORY, ABOVE_CAP,
    TIMEOUT, ERROR, MISSING, AMBIGUOUS, STALE, CIRCUIT_OPEN, BUDGET, DEADLINE,
    STATE_LOST,
)  # fmt: skip


def reason_for(kind: str, column: str) -> str:
    """Return the reason for rejection, with the name of the column that causes it."""
    return f"{kind}: {column}"


def kind_of(reason: str) -> str:
    """Return the kind of a reason, without the column."""
    return reason.partition(": ")[0]


class Decision(NamedTuple):
    """The decision about one row."""

    label: Any
    accepted: bool
    exit_stage: int
    confidence: float
    cost: float
    reason: str
    latency: float
    receipt: Any = None  # what was fetched, paid and waited; None where nothing was fetched live
    factors: Any = None  # what each feature contributed; None unless it was asked for
    share: float | None = None  # of the label, by label weights; None if these are equal


FIELDS = Decision._fields[:7]  # of every row, offline and live
SHARE = "share"  # a field only if labels have weights, after the confidence
_FIELDS_WITH_SHARE = (*FIELDS[:4], SHARE, *FIELDS[4:])
_OWN_SHARE = "_share"  # where it is then
_STORED = FIELDS[:-2]  # of every row; a reason and a latency may follow from the others


class Decisions:
    """The decisions about many rows, as read-only arrays of one length.

    Parameters
    ----------
    label : array
        The label given by the last stage bought. It is always a class, even if the row is rejected.
    accepted : array of bool
        The only field that says whether a row was rejected.
    exit_stage : array of int
        The last stage bought, counted from 0.
    confidence : array of float
        That stage's probability of the label; the largest one, unless labels have weights.
    cost : array of float
        What was paid for the row.
    reason : array of str, default=None
        Why a row was rejected; "" if it was accepted. None: every rejected row was rejected for low
        confidence.
    latency : array of float, default=None
        How long the row waited for its sources. None: no row waited.
    index : pandas Index, default=None
        The index of the rows, if they came in a pandas frame; `to_frame` keeps it.
    share : array of float, default=None
        That stage's share of the label, by label weights, which is compared with the threshold.
        None: labels have equal weights, and the share is the confidence.

    Examples
    --------
    >>> from emsco import Decisions
    >>> decisions = Decisions(
    ...     label=["well", "sick"],
    ...     accepted=[True, False],
    ...     exit_stage=[0, 1],
    ...     confidence=[0.97, 0.6],
    ...     cost=[1.0, 21.0],
    ... )
    >>> decisions
    row  label  accepted  exit_stage  confidence  cost  reason
      0  well   yes                0        0.97     1
      1  sick   no                 1         0.6    21  low confidence
    >>> decisions[1].reason
    'low confidence'
    >>> len(decisions[decisions.accepted])
    1
    """

    label: NDArray[Any]
    accepted: NDArray[np.bool_]
    exit_stage: NDArray[np.intp]
    confidence: NDArray[np.float64]
    cost: NDArray[np.float64]
    index: Any = None  # of pandas; a row on its way through a live cascade has no time to set it
    receipts: Sequence[Any] | None = None  # one per row, where rows were decided live
    factors: Sequence[Any] | None = None  # one per row, where they were asked for
    library: str = "pandas"  # of the frame that `to_frame` returns

    def __init__(
        self,
        label: ArrayLike,
        accepted: ArrayLike,
        exit_stage: ArrayLike,
        confidence: ArrayLike,
        cost: ArrayLike,
        reason: ArrayLike | None = None,
        latency: ArrayLike | None = None,
        index: Any = None,
        share: ArrayLike | None = None,
    ) -> None:
        n_rows = np.shape(accepted)[0]
        if index is not None and len(index) != n_rows:
            raise DecisionsError(f"`index` must name {n_rows} rows, has {len(index)}.")
        if index is not None:
            self.__dict__["index"] = index
        fields = {
            "label": np.asarray(label),
            "accepted": np.asarray(accepted, dtype=np.bool_),
            "exit_stage": np.asarray(exit_stage, dtype=np.intp),
            "confidence": np.asarray(confidence, dtype=np.float64),
            "cost": np.asarray(cost, dtype=np.float64),
        }
        if latency is not None:
            fields["latency"] = np.asarray(latency, dtype=np.float64)
        if share is not None:
            fields["_share"] = np.asarray(share, dtype=np.float64)
        if reason is not None:
            fields["reason"] = np.asarray(reason, dtype=object)
            if not np.array_equal(fields["reason"] == ACCEPTED, fields["accepted"]):
                raise DecisionsError('`reason` must be "" exactly where a row is accepted.')
        for name, values in fields.items():
            if values.shape != (n_rows,):
                raise DecisionsError(
                    f"Every field must hold {n_rows} rows, {name!r} has the shape {values.shape}."
                )
            if values.flags.writeable:
                values = values.view()
                values.flags.writeable = False
            self.__dict__[name] = values

    @classmethod
    def trusted(
        cls,
        *,
        reason: NDArray[np.object_] | None,
        latency: NDArray[np.float64] | None,
        share: NDArray[np.float64] | None = None,
        **fields: NDArray[Any],
    ) -> Decisions:
        """Create decisions from new arrays that are known to be valid, without checking them.

        The decision loop uses this: one row takes about twenty microseconds in a live cascade, and
        checking its fields again would take ten more.
        """
        decisions = cls.__new__(cls)
        if reason is not None:
            fields["reason"] = reason
        if latency is not None:
            fields["latency"] = latency
        if share is not None:
            fields["_share"] = share
        for values in fields.values():
            values.setflags(write=False)
        decisions.__dict__.update(fields)
        return decisions

    @cached_property
    def reason(self) -> NDArray[np.object_]:
        """Why each row was rejected; "" if it was accepted."""
        reasons = np.array([LOW_CONFIDENCE, ACCEPTED], dtype=object)[self.accepted.view(np.int8)]
        reasons.flags.writeable = False
        return reasons

    @cached_property
    def latency(self) -> NDArray[np.float64]:
        """How long each row waited for its sources."""
        waited = np.zeros(len(self))
        waited.flags.writeable = False
        return waited

    @property
    def share(self) -> NDArray[np.float64]:
        """The share of each row's label; its confidence, if labels have equal weights."""
        share: NDArray[np.float64] | None = self._stored(_OWN_SHARE)
        return self.confidence if share is None else share

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that these decisions have: with `share` only if labels have weights."""
        return FIELDS if self._stored(_OWN_SHARE) is None else _FIELDS_WITH_SHARE

    def _stored(self, name: str) -> Any:
        """Return a field that may be left out; None if it follows from the others."""
        return self.__dict__.get(name)

    @classmethod
    def concatenate(cls, parts: Sequence[Decisions]) -> Decisions:
        """Concatenate the decisions about several blocks of rows."""
        if len(parts) == 1:
            return parts[0]

        def optional(name: str) -> NDArray[Any] | None:
            if all(part._stored(name) is None for part in parts):
                return None
            return np.concatenate([getattr(part, name) for part in parts])

        return cls.trusted(
            **{n: np.concatenate([getattr(part, n) for part in parts]) for n in _STORED},
            reason=optional("reason"),
            latency=optional("latency"),
            share=optional(_OWN_SHARE),
        )

    def beside(self, **fields: Any) -> Decisions:
        """Return the same decisions with an `index`, `library`, `receipts` or `factors`."""
        copy = Decisions.__new__(Decisions)
        copy.__dict__.update(self.__dict__, **fields)
        return copy

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Decisions never change; {name!r} cannot be set.")

    def __len__(self) -> int:
        return len(self.accepted)

    @overload
    def __getitem__(self, rows: int) -> Decision: ...

    @overload
    def __getitem__(self, rows: slice | NDArray[Any] | Sequence[Any]) -> Decisions: ...

    def __getitem__(self, rows: Any) -> Decision | Decisions:
        if isinstance(rows, int | np.integer):
            row = int(rows)
            held = [getattr(self, name)[row] for name in FIELDS]
            plain = [value.item() if isinstance(value, np.generic) else value for value in held]
            beside = (None if one is None else one[row] for one in (self.receipts, self.factors))
            share = None if self._stored(_OWN_SHARE) is None else self.share[row].item()
            return Decision._make([*plain, *beside, share])
        taken = Decisions(
            **{name: getattr(self, name)[rows] for name in _STORED},
            reason=None if self._stored("reason") is None else self.reason[rows],
            latency=None if self._stored("latency") is None else self.latency[rows],
            index=None if self.index is None else self.index[rows],
            share=None if self._stored(_OWN_SHARE) is None else self.share[rows],
        )
        if self.receipts is None and self.factors is None:
            return taken
        places = np.arange(len(self))[rows]
        if self.receipts is not None:
            taken = taken.beside(receipts=[self.receipts[place] for place in places])
        if self.factors is not None:
            taken = taken.beside(factors=[self.factors[place] for place in places])
        return taken

    def __iter__(self) -> Iterator[Decision]:
        return (self[row] for row in range(len(self)))

    def to_frame(self) -> Any:
        """Return a frame with one row per decision: polars if the rows were, otherwise pandas.

        A pandas frame has the index of the rows.
        """
        fields = {name: getattr(self, name) for name in self.fields}
        if self.library == "polars":
            lists = {name: values.tolist() for name, values in fields.items()}
            return require("polars").DataFrame(lists)
        return require("pandas").DataFrame(fields, index=self.index)

    def rejected(self, reason: str) -> Decisions:
        """Return the same decisions with the accepted rows rejected, for the given reason."""
        accepted = np.zeros(len(self), dtype=np.bool_)
        reasons = np.where(self.accepted, reason, self.reason).astype(object)
        accepted.flags.writeable = reasons.flags.writeable = False
        return self.beside(accepted=accepted, reason=reasons)

    def _cells(self) -> tuple[list[str], list[list[object] | None]]:
        waited = bool(self.latency.any())
        header = ["row", *(name for name in self.fields if waited or name != "latency")]
        rows: list[list[object] | None] = [
            None if row is None else [row, *(getattr(self[row], name) for name in header[1:])]
            for row in row_positions(len(self))
        ]
        return header, rows

    def __repr__(self) -> str:
        return text_table(*self._cells())

    def _repr_html_(self) -> str:
        return html_table(*self._cells())
