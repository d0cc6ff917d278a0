"""The compiled kernels compute what their twins in numpy do, and refuse arrays that do not fit."""

from __future__ import annotations

import kernel_twins
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier

from emsco import _core
from emsco.learners import _tree_walk

PLANES = 7  # the place of stakes among the arguments of `evaluate_chains`
NOBODY = np.iinfo(np.int64).max


def packed(rng, *shape, rows, density=0.5):
    """Draw bits, 64 to a word; those beyond the rows are 0."""
    bits = np.zeros((*shape, -(-rows // 64) * 64), dtype=bool)
    bits[..., :rows] = rng.random((*shape, rows)) < density
    return np.packbits(bits, axis=-1, bitorder="little").view("<u8").astype(np.uint64)


def outcomes(rng, *shape, rows):
    """Draw accepted bits, and right ones among them."""
    accepted = packed(rng, *shape, rows=rows, density=rng.random())
    return accepted, accepted & packed(rng, *shape, rows=rows, density=0.8)


def stakes(rng, rows):
    """Draw the planes of stakes, as often none, and the largest sum of them."""
    n_planes = int(rng.choice([0, 0, 1, 3, 16]))
    bits = packed(rng, n_planes, rows=rows, density=rng.random())
    return np.ascontiguousarray(bits.T), rows * 2**n_planes


def with_room(array, rng):
    """Give the same array as a view with room between its layers, as a growing table has."""
    larger = rng.integers(2**63, size=(array.shape[0], array.shape[1] + 3, *array.shape[2:]))
    larger = larger.astype(array.dtype)
    larger[:, : array.shape[1]] = array
    return larger[:, : array.shape[1]]


def both(name, make, *seed):
    """Call the kernel and its twin on the same arrays; give the arrays that each has written."""
    calls = []
    for module in (_core, kernel_twins):
        arguments, written = make(np.random.default_rng(seed))
        calls.append((getattr(module, name)(*arguments), written))
    return calls


def chain_arguments(rng):
    sets, tables, rows = int(rng.integers(1, 9)), int(rng.integers(1, 4)), int(rng.integers(1, 200))
    lengths = rng.integers(1, 5, size=rng.integers(0, 6))
    begins = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    positions = rng.integers(sets, size=begins[-1])
    which = rng.integers(tables, size=begins[-1])
    everyone = packed(rng, rows=rows, density=1.0)
    return sets, tables, rows, positions, which, begins, everyone


def evaluate_arguments(rng):
    sets, tables, rows, positions, which, begins, everyone = chain_arguments(rng)
    for d in np.flatnonzero(rng.random(len(begins) - 1) < 0.2):
        positions[begins[d] : begins[d + 1]] = -1
    accepted, right = (with_room(bits, rng) for bits in outcomes(rng, tables, sets, rows=rows))
    masks = packed(rng, int(rng.integers(0, 4)), rows=rows)
    designs, prices = len(begins) - 1, rng.integers(0, 1000, size=len(positions))
    written = [np.zeros(designs, dtype=np.int64) for _ in range(3)]
    written += [np.zeros((designs, len(masks)), dtype=np.int64) for _ in range(2)]
    written += [np.zeros(len(positions), dtype=np.int64)]
    planes = stakes(rng, rows)[0]
    arguments = (
        positions, prices, which, begins, accepted, right, everyone, planes, masks, *written,
    )  # fmt: skip
    return arguments, written


def label_arguments(rng):
    sets, tables, rows, positions, which, begins, everyone = chain_arguments(rng)
    accepted, _ = outcomes(rng, tables, sets, rows=rows)
    labels = with_room(packed(rng, 2, sets, rows=rows), rng)
    out = np.zeros((len(begins) - 1, 4), dtype=np.int64)
    planes = stakes(rng, rows)[0]
    return (positions, which, begins, accepted, labels, everyone, planes, out), [out]


def walk_arguments(rng):
    n_sources, rows = int(rng.integers(1, 5)), int(rng.integers(1, 140))
    max_stages, use_all = int(rng.integers(1, 5)), bool(rng.integers(2))
    step, n_sets = int(rng.integers(0, 3)), 2**n_sources
    accepted, right = outcomes(rng, n_sets, rows=rows)
    price = np.sort(rng.integers(0, 50, size=n_sets))
    exists = (rng.random(n_sets) < 0.8) & (np.arange(n_sets) > 0)
    exists[-1] = True
    nibbles = [1 << 4 * (15 - k) for k in range(n_sources)]
    spread = np.array(
        [sum(n for k, n in enumerate(nibbles) if s >> k & 1) for s in range(n_sets)], np.uint64
    )
    limited = [packed(rng, int(rng.integers(0, 3)), rows=rows) for _ in range(2)]
    planes, whole = stakes(rng, rows)
    most = [rng.integers(0, whole + 1, size=len(masks)) for masks in limited]
    firsts = rng.permutation(np.flatnonzero(exists))
    step = step if whole < 500 else (1 + step) * whole // 100  # as coarse as for many stakes
    width = whole + 1 if step == 0 else -(-whole // step) + 2
    least = np.full((width, width), NOBODY)
    if step:  # whoever accepts fewer, and gets more wrong, is dominated at no higher cost
        least = rng.integers(0, 50 * rows + 1, size=(width, width))
        least = np.minimum.accumulate(np.minimum.accumulate(least[::-1])[::-1], axis=1)
    least = least.reshape(-1)
    entries = width**2 if step == 0 else 20_000
    cells = np.zeros((entries, 4 if step else 2), dtype=np.int64)
    keys, state = np.zeros(entries, dtype=np.uint64), np.zeros(4, dtype=np.int64)
    depths = max_stages + 2
    stacks = [np.zeros(depths, dtype=np.int64) for _ in range(3)]
    undecided = np.zeros((depths, accepted.shape[1]), dtype=np.uint64)
    undecided[0] = packed(rng, rows=rows, density=1.0)
    sums = np.zeros((depths, 4), dtype=np.int64)
    sums[0, 3] = rows
    missed = np.zeros((depths, len(limited[0])), dtype=np.int64)
    arguments = (
        firsts, accepted, right, price, exists, spread, limited[0], most[0], limited[1], most[1],
        least, cells, keys, state, *stacks, undecided, sums, missed,
        np.zeros(depths, dtype=np.uint64), planes, max_stages, use_all, width, step,
    )  # fmt: skip
    return arguments, [least, cells, keys, state]


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_counts_of_chains(seed):
    (_, ours), (_, theirs) = both("evaluate_chains", evaluate_arguments, seed)
    for own, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(own, other)


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_counts_of_labels(seed):
    (_, (ours,)), (_, (theirs,)) = both("count_labels", label_arguments, seed)
    np.testing.assert_array_equal(ours, theirs)


@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_the_walk(seed):
    """In cells or in a list, whose order is that of the walk and means nothing."""
    (finished, ours), (_, theirs) = both("walk", walk_arguments, seed)
    assert finished
    least, cells, keys, state = zip(ours, theirs, strict=True)
    np.testing.assert_array_equal(state[0][2:], state[1][2:])
    np.testing.assert_array_equal(*least)
    if cells[0].shape[1] == 4:
        listed = [
            sorted(zip(map(tuple, c[: s[3]].tolist()), k[: s[3]].tolist(), strict=True))
            for c, k, s in zip(cells, keys, state, strict=True)
        ]
        assert listed[0] == listed[1]
    else:
        np.testing.assert_array_equal(*cells)
        np.testing.assert_array_equal(*keys)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_leaves_of_trees(n_classes, monkeypatch):
    """Of boosted trees on rows with missing values, to the last bit."""
    rng = np.random.default_rng(n_classes)
    source = np.array([0, 0, 1, 2, 2, 2])
    told = rng.random((300, 3)) < 0.6
    X = np.where(rng.random((300, 6)) < 0.1, np.nan, rng.normal(size=(300, 6)))
    X[~told[:, source]] = np.nan
    y = (np.nan_to_num(X).sum(axis=1) * 2).astype(int) % n_classes
    boosted = HistGradientBoostingClassifier(max_iter=8, random_state=0).fit(np.c_[X, told], y)
    sets = (np.arange(1, 8)[:, None] >> np.arange(3) & 1).astype(bool)
    values = np.where(np.isnan(X[:40]), np.nan, X[:40])
    ours = _tree_walk.predict_proba_of(boosted, values, sets, source)
    monkeypatch.setattr(_tree_walk, "add_leaves", kernel_twins.add_leaves)
    np.testing.assert_array_equal(ours, _tree_walk.predict_proba_of(boosted, values, sets, source))


def replaced(arguments, place, by):
    return (*arguments[:place], by, *arguments[place + 1 :])


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("evaluate_chains", evaluate_arguments),
        ("count_labels", label_arguments),
        ("walk", walk_arguments),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name, make):
    """Each array in turn: of another type, as a list, and with another dimension."""
    kernel = getattr(_core, name)
    arguments, _ = make(np.random.default_rng(3))
    kernel(*arguments)
    with pytest.raises(TypeError, match="arguments, got"):
        kernel(*arguments[:-1])
    for place, array in enumerate(arguments):
        if not isinstance(array, np.ndarray):
            continue
        with pytest.raises(TypeError, match="another type"):
            kernel(*replaced(arguments, place, array.astype(np.float32)))
        with pytest.raises(TypeError):
            kernel(*replaced(arguments, place, array.tolist()))
        with pytest.raises(TypeError, match="another type"):
            kernel(*replaced(arguments, place, array[None]))


@pytest.mark.parametrize("place", [place for place in range(15) if place != PLANES])
def test_arrays_cut_short_are_refused(place):
    """Words, sets, rows or designs that one array has and another lacks."""
    arguments, _ = evaluate_arguments(np.random.default_rng(3))
    short = arguments[place][..., :-1].copy()
    with pytest.raises(ValueError, match=r"has|one entry more"):
        _core.evaluate_chains(*replaced(arguments, place, short))


@pytest.mark.parametrize("shape", [(-1, 0), (0, 64)])
def test_stakes_of_other_rows_or_of_too_many_bits_are_refused(shape):
    arguments, _ = evaluate_arguments(np.random.default_rng(3))
    words, bits = np.add(arguments[PLANES].shape, shape)
    planes = np.zeros((words, bits), dtype=np.uint64)
    with pytest.raises(ValueError, match="planes"):
        _core.evaluate_chains(*replaced(arguments, PLANES, planes))


@pytest.mark.parametrize(
    ("place", "value", "named"), [(0, 99, "positions"), (2, 99, "which"), (3, 10**6, "begins")]
)
def test_indices_beyond_the_tables_are_refused(place, value, named):
    arguments, _ = evaluate_arguments(np.random.default_rng(3))
    wrong = arguments[place].copy()
    wrong[-1] = value
    with pytest.raises(IndexError, match=named):
        _core.evaluate_chains(*replaced(arguments, place, wrong))
    wrong[-1] = -2
    with pytest.raises(IndexError, match=named):
        _core.evaluate_chains(*replaced(arguments, place, wrong))


def test_what_is_written_must_be_writable():
    arguments, written = label_arguments(np.random.default_rng(3))
    written[0].setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        _core.count_labels(*arguments)
