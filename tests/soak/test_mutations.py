"""The experiment that changes values inside files: it finds what it is to find."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from emsco import load
from emsco.exceptions import ArtifactError
from tests.soak import mutations

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    return mutations.make_kinds(tmp_path_factory.mktemp("kinds"))


def test_every_kind_of_file_is_refused_or_decides(kinds, tmp_path):
    rng = np.random.default_rng(7)
    for name, kind in kinds.items():
        for _ in range(5):
            mutations.check(name, kind, tmp_path / "mutated", rng)
        told = kind.told
        assert told["files"] == told["refused"] + told["alike"] + told["otherwise"] == 5


def loading_the_original(kind, tmp_path, change=lambda model: model):
    """Let a kind load its unchanged file whatever was changed."""
    path = tmp_path / "original.emsco"
    path.write_bytes(kind.data)
    return replace(kind, open=lambda _: change(load(path)))


def failure(kind, tmp_path):
    """Give what the experiment says when it ends; the file it leaves is deleted."""
    with pytest.raises(SystemExit) as ended:
        mutations.check("one", kind, tmp_path / "mutated", np.random.default_rng(0))
    Path(re.search(r"the file is (.*)\.$", str(ended.value))[1]).unlink()
    return str(ended.value)


def test_what_is_not_as_it_must_be_ends_the_experiment(kinds, tmp_path):
    kind = kinds["cascade with a guard and a certificate"]

    def raise_later(model):
        model.decide = lambda _: 1 / 0
        return model

    assert "it raised ZeroDivisionError" in failure(
        loading_the_original(kind, tmp_path, raise_later), tmp_path
    )
    other = replace(kind, original=kind.original | {"decided": "otherwise"})
    assert "with the same fingerprint" in failure(loading_the_original(other, tmp_path), tmp_path)
    told = {"decided": "otherwise", "fingerprint": "another", "certified": []}
    other = replace(kind, original=kind.original | told)
    assert "its certificate does not say so" in failure(
        loading_the_original(other, tmp_path), tmp_path
    )

    def take_memory(model):
        np.ones(2**24)
        return model

    assert re.search(
        r"it took 1\d\d MB", failure(loading_the_original(kind, tmp_path, take_memory), tmp_path)
    )

    def refuse_late(model):
        model.decide = lambda _: (_ for _ in ()).throw(ArtifactError("too late"))
        return model

    assert "it raised ArtifactError('too late') after it was loaded" in failure(
        loading_the_original(kind, tmp_path, refuse_late), tmp_path
    )
