"""What the wins are worth: how much accuracy they gave up, and what ties were for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.peers.compare import WORSE
from experiments.problems import BESIDE
from experiments.results import Row
from experiments.tables import markdown

_FEW_ROWS = 1_000  # selected on: the problems with hundreds of rows, and those with thousands
_OWN_TABLE = "nsga2"  # held to our table of outcomes, so counted by itself


def worth(made: Sequence[Row], kinds: Mapping[str, str]) -> str:
    """Tell it of the summary of results, for both ways in which the others choose."""
    compared = [row for row in made if row["problem"] != BESIDE]
    return "\n\n".join(
        _doubts([row for row in compared if row[f"{kind}outcome"]], kind, told)
        for kind, told in kinds.items()
    )


def _doubts(compared: Sequence[Row], kind: str, told: str) -> str:
    header = ["against", "wins", "of these less accurate by over a point", "ties",
              "of these cheaper, but worse", "most accuracy lost on hundreds of rows",
              "on thousands", "its targets missed, of 8"]  # fmt: skip
    methods = dict.fromkeys(row["method"] for row in compared)
    lines = [_line(m, [r for r in compared if r["method"] == m], kind) for m in methods]
    others = [row for row in compared if row["method"] != _OWN_TABLE]
    if others:
        lines.append(_line(f"all but {_OWN_TABLE}", others, kind))
    title = f"What wins and ties are worth, the others chosen {told}"
    return f"{title}:\n\n{markdown(header, lines)}"


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
