"""Labels as evidence: text, frame and file."""

from __future__ import annotations

import numpy as np
import pytest

from emsco.batch import BatchLabels, label_answers
from emsco.exceptions import ArtifactError

CHEAP = ["ä" if i % 3 else "no" for i in range(60)]
FOUND = label_answers(
    CHEAP, [0.9] * 60, lambda rows: [None if i == 7 else CHEAP[i] for i in rows],
    agreement=0.9, confidence=0.9, price=0.5, keys=range(100, 160), known={3: "no"},
)  # fmt: skip


def test_it_comes_back_from_a_file_as_it_was(tmp_path):
    FOUND.dump(tmp_path / "labels.json")
    again = BatchLabels.load(tmp_path / "labels.json")
    assert str(again) == str(FOUND)
    assert again.labels == FOUND.labels
    assert (again.origin == FOUND.origin).all()
    assert again.to_frame().equals(FOUND.to_frame())


def test_a_file_with_any_bit_changed_is_refused(tmp_path):
    path = tmp_path / "labels.json"
    FOUND.dump(path)
    data = path.read_bytes()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << (place % 8)
        path.write_bytes(changed)
        with pytest.raises(ArtifactError):
            BatchLabels.load(path)
    for bit in range(8 * min(len(data), 150)):  # all bits of the head
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(changed)
        with pytest.raises(ArtifactError):
            BatchLabels.load(path)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff\xfe", b'{"format": 1}'])
def test_another_file_is_refused(tmp_path, content):
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(ArtifactError, match="holds no labels of a batch"):
        BatchLabels.load(tmp_path / "other")


def test_counts_agree():
    sent = np.isin(FOUND.origin, ["checked", "asked", "failed"])
    assert FOUND.n_calls == sent.sum() == sum(FOUND.calls.values())
    assert FOUND.avoided == 1 - sent.mean()
    assert FOUND.origin[3] == "known"
    assert f"{FOUND.n_calls * 0.5:,.6g}" in str(FOUND)
    assert FOUND.sentence in FOUND._repr_html_()
    assert FOUND.to_frame().index[0] == 100
