"""Words of each page, by group: `python docs/words.py`. Tests hold the limits.

A word is what stands between blanks and has a letter or a digit, code and tables included. Pages
of evidence, and the examples that become pages of the API, have no limit.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
GROUPS = ("tutorials", "how-to", "reference", "explanation", "evidence", "project")
MOST_OF_A_TASK = 1_500
MOST_OF_ALL = 30_000
UNLIMITED = ("evidence", "api-examples")


def count(text: str) -> int:
    """Count the words of a page."""
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def in_group(name: str) -> list[str]:
    """Give the pages of a group, as its table of contents lists them."""
    text = (HERE / f"{name}.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```\{toctree\}\n(.*?)```", text, flags=re.DOTALL)
    lines = [line for line in block.splitlines() if line and not line.startswith(":")]
    return [re.sub(r".*<(.+)>", r"\1", line) for line in lines]


def words() -> dict[str, dict[str, int]]:
    """Give the words of each page, by group; pages of no group stand under the empty name."""
    pages = {path.stem: count(path.read_text(encoding="utf-8")) for path in HERE.glob("*.md")}
    found = {}
    for group in GROUPS:
        names = [group, *in_group(group)]
        found[group] = {name: pages.pop(name) for name in names if name in pages}
    return found | {"": dict(sorted(pages.items()))}


def limited(found: dict[str, dict[str, int]]) -> int:
    """Give the words of all pages that have a limit."""
    return sum(
        n
        for group, pages in found.items()
        for name, n in pages.items()
        if not {group, name} & set(UNLIMITED)
    )


def main() -> int:
    """Print the words of each page."""
    found = words()
    for group, pages in found.items():
        print(f"{group or 'other'}: {sum(pages.values()):,}")  # noqa: T201
        for name, n in pages.items():
            print(f"  {n:6,}  {name}")  # noqa: T201
    print(f"without evidence: {limited(found):,} of at most {MOST_OF_ALL:,}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
