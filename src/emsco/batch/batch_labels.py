"""The labels of a batch, what is promised of them, and what that rests on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco._utils.atomic_write import write_whole
from emsco._utils.text_table import html_table, text_table
from emsco.exceptions import ArtifactError, BatchError, require

KNOWN, CHEAP, CHECKED, SENT, FAILED = ORIGINS = ("known", "cheap", "checked", "asked", "failed")
_FORMAT = "emsco batch labels 1"
_WITHOUT_JOB = (
    "Nothing was stored: whoever asks again until the answer suits breaks the promise, and nobody "
    "could see it. With `job` the question stays."
)


@dataclass(frozen=True)
class BatchPromise:
    """One promise, and what it comes to.

    Parameters
    ----------
    sentence : str
        The promise in words.
    most : int
        How many cheap labels may disagree in this way.
    tolerated : int
        How many disagreements among the checks were tolerated; the walk stops before the next.
    disagreements : int
        How many were seen among all checks.
    share : float
        The largest share of disagreements that follows from it.

    Examples
    --------
    >>> from emsco.batch import label_answers
    >>> found = label_answers(["ham"] * 900, [0.9] * 900, lambda rows: ["ham"] * len(rows))
    >>> found.promises[0].most, found.promises[0].disagreements
    (9, 0)
    """

    sentence: str
    most: int
    tolerated: int
    disagreements: int
    share: float


@dataclass(frozen=True, repr=False)
class BatchLabels:
    """The labels of a batch, with a promise how many are as the final model's.

    Parameters
    ----------
    labels : list
        The label of each row; None if the final model gave none.
    origin : array of str
        Where each label is from: "known" (it was known beforehand), "cheap", "checked" (a random
        check of the final model), "asked" (the final model) or "failed" (it gave no label).
    cheap : list
        The cheap answer to each row; None if there is none.
    trust : array of float
        How much it was trusted.
    index : list or None
        The key or the index of each row.
    promises : tuple of BatchPromise
        What is promised.
    confidence : float
        One minus the probability that any promise is broken.
    assumptions : tuple of str
        What the promise rests on, in sentences; none: it holds whatever the rows and answers are.
    calls : mapping of str to int
        The rows sent to the final model, by round: "checks", "rest", and, where a promise by class
        needs it, "more", "more 2" and so on; without a cascade, "first part" before all.
    lost : int
        How many of them were sent twice, because a process was killed meanwhile.
    price : float or None
        The price of a row sent.
    stop : int
        How many rows stood above the stop of the walk.
    rate : float
        The probability with which each was checked.
    notes : tuple of str
        What else there is to say.

    Examples
    --------
    >>> from emsco.batch import label_answers
    >>> cheap, truth = ["ham"] * 900 + ["spam"] * 100, ["ham"] * 985 + ["spam"] * 15
    >>> trust = [0.99] * 900 + [0.6] * 100
    >>> found = label_answers(cheap, trust, lambda rows: [truth[i] for i in rows], agreement=0.9)
    >>> sum(own != other for own, other in zip(found.labels, truth)) <= 100
    True
    >>> found.n_calls == sum(found.calls.values()) == int((found.origin != "cheap").sum())
    True
    """

    labels: list[Any]
    origin: NDArray[Any]
    cheap: list[Any]
    trust: NDArray[np.float64]
    index: list[Any] | None
    promises: tuple[BatchPromise, ...]
    confidence: float
    assumptions: tuple[str, ...]
    calls: Mapping[str, int]
    lost: int = 0
    price: float | None = None
    stop: int = 0
    rate: float = 1.0
    notes: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n_calls(self) -> int:
        """The number of rows sent to the final model."""
        return sum(self.calls.values())

    @property
    def avoided(self) -> float:
        """The share of rows that were not sent to the final model."""
        return 1 - self.n_calls / max(len(self), 1)

    @property
    def rounds(self) -> int:
        """The number of rounds of calls, one after the other."""
        return sum(n > 0 for n in self.calls.values())

    @property
    def sentence(self) -> str:
        """The promise in words, with its confidence and what it rests on."""
        sure = f"{100 * self.confidence:.10g}%"
        what = "; ".join(promise.sentence for promise in self.promises)
        if not self.assumptions:
            rests = "Nothing is assumed of rows, answers or trust."
        else:
            rests = "This rests on: " + "; ".join(self.assumptions) + "."
        return f"With {sure} confidence, {what}. {rests}"

    def to_frame(self) -> Any:
        """Return a row for each row of the batch, as a pandas frame.

        Its columns are `label`, `origin`, `cheap` and `trust`.
        """
        pandas = require("pandas", None)
        columns = {"label": self.labels, "origin": self.origin, "cheap": self.cheap,
                   "trust": self.trust}  # fmt: skip
        return pandas.DataFrame(columns, index=self.index)

    def dump(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file, as evidence.

        Parameters
        ----------
        path : str or path
            A file of JSON, which `BatchLabels.load` reads.
        """
        plain = asdict(self) | {"origin": self.origin.tolist(), "trust": self.trust.tolist()}
        body = json.dumps(plain, default=str)
        digest = sha256(body.encode()).hexdigest()
        text = f'{{"format": "{_FORMAT}", "sha256": "{digest}", "batch": {body}}}\n'
        write_whole(path, [text.encode()])

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BatchLabels:
        """Read what `dump` has written.

        Parameters
        ----------
        path : str or path
            The file.
        """
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except UnicodeDecodeError as error:
            raise ArtifactError(f"{path} holds no labels of a batch: {error}.") from error
        except OSError as error:
            raise ArtifactError(f"{path} cannot be read: {error.strerror}.") from error
        start = text.find('"batch": ')
        try:
            outer = json.loads(text)
            body = text[start + 9 : text.rindex("}")]
            changed = sha256(body.encode()).hexdigest() != outer["sha256"]
            plain = outer["batch"]
            if outer["format"] != _FORMAT or set(plain) != {one.name for one in fields(cls)}:
                raise ValueError("its format")
        except (ValueError, KeyError, TypeError) as error:
            raise ArtifactError(f"{path} holds no labels of a batch: {error}.") from error
        if changed:
            raise ArtifactError(f"{path} was changed after it was written.")
        plain["origin"] = np.array(plain["origin"])
        plain["trust"] = np.array(plain["trust"], dtype=np.float64)
        plain["promises"] = tuple(BatchPromise(**one) for one in plain["promises"])
        for name in ("assumptions", "notes"):
            plain[name] = tuple(plain[name])
        return cls(**plain)

    def _rows(self) -> list[list[Any]]:
        counts = {name: int((self.origin == name).sum()) for name in ORIGINS}
        rows: list[list[Any]] = [["rows", f"{len(self):,}"]]
        rows += [[f"  {name}", f"{n:,}"] for name, n in counts.items() if n]
        rows.append(["calls", f"{self.n_calls:,} in {self.rounds} rounds"])
        rows.append(["calls avoided", f"{self.avoided:.1%}"])
        if self.price is not None:
            saved = (len(self) - self.n_calls) * self.price
            rows.append(["paid", f"{self.n_calls * self.price:,.6g}, instead of "
                                 f"{len(self) * self.price:,.6g}: {saved:,.6g} less"])  # fmt: skip
        if self.lost:
            rows.append(["sent twice", f"{self.lost:,}, in flight when a process was killed"])
        seen = ", ".join(f"{p.disagreements:,}" for p in self.promises)
        rows.append(["wrong among checks", f"{seen}, in all of the order"])
        rows.append(["the walk stopped", f"after {self.stop:,} rows"])
        return rows

    def __str__(self) -> str:
        table = text_table(["", ""], self._rows()).split("\n", 1)[1]
        return "\n".join([self.sentence, "", table.strip("\n"), *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<p>{escape(self.sentence)}</p>{html_table(['', ''], self._rows())}{notes}"


def without_job() -> str:
    """Return the note of labels that were stored nowhere."""
    return _WITHOUT_JOB


def check_length(n_rows: int, what: str, values: Any) -> None:
    """Refuse values that are not one for each row."""
    if len(values) != n_rows:
        raise BatchError(
            f"`{what}` must have one for each of {n_rows:,} rows, has {len(values):,}."
        )
