"""What the tests of the command line share: a folder with rows, prices, and the run of a search."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import COSTS, call, patients, write_csv, write_parquet


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """Make a folder with rows to train on and fresh ones, prices, and the run of a search."""
    path = tmp_path_factory.mktemp("cli")
    write_csv(patients(600, 0), path / "train.csv")
    write_csv(patients(2000, 1), path / "fresh.csv")
    write_parquet(patients(2000, 1), path / "fresh.parquet")
    (path / "costs.toml").write_text(COSTS)
    called = call(
        "search", path / "train.csv", "--label", "state", "--costs", path / "costs.toml",
        "--out", path / "run", "--cv", 3, "--max-stages", 3, "--quiet",
    )  # fmt: skip
    assert called.code == 0, called.err
    (path / "search.out").write_text(called.out)
    (path / "search.err").write_text(called.err)
    return path


@pytest.fixture(autouse=True)
def _no_question_of_another_test(request: pytest.FixtureRequest) -> None:
    """Delete the ledgers of the shared folder, or a test would find its rows used."""
    if "folder" in request.fixturenames:
        folder = request.getfixturevalue("folder")
        for ledger in (*folder.glob("*.ledger"), folder / "run" / "ledger.jsonl"):
            ledger.unlink(missing_ok=True)
