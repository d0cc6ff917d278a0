"""The experiment that changes files of answers: it finds what it is to find."""

from __future__ import annotations

import numpy as np
import pytest

from emsco.cli._label_words import LabelWords
from emsco.cli._spreadsheet import SentRows
from tests.soak import label_answers

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return label_answers.begin(tmp_path_factory.mktemp("labels"))


@pytest.mark.parametrize("name", label_answers.KINDS)
def test_answers_are_refused_or_right(job, name):
    rng = np.random.default_rng(len(name))
    assert label_answers.try_one_file(job, name, rng) in ("right", "refused")


@pytest.mark.parametrize("name", ["nothing", "keys as a spreadsheet shows them", "a new label"])
def test_reviewers_are_settled_or_refused(job, name):
    rng = np.random.default_rng(0)
    ends = {label_answers.try_three_reviewers(job, name, rng) for _ in range(3)}
    assert "refused" in ends if name == "a new label" else "right" in ends
    assert ends <= {"right", "refused"}


def test_a_wrong_label_is_found(job, monkeypatch):
    """Where spaces are forgiven, the experiment says so."""
    name, unknown = "a label with a space behind", LabelWords.unknown
    label = LabelWords.label
    monkeypatch.setattr(LabelWords, "unknown", lambda self, text: unknown(self, text.strip()))
    monkeypatch.setattr(LabelWords, "label", lambda self, text: label(self, text.strip()))
    records = label_answers.filled_in(job.answers, has_codes=True)
    content = label_answers.mutated(name, records, np.random.default_rng(0))
    end = label_answers.read(job, name, records, content, newlines_in_cells=False)
    assert end == "accepted although it was spoiled"
    end = label_answers.read(job, "another byte", records, content, newlines_in_cells=False)
    assert end.startswith("accepted with another label for ")


def test_a_label_of_another_row_is_found(job, monkeypatch):
    """Where a key that a spreadsheet changed is taken for that of another row."""
    rng = np.random.default_rng(0)
    whole = label_answers.filled_in(job.answers, has_codes=True)
    by_key = {one["id"]: one for one in whole}
    one, padded = next(
        (one, other)
        for key, one in by_key.items()
        if key.isdigit() and (other := by_key.get(f"{key:>04}", one))["label"] != one["label"]
    )
    contents = {
        "anna": label_answers.written(whole, rng),
        "ben": f"id,label\n{one['id']},{padded['label']}\n".encode(),  # of 0007, saved as 7
    }
    expected = [{each["id"]: each["label"] for each in whole}, {padded["id"]: padded["label"]}]
    assert label_answers.settle(job, contents, expected, rng) == "refused"
    monkeypatch.setattr(SentRows, "candidates", lambda self, key: self._by_text.get(key, set()))
    assert label_answers.settle(job, contents, expected, rng) == "settled without need"


def test_a_small_run_tells_every_kind(monkeypatch):
    """One file of each, in a table."""
    monkeypatch.setattr(label_answers, "SMALL_FILES", 5)
    names = ["a new label", "no key", "columns added", "nothing", "UTF-16"]
    table = label_answers.run(small=True, only=names).splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in table[2:]] == [*names, "all"]
