"""A server runs a full garbage collection when it starts, and never again."""

from __future__ import annotations

import gc
import weakref

import pytest

from emsco.serve.server import set_aside


@pytest.fixture(autouse=True)
def thawed():
    """Restore the garbage collector for other tests."""
    yield
    gc.unfreeze()
    gc.enable()


class Model:
    """An object in a reference cycle, as in models."""

    def __init__(self):
        self.itself = self


def test_the_collector_passes_over_what_is_set_aside():
    model = Model()
    gc.disable()  # as while a service starts
    set_aside()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10_000
    assert not any(one is model for one in gc.get_objects())


def test_a_model_that_was_set_aside_is_deleted_when_the_next_one_is():
    model = Model()
    left = weakref.ref(model)
    set_aside()
    del model
    gc.collect()
    assert left() is not None
    set_aside()
    assert left() is None
