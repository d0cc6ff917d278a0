"""The experiment that changes files of answers: it finds what it is to find."""

from __future__ import annotations

import numpy as np
import pytest

from emsco.cli._label_words import LabelWords
from tests.soak import label_answers

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return label_answers.begin(tmp_path_factory.mktemp("labels"))


@pytest.mark.parametrize("name", label_answers.KINDS)
def test_answers_are_refused_or_right(job, name):
    content = label_answers.mutated(name, job.answers, np.random.default_rng(len(name)))
    assert label_answers.read(job, name, content, newlines_in_cells=False) in ("right", "refused")


def test_a_wrong_label_is_found(job, monkeypatch):
    """Where spaces are forgiven, the experiment says so."""
    name, unknown = "a label with a space behind", LabelWords.unknown
    label = LabelWords.label
    monkeypatch.setattr(LabelWords, "unknown", lambda self, text: unknown(self, text.strip()))
    monkeypatch.setattr(LabelWords, "label", lambda self, text: label(self, text.strip()))
    content = label_answers.mutated(name, job.answers, np.random.default_rng(0))
    end = label_answers.read(job, name, content, newlines_in_cells=False)
    assert end == "accepted although it was spoiled"
    end = label_answers.read(job, "another byte", content, newlines_in_cells=False)
    assert end.startswith("accepted with another label for ")


def test_a_small_run_tells_every_kind(monkeypatch):
    """One file of each, in a table."""
    monkeypatch.setattr(label_answers, "SMALL_FILES", len(label_answers.KINDS))
    table = label_answers.run(small=True).splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in table[2:]] == [*label_answers.KINDS, "all"]
