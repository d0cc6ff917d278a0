"""A row is decided alike wherever it comes from; every difference there is has its reason."""

from __future__ import annotations

import pytest

from tests.soak import differential
from tests.soak.differential import Refused, Tally
from tests.soak.hostile import NUMBER, Batch, HostileColumn

# Every difference that is allowed, by its name; the reasons stand beside them in the experiment.
ALLOWED = {"a value that no stage asks for"}


def test_a_few_batches_are_decided_alike_in_every_way(monkeypatch):
    """CI runs more of them, `python -m tests.soak differential` two thousand."""
    monkeypatch.setattr(differential, "SMALL_BATCHES", 8)
    monkeypatch.setattr(differential, "BY_COMMAND", 0.2)
    told = differential.run(small=True, only=["two classes", "numbers"])
    assert told.startswith("8 batches")
    for way in (
        "numpy, objects",
        "polars",
        "CSV",
        "Parquet",
        "row by row",
        "one by one",
        "permuted",
    ):
        assert f"| {way} |" in told


def test_no_difference_is_allowed_but_those_listed_here():
    assert set(differential.DIFFERENCES) == ALLOWED
    assert all(why.endswith(".") for why in differential.DIFFERENCES.values())


@pytest.mark.parametrize(
    "found",
    [
        [("high", True, 0, 0.9, 1.0, "")],
        [("low", True, 0, 0.9000000000000001, 1.0, "")],
        Refused("ValuesError", 0, "price"),
        [],
    ],
)
def test_a_difference_ends_the_experiment(found):
    """In the last bit of a confidence as in the label."""
    batch = Batch({"price": HostileColumn(NUMBER, "float", (1.0,))})
    with pytest.raises(SystemExit, match="CSV: "):
        Tally().compare("CSV", found, [("low", True, 0, 0.9, 1.0, "")], batch)
