"""What each kernel computes, in a few lines of numpy: slow, and easy to believe."""

from __future__ import annotations

import numpy as np


def bits_of(words):
    """Unpack the bits of words into booleans along the last axis."""
    words = np.ascontiguousarray(words).astype("<u8", copy=False)
    return np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little").astype(bool)


def stakes_of(planes):
    """Add up the planes of the stakes of rows; without any, each row counts as one."""
    bits = [bits_of(plane) for plane in planes.T]
    return sum(
        (plane.astype(np.int64) << p for p, plane in enumerate(bits)),
        np.int64(0) if bits else np.ones(64 * len(planes), np.int64),
    )


def evaluate_chains(
    positions, prices, which, begins, accepted, right, everyone, planes, masks, out_accepted,
    out_right, out_paid, out_class_accepted, out_class_right, out_reached,
):  # fmt: skip
    """Count accepted rows, right ones and price units for many designs."""
    accepted, right, everyone, masks = map(bits_of, (accepted, right, everyone, masks))
    stakes = stakes_of(planes)
    for d in range(len(begins) - 1):
        if positions[begins[d]] < 0:
            continue
        undecided, before = everyone.copy(), 0
        for i in range(begins[d], begins[d + 1]):
            out_reached[i] = undecided.sum()
            out_paid[d] += undecided.sum() * (prices[i] - before)
            before = prices[i]
            sure = undecided & accepted[which[i], positions[i]]
            good = undecided & right[which[i], positions[i]]
            out_accepted[d] += (sure * stakes).sum()
            out_right[d] += (good * stakes).sum()
            out_class_accepted[d] += (sure & masks) @ stakes
            out_class_right[d] += (good & masks) @ stakes
            undecided &= ~sure


def count_labels(positions, which, begins, accepted, labels, everyone, planes, out):
    """Count for many designs the rows accepted under each label."""
    accepted, labels, everyone = map(bits_of, (accepted, labels, everyone))
    stakes = stakes_of(planes)
    codes = (labels << np.arange(len(labels))[:, None, None]).sum(axis=0)  # sets x rows
    for d in range(len(begins) - 1):
        undecided = everyone.copy()
        for i in range(begins[d], begins[d + 1]):
            sure = undecided & accepted[which[i], positions[i]]
            for label in range(out.shape[1]):
                out[d, label] += stakes[sure & (codes[positions[i]] == label)].sum()
            undecided &= ~sure


def chains_of(firsts, exists, max_stages, use_all):
    """Yield every chain of nested sets, the smallest first, that ends where a design may end."""
    full = len(exists) - 1
    todo = [(int(first),) for first in firsts if exists[first]]
    while todo:
        chain = todo.pop()
        if not use_all or chain[-1] == full:
            yield chain
        if len(chain) < max_stages:
            last = chain[-1]
            todo += [
                (*chain, s) for s in range(full + 1) if s & last == last and s != last and exists[s]
            ]


def walk(
    firsts, accepted, right, price, exists, spread, missed_masks, most_missed, rejected_masks,
    most_rejected, least, cells, keys, state, chain, rest, following, undecided, sums, missed,
    spreads, planes, max_stages, use_all, width, step,
):  # fmt: skip
    """Walk every chain of sets, with room for every design; return that it is finished."""
    del chain, rest, following, sums, missed, spreads  # where the kernel keeps its place
    everyone = bits_of(undecided[0])
    accepted, right = bits_of(accepted), bits_of(right)
    missed_masks, rejected_masks = bits_of(missed_masks), bits_of(rejected_masks)
    stakes = stakes_of(planes)
    for sets in chains_of(firsts, exists, max_stages, use_all):
        state[2] += 1
        open_rows, taken, good = everyone.copy(), np.zeros_like(everyone), np.zeros_like(everyone)
        paid = before = 0
        for s in sets:
            paid += int(open_rows.sum()) * int(price[s] - before)
            before = price[s]
            taken |= open_rows & accepted[s]
            good |= open_rows & right[s]
            open_rows &= ~accepted[s]
        n_accepted, n_right = int((taken * stakes).sum()), int((good * stakes).sum())
        wrong = n_accepted - n_right
        place = n_accepted * width + wrong
        if step:
            a, b = n_accepted // step + 1, wrong // step - 1
            place = a * width + b if a < width and b >= 0 else -1
        if place >= 0 and paid > least[place]:
            continue
        if ((taken & ~good & missed_masks) @ stakes > most_missed).any():
            continue
        if ((open_rows & rejected_masks) @ stakes > most_rejected).any():
            continue
        n_stages = len(sets)
        key = (n_stages + 1) * int(spread[-1 if use_all else sets[-1]])
        key = (key - sum(int(spread[s]) for s in sets)) % 2**64
        if step:
            cells[state[3]], keys[state[3]] = (paid, n_accepted, n_right, n_stages), key
            state[3] += 1
        elif paid < least[place]:
            least[place], cells[place], keys[place] = paid, (1, n_stages), key
        else:
            cells[place, 0] += 1
            simplest = min((int(cells[place, 1]), int(keys[place])), (n_stages, key))
            cells[place, 1], keys[place] = simplest
    return True


def add_leaves(
    X, sets, source, begins, feature, threshold, missing_left, left, right, is_leaf, value, raw
):
    """Predict every row for every set, with the columns of other sources missing."""
    n_columns, n_classes = X.shape[1], raw.shape[1]
    for row, values in enumerate(X):
        for s, bought in enumerate(sets):
            has = [bool(int(bought) >> k & 1) for k in range(64)]
            told = [x if has[source[c]] else np.nan for c, x in enumerate(values)]
            for tree, first in enumerate(begins[:-1]):
                node = first
                while not is_leaf[node]:
                    column = feature[node]
                    number = told[column] if column < n_columns else float(has[column - n_columns])
                    goes_left = (
                        missing_left[node] if np.isnan(number) else number <= threshold[node]
                    )
                    node = first + int(left[node] if goes_left else right[node])
                raw[row, tree % n_classes, s] += value[node]
