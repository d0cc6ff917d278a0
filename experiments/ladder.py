"""Whether the ladder keeps its promises where that is hardest, and what it saves beside the front.

Promises are judged on rows whose truth is known: calibration rows are drawn from them again and
again, and it is counted how often a certificate is false. Savings are those of the problems of
`experiments.savings`, and of text messages before a transformer.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest  # type: ignore[import-untyped]  # scipy ships no types

from emsco import StageDesign
from emsco.certify import Certificate, Targets, certify_together
from emsco.certify._path import Path, StageAnswers, tolerated
from emsco.exceptions import EmscoWarning
from emsco.rows.ledger import forget_all
from experiments import savings
from experiments.tables import markdown
from experiments.text import draws, kept, messages, ours, prices

_POPULATION = 1_000  # rows of a worst case, from which calibration rows are drawn
_ROWS = 250  # calibration rows of a draw
PROMISES = ((0.9, 0.1), (0.95, 0.05), (0.9, 0.01))  # agreement, and the level
DRAWS = 10_000
_SMALL = 400
_LEAST = 0.01  # of the smallest p-value times the number of cases
WAYS = ("front", "ladder", None)
_MESSAGE_DRAWS = 20
_MESSAGE_TARGETS = (0.95, 0.96, 0.97, 0.98, 0.99)


@dataclass(frozen=True)
class WorstCase:
    """Rows whose truth is known, and a path.

    Parameters
    ----------
    name : str
        What is hard about it.
    answers : StageAnswers
        Scores of all rows, and which answers differ.
    path : Path
        The path, fixed beforehand.
    """

    name: str
    answers: StageAnswers
    path: Path

    def draw(self, rng: np.random.Generator, rows: int = _ROWS) -> StageAnswers:
        """Draw calibration rows with replacement, so that the truth is known exactly."""
        drawn = rng.integers(len(self.answers.scores), size=rows)
        return StageAnswers(self.answers.scores[drawn], self.answers.differ[drawn])

    def share(self, thresholds: tuple[float, ...]) -> float:
        """Return the true share of rows that differ with these thresholds; none without any."""
        if not thresholds:
            return 0.0
        accepted = self.answers.scores >= np.array(thresholds)
        first = accepted.argmax(axis=1)
        differ = accepted.any(axis=1) & self.answers.differ[np.arange(len(first)), first]
        return float(differ.mean())


def worst_cases(agreement: float) -> list[WorstCase]:
    """Make the worst cases of a promise; `least` rows are the fewest that break it."""
    n = _POPULATION
    least = round(n * (1 - agreement)) + 1
    rank = np.arange(n)
    scores = np.linspace(0.999, 0.501, n)
    spread = np.zeros(n, dtype=bool)
    spread[np.linspace(0, n - 1, least).round().astype(np.intp)] = True
    rng = np.random.default_rng(0)
    tie = np.repeat([0.99, 0.9, 0.8, 0.7, 0.6], n // 5)
    in_tie = np.zeros(n, dtype=bool)
    in_tie[rng.choice(np.flatnonzero(tie == 0.8), least, replace=False)] = True
    one = Path(StageDesign(np.array([0, 1])), ((0.55,), (0.501,)))
    two = Path(StageDesign(np.array([0, 1, 2])), ((0.8, 0.8), (0.6, 0.6), (0.5, 0.5)))
    # As the first stage takes over from the second, each row that comes to differ is followed by
    # one that does no longer: the share stays just above the promise, while the rows change.
    second = np.linspace(1, n - 1, least).round().astype(np.intp)
    turns = np.zeros((n, 2), dtype=bool)
    turns[second - 1, 0] = turns[second, 1] = True
    first_late = np.column_stack([scores, np.full(n, 0.95)])
    takes_over = Path(StageDesign(np.array([0, 1, 2])), ((1.0, 0.9), (0.5, 0.9)))
    both = np.column_stack([rng.permutation(scores), rng.permutation(scores)])
    hard = np.column_stack([both[:, 0] < 0.8, both[:, 1] < 0.7])
    single = {
        "differ at the end": rank >= n - 3 * least,
        "differ at the start": rank < least,
        "everywhere alike, ever more": spread,
        "everywhere alike, twice as many": rank % (n // (2 * least)) == 0,
        "just at the promise, in the middle": (rank >= 400) & (rank < 400 + least),
        "all differ": rank >= 0,
    }
    return [
        *(
            WorstCase(name, StageAnswers(scores[:, None], differ[:, None]), one)
            for name, differ in single.items()
        ),
        WorstCase("five scores", StageAnswers(tie[:, None], in_tie[:, None]), one),
        WorstCase("a stage takes over", StageAnswers(first_late, turns), takes_over),
        WorstCase("two stages", StageAnswers(both, hard & (rng.random((n, 2)) < 0.5)), two),
    ]


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Judge promises, then measure savings: parts "promises", problems by name, and "messages"."""
    wanted = only or ["promises", *([] if small else [*savings.CASES, "messages"])]
    tables = []
    if "promises" in wanted:
        tables.append(_promises(_SMALL if small else DRAWS))
    if savings.CASES.keys() & set(wanted):
        tables.append(_problems(wanted))
    if "messages" in wanted:
        tables.append(_messages())
    return "\n\n".join(tables)


