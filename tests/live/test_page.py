"""The page on live decisions gives what it shows."""

from __future__ import annotations

import doctest
from pathlib import Path

from emsco.live import Sources

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "live.md"


def test_the_example_gives_what_it_shows():
    """To the letter, but for blanks at the ends of lines."""
    found = doctest.testfile(
        str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert found.attempted > 10
    assert not found.failed


def test_the_file_of_sources_can_be_read(tmp_path):
    """As it stands on the page."""
    told = (DOCS / "sources.md").read_text(encoding="utf-8")
    text = told.partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "sources.toml").write_text(text)
    assert [*Sources.from_toml(tmp_path / "sources.toml")] == ["page", "whois", "registry"]
