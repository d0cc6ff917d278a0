"""Generated blocks of the documentation: compare them with stored results, or write them anew.

`python docs/figures.py` checks, `python docs/figures.py --write` writes. A block stands between
`<!-- figures: NAME -->` and `<!-- end -->`. Tables of experiments are compared word for word with
`experiments/results` by tests; `make figures` runs both.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from benchmarks import history  # noqa: E402
from experiments import pages, results, same_margin, stake_certificates, watched  # noqa: E402

BLOCKS: dict[str, Callable[[], str]] = {
    "history": lambda: history.table(history.load()),
    "watched": lambda: watched.table(results.load("watched")),
    "compared_margins": lambda: same_margin.table_of_comparison(results.load(same_margin.COMPARED)),
    "same_margin": lambda: same_margin.table(results.load(same_margin.NAME)),
    "stake_certificates": lambda: stake_certificates.table(results.load(stake_certificates.NAME)),
    "pages": lambda: pages.table(results.load(pages.NAME)),
}
_BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end -->)", flags=re.DOTALL)


def generated(text: str) -> str:
    """Give the text of a page with its blocks made anew."""
    return _BLOCK.sub(lambda found: f"{found[1]}\n{BLOCKS[found[2]]()}\n\n{found[3]}", text)


def stale() -> dict[Path, str]:
    """Give the pages, and the README, whose blocks differ from the results, as they should read."""
    paths = [HERE.parent / "README.md", *sorted(HERE.glob("*.md"))]
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    made = {path: generated(text) for path, text in texts.items()}
    return {path: made[path] for path in paths if made[path] != texts[path]}


def main() -> int:
    """Check the pages, or write them."""
    found = stale()
    if "--write" in sys.argv[1:]:
        for path, text in found.items():
            path.write_text(text, encoding="utf-8")
        return 0
    for path in found:
        print(f"{path.name}: figures differ from stored results; run {Path(__file__).name} --write")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
