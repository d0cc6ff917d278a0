"""The answers of several reviewers to the same rows: put together, compared, and settled."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from hashlib import file_digest
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

from emsco.exceptions import ArtifactError, BatchError

Answers: TypeAlias = Mapping[int, str | None]  # the label of each row; None: it has none


@dataclass(frozen=True)
class ReviewerAnswers:
    """What reviewers answered to a round, as their files were when they were read.

    Parameters
    ----------
    files : mapping of str to str
        The digest of each file, by its name.
    answers : list of (row, label)
        The rows that are answered without a contradiction.
    disputed : list of int
        The rows that were answered differently, and are to be settled.
    notes : list of str
        How far reviewers agree, in sentences.
    """

    files: dict[str, str]
    answers: list[list[Any]]
    disputed: list[int]
    notes: list[str]

    def to_json(self) -> str:
        """Write it as text."""
        return json.dumps(asdict(self))

    def settled(self, files: Mapping[str, str], answers: Answers) -> ReviewerAnswers:
        """Return it with answers to the rows that were answered differently."""
        found = [*self.answers, *([row, answers[row]] for row in self.disputed)]
        return replace(self, files={**self.files, **files}, answers=found, disputed=[])


def merged(rows: Sequence[int], files: Mapping[str, str], by_reviewer: Mapping[str, Answers],
           title: str) -> ReviewerAnswers:  # fmt: skip
    """Put the answers of reviewers together; every row must be answered by someone."""
    answers, disputed = [], []
    for row in rows:
        said = list({own[row]: None for own in by_reviewer.values() if row in own})
        if len(said) == 1:
            answers.append([row, said[0]])
        else:
            disputed.append(row)
    return ReviewerAnswers(dict(files), answers, disputed, agreement_notes(by_reviewer, title))


def agreement_notes(by_reviewer: Mapping[str, Answers], title: str) -> list[str]:
    """Say how far reviewers agree, all together and by pairs.

    Examples
    --------
    >>> from emsco.cli._reviewer_answers import agreement_notes
    >>> anna = {0: "Yes", 1: "Yes", 2: "No", 3: "No"}
    >>> for line in agreement_notes({"anna": anna, "ben": anna | {1: "No"}}, "Round 1"):
    ...     print(line)
    Round 1: of 4 rows answered by at least two of 2 reviewers, 3 were answered alike (75.0%); the others are settled without these answers.
    Round 1: anna and ben alike on 3 of 4 rows (75.0%), Cohen's kappa 0.50 (0: no more than chance would give; 1: always).
    """  # noqa: E501  # the text of a message
    if len(by_reviewer) < 2:
        return []
    n_answers = Counter(row for own in by_reviewer.values() for row in own)
    labels = {(row, label) for own in by_reviewer.values() for row, label in own.items()}
    n_labels = Counter(row for row, _ in labels)
    shared = [row for row, n in n_answers.items() if n > 1]
    alike = sum(n_labels[row] == 1 for row in shared)
    rest = "; the others are settled without these answers" if alike < len(shared) else ""
    notes = [
        f"{title}: of {len(shared):,} rows answered by at least two of {len(by_reviewer)} "
        f"reviewers, {alike:,} were answered alike{_percent(alike, len(shared))}{rest}."
    ]
    for one, other in combinations(sorted(by_reviewer), 2):
        notes.append(f"{title}: {_pair(one, other, by_reviewer[one], by_reviewer[other])}")
    return notes


def _pair(one: str, other: str, first: Answers, second: Answers) -> str:
    rows = [row for row in first if row in second]
    if not rows:
        return f"{one} and {other} answered no row both."
    alike = sum(first[row] == second[row] for row in rows)
    kappa = cohens_kappa([first[row] for row in rows], [second[row] for row in rows])
    said = "no kappa, as both gave one label only"
    if kappa is not None:
        said = f"Cohen's kappa {kappa:.2f} (0: no more than chance would give; 1: always)"
    return (
        f"{one} and {other} alike on {alike:,} of {len(rows):,} rows"
        f"{_percent(alike, len(rows))}, {said}."
    )


def cohens_kappa(first: Sequence[Any], second: Sequence[Any]) -> float | None:
    """Return Cohen's kappa of two lists of labels; None if chance alone makes them alike.

    Examples
    --------
    >>> from emsco.cli._reviewer_answers import cohens_kappa
    >>> cohens_kappa(["a", "a", "b", "b"], ["a", "b", "b", "b"])
    0.5
    """
    n = len(first)
    alike = Fraction(sum(one == other for one, other in zip(first, second, strict=True)), n)
    counts, others = Counter(first), Counter(second)
    chance = Fraction(sum(counts[label] * others[label] for label in counts), n * n)
    return None if chance == 1 else float((alike - chance) / (1 - chance))


def _percent(part: int, whole: int) -> str:
    return f" ({part / whole:.1%})" if whole else ""


def digest_of_file(path: Path) -> str:
    """Return the digest of a file."""
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror}.") from error


def refuse_changed(found: Sequence[Path], reviewed: ReviewerAnswers, sheet: Path) -> None:
    """Refuse files that changed, or came, after contradictions were sent to be settled."""
    for path in found:
        known = reviewed.files.get(path.name)
        if known is None:
            raise BatchError(
                f"{path} came after {sheet} was written, so its answers cannot count any more. "
                "Move it away, and repeat the command."
            )
        if digest_of_file(path) != known:
            raise BatchError(
                f"{path} has changed since {sheet} was written. Put it back as it was, and repeat "
                "the command."
            )


def late_notes(found: Sequence[Path], reviewed: ReviewerAnswers) -> list[str]:
    """Say which files changed, or came, after their answers were recorded."""
    notes = []
    for path in found:
        known = reviewed.files.get(path.name)
        if known is None:
            notes.append(
                f"{path} is not read: it came after the answers to its rows were recorded."
            )
        elif digest_of_file(path) != known:
            notes.append(f"{path} has changed since it was read; the answers of then stay.")
    return notes
