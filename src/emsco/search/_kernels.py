"""Compiled loops over packed bits, which evaluate given chains of source sets or all chains.

Rows are bits, 64 to a word. For a source set, `accepted` marks the rows whose confidence reaches
the threshold, and `right` those of them that are labelled right. Along a chain S1 < S2 < ... the
rows still undecided are an AND of rejected bits, and an evaluation needs only population counts.

Importing this module imports numba: import it where a kernel runs, not before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from emsco._utils.numba_cache import compiled

# What a cell holds before any design has reached it.
NOBODY = np.iinfo(np.int64).max


@intrinsic
def _count_bits(_context: Any, _word: Any) -> Any:

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


count_bits: Any = _count_bits  # of a word, by the machine's own instruction


@compiled()
def evaluate_chains(
    positions: Any,  # of each set of each chain in the tables; -1 in a chain that does not exist
    prices: Any,  # of the same sets, in whole units
    which: Any,  # of the alternative thresholds each stage has
    begins: Any,  # where each design's chain begins
    accepted: Any,  # thresholds x sets x words
    right: Any,  # thresholds x sets x words
    everyone: Any,  # words: a bit for each row there is
    masks: Any,  # classes x words: a bit for each row of a class
    out_accepted: Any,
    out_right: Any,
    out_paid: Any,
    out_class_accepted: Any,  # designs x classes
    out_class_right: Any,
    out_reached: Any,  # rows that reach each set of each chain
) -> None:
    """Count accepted rows, right ones and price units for many designs."""
    words = everyone.shape[0]
    undecided = np.empty(words, dtype=np.uint64)
    n_rows = 0
    for w in range(words):
        n_rows += count_bits(everyone[w])
    for d in range(begins.shape[0] - 1):
        if positions[begins[d]] < 0:
            continue
        for w in range(words):  # a slice takes numba 6 s more to compile, for its errors
            undecided[w] = everyone[w]
        n_accepted = 0
        n_right = 0
        paid = 0
        before = 0
        for i in range(begins[d], begins[d + 1]):
            t, s = which[i], positions[i]
            out_reached[i] = n_rows - n_accepted
            paid += (n_rows - n_accepted) * (prices[i] - before)
            before = prices[i]
            for w in range(words):
                sure = undecided[w] & accepted[t, s, w]
                good = undecided[w] & right[t, s, w]
                n_accepted += count_bits(sure)
                n_right += count_bits(good)
                for c in range(masks.shape[0]):
                    out_class_accepted[d, c] += count_bits(sure & masks[c, w])
                    out_class_right[d, c] += count_bits(good & masks[c, w])
                undecided[w] ^= sure
        out_accepted[d] = n_accepted
        out_right[d] = n_right
        out_paid[d] = paid


@compiled()
def count_labels(
    positions: Any,  # of each set of each chain in the tables
    which: Any,  # of the alternative thresholds each stage has
    begins: Any,  # where each design's chain begins
    accepted: Any,  # thresholds x sets x words
    labels: Any,  # bits of the label's code x sets x words
    everyone: Any,
    out: Any,  # designs x classes
) -> None:
    """Count for many designs the rows accepted under each label."""
    words = everyone.shape[0]
    undecided = np.empty(words, dtype=np.uint64)
    for d in range(begins.shape[0] - 1):
        for w in range(words):
            undecided[w] = everyone[w]
        for i in range(begins[d], begins[d + 1]):
            t, s = which[i], positions[i]
            for w in range(words):
                sure = undecided[w] & accepted[t, s, w]
                undecided[w] ^= sure
                for c in range(out.shape[1]):
                    own = sure
                    for b in range(labels.shape[0]):
                        own &= labels[b, s, w] if c >> b & 1 else ~labels[b, s, w]
                    out[d, c] += count_bits(own)


@compiled(inline="always")
def _buy(open_rows: Any, s: Any, accepted: Any, right: Any, left_open: Any) -> Any:
    """Buy the set `s` for the open rows; return how many it accepts, and how many of them right."""
    n_accepted = 0
    n_right = 0
    for w in range(open_rows.shape[0]):
        undecided = open_rows[w]
        sure = undecided & accepted[s, w]
        n_accepted += count_bits(sure)
        n_right += count_bits(undecided & right[s, w])
        left_open[w] = undecided ^ sure
    return n_accepted, n_right


@compiled(inline="always")
def _judge(open_rows: Any, s: Any, accepted: Any, right: Any) -> Any:
    """Buy the last set of a chain: like `_buy`, but the rows that stay open are not needed."""
    n_accepted = 0
    n_right = 0
    for w in range(open_rows.shape[0]):
        undecided = open_rows[w]
        n_accepted += count_bits(undecided & accepted[s, w])
        n_right += count_bits(undecided & right[s, w])
    return n_accepted, n_right


@compiled(inline="always")
def _buy_two(open_rows: Any, s: Any, last: Any, accepted: Any, right: Any) -> Any:
    """Buy the set `s`, then the set `last` for the rows that stay open.

    Returns how many rows `s` accepts, and how many both accept and get right. No row is accepted
    twice, so the bits of both sets are counted together.
    """
    n_first = 0
    n_accepted = 0
    n_right = 0
    for w in range(np.uint64(open_rows.shape[0])):
        undecided = open_rows[w]
        sure = undecided & accepted[s, w]
        left = undecided ^ sure
        n_first += count_bits(sure)
        n_accepted += count_bits(sure | (left & accepted[last, w]))
        n_right += count_bits((undecided & right[s, w]) | (left & right[last, w]))
    return n_first, n_accepted, n_right


@compiled(inline="always")
def _miss(so_far: Any, open_rows: Any, s: Any, accepted: Any, right: Any, masks: Any, most: Any,
          missed: Any) -> Any:  # fmt: skip
    """Add the rows of each limited class that `s` misses; return whether a limit is exceeded."""
    beyond = False
    for c in range(most.shape[0]):
        wrong = so_far[c]
        for w in range(open_rows.shape[0]):
            wrong += count_bits(open_rows[w] & (accepted[s, w] ^ right[s, w]) & masks[c, w])
        missed[c] = wrong
        beyond = beyond or wrong > most[c]
    return beyond


@compiled(inline="always")
def _rejects(open_rows: Any, s: Any, last: Any, accepted: Any, masks: Any, most: Any) -> Any:
    """Return whether a design that ends with `s`, then `last`, rejects too much of a class.

    Longer chains leave fewer rows open, so no chain is abandoned because of this.
    """
    beyond = False
    for c in range(most.shape[0]):
        rejected = 0
        for w in range(open_rows.shape[0]):
            taken = accepted[s, w] | accepted[last, w]
            rejected += count_bits(open_rows[w] & ~taken & masks[c, w])
        beyond = beyond or rejected > most[c]
    return beyond


@compiled(inline="always")
def _place(n_accepted: Any, n_wrong: Any, width: Any, step: Any) -> Any:
    """Return the place in `least` that shows whether a design is dominated; -1 if there is none.

    In a dense table, this is its own cell. For a list, it is the coarse place of designs that
    accept more rows and get fewer wrong.
    """
    if step == 0:
        return n_accepted * width + n_wrong
    a, b = n_accepted // step + 1, n_wrong // step - 1
    return a * width + b if a < width and b >= 0 else -1


@compiled(inline="always")
def _note(place: Any, n_accepted: Any, n_right: Any, paid: Any, n_stages: Any, key: Any,
          least: Any, cells: Any, keys: Any, step: Any, used: Any) -> Any:  # fmt: skip
    """Store a design that is not dominated: in its cell, or at the end of a list.

    A cell has the lowest cost, the number of designs that share it, and the simplest of them.
    """
    if step > 0:
        cells[used, 0] = paid
        cells[used, 1] = n_accepted
        cells[used, 2] = n_right
        cells[used, 3] = n_stages
        keys[used] = key
        return used + 1
    if paid < least[place]:
        least[place] = paid
        cells[place, 0] = 1
        cells[place, 1] = n_stages
        keys[place] = key
    else:
        cells[place, 0] += 1
        if n_stages < cells[place, 1] or (n_stages == cells[place, 1] and key < keys[place]):
            cells[place, 1] = n_stages
            keys[place] = key
    return used


@compiled()
def walk(
    firsts: Any,  # the sets that the first stage may buy
    max_stages: Any,
    use_all: Any,  # whether the last stage must have bought every source
    accepted: Any,  # sets x words, a set's position being its bits
    right: Any,
    price: Any,
    exists: Any,  # whether a set is closed under what its sources require
    spread: Any,  # a set with four bits per source, the first source highest
    everyone: Any,
    missed_masks: Any,  # classes with a limit on missed rows x words
    most_missed: Any,  # the limit of each
    rejected_masks: Any,  # the same for what is rejected; None if nothing is limited, so that
    most_rejected: Any,  # the check is not compiled into the loops
    least: Any,  # the lowest cost at each place; a design that costs more is dominated
    width: Any,  # of `least`, as a square
    step: Any,  # counts that share a place; 0 if every pair (accepted, wrong) has its own
    cells: Any,
    keys: Any,
    state: Any,  # of the walk: next first, depth, designs walked, list entries used
    chain: Any,
    rest: Any,
    following: Any,
    undecided: Any,  # (max_stages + 1) x words
    sums: Any,  # (max_stages + 1) x (accepted, right, paid, rows left)
    missed: Any,  # (max_stages + 1) x classes with a limit on missed rows
    spreads: Any,
) -> Any:
    """Walk every chain of sets that starts with one of `firsts`; return whether it is finished.

    If a list fills up, the walk stops before its next loop; it is called again with the same arrays
    once there is room.
    """
    full = accepted.shape[0] - 1
    room = cells.shape[0] - accepted.shape[0] - 2
    i, depth, walked, used = state[0], state[1], state[2], state[3]
    left_open = np.empty(everyone.shape[0], dtype=np.uint64)
    scratch = np.empty(most_missed.shape[0], dtype=np.int64)
    limited = most_missed.shape[0] > 0
    while True:
        if step > 0 and used > room:
            state[0], state[1], state[2], state[3] = i, depth, walked, used
            return False
        # Take the next set: a first one, or the next that follows the chain so far.
        if depth == 0:
            if i == firsts.shape[0]:
                break
            s = firsts[i]
            i += 1
        else:
            t = following[depth]
            if t == 0:
                depth -= 1
                continue
            following[depth] = (t - 1) & rest[depth]
            s = chain[depth] | t
            if use_all and s == full:
                continue
        if not exists[s]:
            continue
        before = price[chain[depth]] if depth > 0 else 0
        paid = sums[depth, 2] + sums[depth, 3] * (price[s] - before)
        beyond = _miss(missed[depth], undecided[depth], s, accepted, right, missed_masks,
                       most_missed, missed[depth + 1])  # fmt: skip
        got, got_right = _buy(undecided[depth], s, accepted, right, undecided[depth + 1])
        depth += 1
        chain[depth] = s
        spreads[depth] = spreads[depth - 1] + spread[s]
        sums[depth, 0] = sums[depth - 1, 0] + got
        sums[depth, 1] = sums[depth - 1, 1] + got_right
        sums[depth, 2] = paid
        sums[depth, 3] = sums[depth - 1, 3] - got
        open_rows = undecided[depth]
        # The design that ends here, or with every other source bought next.
        if not use_all or s == full:
            walked += 1
            got, got_right = sums[depth, 0], sums[depth, 1]
            place = _place(got, got - got_right, width, step)
            beyond = beyond or (place >= 0 and paid > least[place])
            if most_rejected is not None and not beyond:
                beyond = _rejects(open_rows, s, s, accepted, rejected_masks, most_rejected)
            if not beyond:
                key = np.uint64(depth + 1) * spread[s] - spreads[depth]
                used = _note(place, got, got_right, paid, depth, key, least, cells, keys, step,
                             used)  # fmt: skip
        elif depth < max_stages:
            walked += 1
            got, got_right = _judge(open_rows, full, accepted, right)
            got, got_right = sums[depth, 0] + got, sums[depth, 1] + got_right
            all_paid = paid + sums[depth, 3] * (price[full] - price[s])
            beyond = _miss(missed[depth], open_rows, full, accepted, right, missed_masks,
                           most_missed, scratch)  # fmt: skip
            place = _place(got, got - got_right, width, step)
            beyond = beyond or (place >= 0 and all_paid > least[place])
            if most_rejected is not None and not beyond:
                beyond = _rejects(open_rows, s, full, accepted, rejected_masks, most_rejected)
            if not beyond:
                key = np.uint64(depth + 1) * spread[full] - spreads[depth]
                used = _note(place, got, got_right, all_paid, depth + 1, key, least, cells, keys,
                             step, used)  # fmt: skip
        # The sets that may follow. The last loop of a chain, nearly all of the work, is inlined.
        others = full & ~s
        room_for = max_stages - depth - (1 if use_all else 0)
        if others == 0 or room_for <= 0:
            depth -= 1
            continue
        if room_for > 1:
            rest[depth] = others
            following[depth] = others
            continue
        n_accepted, n_right, left = sums[depth, 0], sums[depth, 1], sums[depth, 3]
        here = price[s]
        all_price = price[full]
        t = (others - 1) & others if use_all else others
        while t != 0:
            s_next = np.uint64(s | t)  # unsigned, so that no index is tested for its sign
            t = (t - 1) & others
            if not exists[s_next]:
                continue
            walked += 1
            next_paid = paid + left * (price[s_next] - here)
            if use_all:
                first, got, got_right = _buy_two(
                    open_rows, s_next, np.uint64(full), accepted, right
                )
                next_paid += (left - first) * (all_price - price[s_next])
            else:
                got, got_right = _judge(open_rows, s_next, accepted, right)
            got, got_right = n_accepted + got, n_right + got_right
            place = _place(got, got - got_right, width, step)
            if place >= 0 and next_paid > least[np.uint64(place)]:
                continue
            if limited:
                beyond = _miss(missed[depth], open_rows, s_next, accepted, right, missed_masks,
                               most_missed, scratch)  # fmt: skip
                if use_all:
                    _buy(open_rows, s_next, accepted, right, left_open)
                    beyond = _miss(scratch, left_open, full, accepted, right, missed_masks,
                                   most_missed, scratch)  # fmt: skip
                if beyond:
                    continue
            if most_rejected is not None:
                last = np.uint64(full) if use_all else s_next
                if _rejects(open_rows, s_next, last, accepted, rejected_masks, most_rejected):
                    continue
            # Four bits per source: n_stages + 1 minus the number of sets with it, so stage + 1.
            key = np.uint64(depth + 1) * spread[s_next] - spreads[depth]
            n_stages = depth + 1
            if use_all:
                key = np.uint64(depth + 2) * spread[full] - spreads[depth] - spread[s_next]
                n_stages = depth + 2
            used = _note(place, got, got_right, next_paid, n_stages, key, least, cells, keys, step,
                         used)  # fmt: skip
        depth -= 1
    state[0], state[1], state[2], state[3] = i, depth, walked, used
    return True