def count_broken(case: WorstCase, agreement: float, level: float, n_draws: int, seed: int) -> int:
    """Count the draws in which what is certified breaks the promise."""
    rng = np.random.default_rng(seed)
    most = tolerated(_ROWS, 1 - agreement, level)
    allowed = round(_POPULATION * (1 - agreement)) / _POPULATION
    stops = (case.path.follow(case.draw(rng), most) for _ in range(n_draws))
    return sum(case.share(stop.thresholds) > allowed for stop in stops)


def _promises(n_draws: int) -> str:
    """Judge all worst cases of all promises at once."""
    cases = [(promise, case) for promise in PROMISES for case in worst_cases(promise[0])]
    rows, p_values = [], []
    for seed, ((agreement, level), case) in enumerate(cases):
        broken = count_broken(case, agreement, level, n_draws, seed)
        p_values.append(binomtest(broken, n_draws, level, alternative="greater").pvalue)
        rows.append([case.name, f"{agreement:.0%}", f"{level:.0%}", f"{broken / n_draws:.2%}"])
        print(json.dumps(rows[-1]), flush=True)
    smallest = min(p_values) * len(cases)
    if smallest < _LEAST:
        raise SystemExit(f"A promise is broken too often: {smallest:.2g} for the worst of all.")
    header = ["which answers differ", "agreement promised", "may be broken", "broken"]
    end = f"Smallest p-value times the number of cases: {smallest:.2g}."
    return f"{markdown(header, rows)}\n\n{end}"


def _problems(wanted: Sequence[str]) -> str:
    """Certify each problem in both ways on the same rows, and look at fresh ones."""
    rows = []
    for name, case in savings.CASES.items():
        if name not in wanted:
            continue
        X, final, costs, log, fresh = savings.prepared(case, "logistic")
        searched, calibration = np.array_split(log, 2)
        search = savings.search_for(case, final, costs, "logistic")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EmscoWarning)
            search.fit(X.iloc[searched])
        answers = final.predict(X.iloc[fresh])
        questions = [Targets(agreement=target) for target in savings.TARGETS]
        found = {way: _certificates(search, X.iloc[calibration], questions, way) for way in WAYS}
        for i, target in enumerate(savings.TARGETS):
            told = [name, f"{target:.1%}"]
            for way in WAYS[:2]:
                told += _on_fresh(search, found[way][i], X.iloc[fresh], answers)
            rows.append([*told, found[None][i].way])
            print(json.dumps(rows[-1]), flush=True)
    header = ["data", "agreement promised", "price by the front", "changed", "price by the ladder",
              "changed", "by default"]  # fmt: skip
    return markdown(header, rows)


def _certificates(
    search: Any, X: Any, questions: list[Targets], way: str | None
) -> tuple[Certificate, ...]:
    forget_all()  # each way stands for a user with rows of their own
    return certify_together(
        search, X, None, questions, confidence=savings.CONFIDENCE, way=way, chosen_first=False
    )


def _on_fresh(
    search: Any, certificate: Certificate, fresh: Any, answers: NDArray[Any]
) -> list[str]:
    if not certificate.certified:
        return ["100.0%", "-"]
    decisions = search.cascade(certificate.select(by="cost").candidate).decide(fresh)
    changed = (decisions.label != answers).mean()
    return [f"{decisions.cost.mean() / search.costs_.total:.1%}", f"{changed:.2%}"]


def _messages() -> str:
    """Process batches of messages in both ways, with the same plans."""
    texts, _, _ = messages.load()
    scores, others = kept.load().scores, messages.others(len(texts))
    found: dict[tuple[float, float, str], list[ours.Outcome]] = {}
    for draw in range(_MESSAGE_DRAWS):
        task = draws.make_task(texts, scores, messages.divide(others, draw))
        search = ours.search(task.log, prices.in_two_stages())
        for key in _asked():
            target, confidence, way = key
            outcome = ours.process(search, task.batch, target, confidence, way=way)
            found.setdefault(key, []).append(outcome)
            print(json.dumps([draw, *key, outcome.calls, outcome.unlike]), flush=True)
    rows = []
    for (target, confidence, way), outcomes in found.items():
        avoided = 1 - np.mean([outcome.calls for outcome in outcomes]) / messages.BATCH
        most = round(messages.BATCH * (1 - target))
        broken = sum(outcome.unlike > most for outcome in outcomes)
        rows.append([f"{target:g}, {confidence:g}", way, f"{avoided:.1%}",
                     f"{broken} of {len(outcomes)}"])  # fmt: skip
    return markdown(["agreement, confidence", "by", "calls avoided", "promise broken"], rows)


def _asked() -> Iterator[tuple[float, float, str]]:
    for target in _MESSAGE_TARGETS:
        for confidence in draws.CONFIDENCES:
            for way in ("front", "ladder"):
                yield target, confidence, way
