"""The sums of docs/measured-scaling.md are those of the command, from constants with a source."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from emsco.search.strategies.local_search import FITS
from experiments import scaling

PAGE = Path(__file__).parents[2] / "docs" / "measured-scaling.md"


def test_the_documentation_holds_the_tables():
    """Word for word: figures told are those of the constants kept."""
    told = PAGE.read_text(encoding="utf-8")
    for table in scaling.tables():
        assert table in told


def test_every_constant_has_a_unit_and_a_command():
    constants = tomllib.loads(scaling.CONSTANTS.read_text(encoding="utf-8"))
    for constant in constants.values():
        assert constant["unit"]
        assumed = "assumed" in constant["unit"]
        assert assumed == (constant["command"] == "none")
    assert constants["sets"]["value"] == FITS


def test_readers_put_in_their_own():
    """Sizes make a column of their own; a constant changes the sums."""
    yours = scaling.run(small=True, only=["rows=5e8", "sources=30", "per_second=100"])
    assert "| yours |" in yours
    assert "500 million, 30" in yours
    slower = scaling.run(small=True, only=["rows=5e8", "sources=30", "score=1000"])
    assert slower != yours
    with pytest.raises(SystemExit, match="name=value with a name of rows, sources"):
        scaling.run(small=True, only=["columns=3"])


def test_twice_the_work_takes_twice_the_time():
    constants = scaling.load_constants()
    faster = constants | {"score": 2 * constants["score"]}
    assert scaling.tables(faster) != scaling.tables(constants)
