"""A text cascade: word counts, character n-grams, then a sentence transformer; beside BARGAIN.

The transformer with its classifier is the dear model: whatever it answers is right. Both methods
promise agreement with it, from the same scores of the same cheap model. In each of 200 draws the
messages are divided anew; `results/text.csv` holds what each draw gave.

`requirements/text.txt` is the environment of the full run. Without torch, what the transformer
says is read from `results/text.npz`; without bargain, its figures are those of `results/text.csv`.
`--only embed` and `--only prices` need torch; `--only walk` measures spot checks and keeps what is
there of the other methods; `--only table` measures nothing. `--small` takes the
few hundred messages whose embeddings are in `results/text.npz`.
"""

from __future__ import annotations

from importlib.util import find_spec

PARTS = ("embed", "prices", "draws", "walk", "table")


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Embed, measure prices, draw, and give the table; each part can be run alone."""
    from experiments.text import draws, kept, prices, tables

    unknown = [name for name in only or () if name not in PARTS]
    if unknown:
        raise SystemExit(f"There is no part {unknown[0]!r}; there are {', '.join(PARTS)}.")
    if small:
        print("The embeddings are those of results/text.npz; torch is not used.")
        return draws.run_small()
    wanted = only or [*PARTS]
    if only is None and find_spec("torch") is None:
        print("torch is not installed: answers of the transformer, and prices, are those kept.")
        wanted = ["draws", "table"]
    if "embed" in wanted:
        kept.embed()
    if "prices" in wanted:
        prices.measure()
    if "draws" in wanted:
        draws.measure()
    elif "walk" in wanted:
        draws.measure(walks_alone=True)
    return tables.report() if "table" in wanted else ""
