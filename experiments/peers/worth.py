"""What the wins are worth: how much accuracy they gave up, and what ties were for."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.peers.compare import WORSE
from experiments.peers.methods import METHODS, OURS
from experiments.problems import BESIDE
from experiments.results import Row
from experiments.tables import markdown

_FEW_ROWS = 1_000  # selected on: the problems with hundreds of rows, and those with thousands
_OWN_TABLE = "nsga2"  # held to our table of outcomes, so counted by itself


def worth(made: Sequence[Row]) -> str:
    """Tell it for both ways of choosing, of the summary of results; then for one against the other.

    Where ours chooses cautiously and the others as they come, there are means only.
    """
    compared = [row for row in made if row["outcome"] and row["problem"] != BESIDE]
    return "\n\n".join([*(_doubts(compared, kind) for kind in ("", "cautious_")), _across(made)])


def _doubts(compared: Sequence[Row], kind: str) -> str:
    header = ["against", "wins", "of these less accurate by over a point", "ties",
              "of these cheaper, but worse", "most accuracy lost on hundreds of rows",
              "on thousands", "its targets missed, of 8"]  # fmt: skip
    methods = dict.fromkeys(row["method"] for row in compared)
    lines = [_line(m, [r for r in compared if r["method"] == m], kind) for m in methods]
    others = [row for row in compared if row["method"] != _OWN_TABLE]
    if others:
        lines.append(_line(f"all but {_OWN_TABLE}", others, kind))
    title = "chosen cautiously" if kind else "as they come"
    return f"What wins and ties are worth, {title}:\n\n" + markdown(header, lines)


def _line(name: str, rows: Sequence[Row], kind: str) -> list[str]:
    wins = [row for row in rows if row[f"{kind}outcome"] == "win"]
    ties = [row for row in rows if row[f"{kind}outcome"] == "tie"]
    unmet = sum(row[f"{kind}unmet"] for row in rows) / len(rows)
    few = [row for row in rows if row["selection"] < _FEW_ROWS]
    many = [row for row in rows if row["selection"] >= _FEW_ROWS]
    return [
        name,
        str(len(wins)),
        str(sum(row[f"{kind}accuracy_mean"] < WORSE for row in wins)),
        str(len(ties)),
        str(sum(row[f"{kind}price_high"] < 0 for row in ties)),
        *(_most_lost(some, kind) for some in (few, many)),
        f"{unmet:.1f}",
    ]


def _most_lost(rows: Sequence[Row], kind: str) -> str:
    """In points, by the mean of a problem."""
    if not rows:
        return ""
    return f"{100 * max(-row[f'{kind}accuracy_mean'] for row in rows):.1f}"


def _across(made: Sequence[Row]) -> str:
    """Hold ours, chosen cautiously, against the others as they come."""
    found = {(row["problem"], row["method"]): row for row in made if row["problem"] != BESIDE}
    lines = []
    for method in [name for name in METHODS if name not in OURS.values()]:
        own = OURS[METHODS[method][0]]
        pairs = [
            (found[problem, own], row)
            for (problem, name), row in found.items()
            # means over other splits do not compare
            if name == method and found.get((problem, own), {}).get("splits") == row["splits"]
        ]
        cheaper = [(o, its) for o, its in pairs if o["cautious_price"] < its["price"]]
        as_good = sum(o["cautious_accuracy"] - its["accuracy"] >= WORSE for o, its in cheaper)
        if pairs:
            lines.append([method, str(len(pairs)), str(len(cheaper)), str(as_good)])
    header = ["against", "problems", "cheaper", "and within a point of its accuracy"]
    title = "Ours chosen cautiously, the others as they come, by the means"
    return f"{title}:\n\n" + markdown(header, lines)
