/* Evaluate every chain of source sets, each step of a chain once. */

#include "kernels.h"

/* What a step of a chain, or the end of a design, adds. */
typedef struct {
    int64_t accepted, right; /* rows, or their stakes */
} Got;

/* Buy the set `s` for the open rows: what it accepts (`*n_rows` of them), and those that stay open. */
ALWAYS_INLINE Got buy(const Walk *w, const uint64_t *open_rows, size_t s, uint64_t *left_open,
                      int64_t *n_rows, bool by_stake)
{
    const size_t words = w->words;
    const uint64_t *accepted = w->accepted + s * words, *right = w->right + s * words;
    Got got = {0, 0};
    int64_t n_sure = 0;
    for (size_t i = 0; i < words; i++) {
        const uint64_t undecided = open_rows[i], sure = undecided & accepted[i];
        n_sure += count_bits(sure);
        got.accepted += sum_of(w->planes, i, sure, by_stake);
        got.right += sum_of(w->planes, i, undecided & right[i], by_stake);
        left_open[i] = undecided ^ sure;
    }
    *n_rows = n_sure;
    return got;
}

/* Which bits of stakes are added up; without stakes, rows are counted. */
typedef struct {
    bool by_stake;
    size_t begin, end;
} Digits;

ALWAYS_INLINE int64_t sum_in(const Walk *w, size_t i, uint64_t rows, Digits digits)
{
    return digits.by_stake ? sum_of_bits(w->planes, i, rows, digits.begin, digits.end) : count_bits(rows);
}

/* Buy the last set of a chain: like `buy`, but the rows that stay open are not needed. */
ALWAYS_INLINE Got judge(const Walk *w, const uint64_t *open_rows, size_t s, Digits digits)
{
    const size_t words = w->words;
    const uint64_t *accepted = w->accepted + s * words, *right = w->right + s * words;
    Got got = {0, 0};
    for (size_t i = 0; i < words; i++) {
        got.accepted += sum_in(w, i, open_rows[i] & accepted[i], digits);
        got.right += sum_in(w, i, open_rows[i] & right[i], digits);
    }
    return got;
}

/* Buy the set `s`, then the set `last` for the rows that stay open; `*first` is how many rows `s` accepts.
 *
 * No row is accepted twice, so the bits of both sets are counted together. */
ALWAYS_INLINE Got buy_two(const Walk *w, const uint64_t *open_rows, size_t s, size_t last,
                          int64_t *first, Digits digits)
{
    const size_t words = w->words;
    const uint64_t *accepted = w->accepted + s * words, *right = w->right + s * words;
    const uint64_t *last_accepted = w->accepted + last * words;
    const uint64_t *last_right = w->right + last * words;
    Got got = {0, 0};
    int64_t n_first = 0;
    for (size_t i = 0; i < words; i++) {
        const uint64_t undecided = open_rows[i], sure = undecided & accepted[i];
        const uint64_t left = undecided ^ sure;
        n_first += count_bits(sure);
        const uint64_t good = (undecided & right[i]) | (left & last_right[i]);
        got.accepted += sum_in(w, i, sure | (left & last_accepted[i]), digits);
        got.right += sum_in(w, i, good, digits);
    }
    *first = n_first;
    return got;
}

/* Add the rows of each limited class that `s` misses; return whether a limit is exceeded. */
ALWAYS_INLINE bool miss(const Walk *w, const int64_t *so_far, const uint64_t *open_rows, size_t s,
                        int64_t *missed, bool by_stake)
{
    const size_t words = w->words;
    const uint64_t *accepted = w->accepted + s * words, *right = w->right + s * words;
    bool beyond = false;
    for (size_t c = 0; c < w->missed_masks.classes; c++) {
        const uint64_t *mask = w->missed_masks.bits + c * words;
        int64_t wrong = so_far[c];
        for (size_t i = 0; i < words; i++)
            wrong += sum_of(w->planes, i, open_rows[i] & (accepted[i] ^ right[i]) & mask[i], by_stake);
        missed[c] = wrong;
        beyond = beyond || wrong > w->most_missed[c];
    }
    return beyond;
}

/* Say whether a design that ends with `s`, then `last`, rejects too much of a class.
 *
 * Longer chains leave fewer rows open, so no chain is abandoned because of this. */
ALWAYS_INLINE bool rejects(const Walk *w, const uint64_t *open_rows, size_t s, size_t last,
                           bool by_stake)
{
    const size_t words = w->words;
    const uint64_t *accepted = w->accepted + s * words;
    const uint64_t *last_accepted = w->accepted + last * words;
    for (size_t c = 0; c < w->rejected_masks.classes; c++) {
        const uint64_t *mask = w->rejected_masks.bits + c * words;
        int64_t rejected = 0;
        for (size_t i = 0; i < words; i++) {
            const uint64_t away = open_rows[i] & ~(accepted[i] | last_accepted[i]) & mask[i];
            rejected += sum_of(w->planes, i, away, by_stake);
        }
        if (rejected > w->most_rejected[c])
            return true;
    }
    return false;
}

/* Give the place in `least` that shows whether a design is dominated; -1 if there is none.
 *
 * In a dense table this is its own cell. For a list it is the coarse place of designs that accept
 * more rows and get fewer wrong. */
ALWAYS_INLINE int64_t place_of(const Walk *w, Got got)
{
    const int64_t wrong = got.accepted - got.right;
    if (w->step == 0)
        return got.accepted * w->width + wrong;
    const int64_t a = got.accepted / w->step + 1, b = wrong / w->step - 1;
    return a < w->width && wrong >= w->step ? a * w->width + b : -1;
}

ALWAYS_INLINE bool is_dominated(const Walk *w, int64_t place, int64_t paid)
{
    return place >= 0 && paid > w->least[place];
}

/* Store a design that is not dominated: in its cell, or at the end of a list.
 *
 * A cell has the lowest cost, the number of designs that share it, and the simplest of them. */
ALWAYS_INLINE void note(Walk *w, int64_t *used, Got got, int64_t paid, int64_t stages, uint64_t key)
{
    if (w->step > 0) {
        int64_t *cell = w->cells + *used * 4;
        cell[0] = paid, cell[1] = got.accepted, cell[2] = got.right, cell[3] = stages;
        w->keys[*used] = key;
        ++*used;
        return;
    }
    const int64_t place = place_of(w, got);
    int64_t *cell = w->cells + place * 2;
    if (paid < w->least[place]) {
        w->least[place] = paid;
        cell[0] = 1, cell[1] = stages;
        w->keys[place] = key;
        return;
    }
    cell[0]++;
    if (stages < cell[1] || (stages == cell[1] && key < w->keys[place])) {
        cell[1] = stages;
        w->keys[place] = key;
    }
}

/* Note the design that ends at this depth, or that buys every other source next. */
ALWAYS_INLINE void end_here(Walk *w, int64_t *used, int64_t *walked, int64_t depth, size_t s,
                            bool beyond, bool by_stake)
{
    const size_t full = w->sets - 1, words = w->words;
    const uint64_t *open_rows = w->undecided + (size_t)depth * words;
    const int64_t *sums = w->sums + depth * 4;
    Got got = {sums[0], sums[1]};
    int64_t paid = sums[2], stages = depth;
    uint64_t key = (uint64_t)(depth + 1) * w->spread[s] - w->spreads[depth];
    size_t last = s;
    if (w->use_all && s != full) {
        if (depth >= w->max_stages)
            return;
        const Got more = judge(w, open_rows, full, (Digits){by_stake, 0, w->planes.count});
        got.accepted += more.accepted, got.right += more.right;
        paid += sums[3] * (w->price[full] - w->price[s]);
        beyond = miss(w, w->missed + (size_t)depth * w->missed_masks.classes, open_rows, full,
                      w->scratch, by_stake);
        key = (uint64_t)(depth + 1) * w->spread[full] - w->spreads[depth];
        stages = depth + 1, last = full;
    }
    ++*walked;
    if (beyond || is_dominated(w, place_of(w, got), paid) || rejects(w, open_rows, s, last, by_stake))
        return;
    note(w, used, got, paid, stages, key);
}

/* Note every design whose last bought set follows `s`: nearly all of the work. */
ALWAYS_INLINE void end_after(Walk *w, int64_t *used, int64_t *walked, int64_t depth, size_t s,
                             size_t others, bool use_all, bool by_stake)
{
    const size_t full = w->sets - 1, words = w->words;
    const uint64_t *open_rows = w->undecided + (size_t)depth * words;
    const int64_t *sums = w->sums + depth * 4, *missed = w->missed + (size_t)depth * w->missed_masks.classes;
    const int64_t paid = sums[2], left = sums[3], here = w->price[s], all_price = w->price[full];
    /* Stakes are added up from their highest bits, and the lower ones only of designs that are not
     * dominated by then, whatever these bits add: at most `lower` to what is accepted. */
    const size_t n_low = by_stake && w->step > 0 ? w->planes.count / 2 : 0;
    const Digits high = {by_stake, n_low, w->planes.count}, low = {by_stake, 0, n_low};
    int64_t lower = 0;
    for (size_t i = 0; by_stake && i < words; i++)
        lower += sum_of_bits(w->planes, i, open_rows[i], 0, n_low);
    size_t t = use_all ? (others - 1) & others : others;
    while (t != 0) {
        const size_t next = s | t;
        t = (t - 1) & others;
        if (!w->exists[next])
            continue;
        ++*walked;
        int64_t next_paid = paid + left * (w->price[next] - here);
        Got got;
        int64_t first = 0;
        if (use_all) {
            got = buy_two(w, open_rows, next, full, &first, high);
            next_paid += (left - first) * (all_price - w->price[next]);
        } else {
            got = judge(w, open_rows, next, high);
        }
        got.accepted += sums[0], got.right += sums[1];
        if (by_stake && n_low) {
            const Got at_best = {got.accepted + lower, got.right + lower};
            if (is_dominated(w, place_of(w, at_best), next_paid))
                continue;
            const Got more = use_all ? buy_two(w, open_rows, next, full, &first, low)
                                     : judge(w, open_rows, next, low);
            got.accepted += more.accepted, got.right += more.right;
        }
        if (is_dominated(w, place_of(w, got), next_paid))
            continue;
        if (w->missed_masks.classes) {
            bool beyond = miss(w, missed, open_rows, next, w->scratch, by_stake);
            if (use_all) {
                int64_t n_rows;
                buy(w, open_rows, next, w->left_open, &n_rows, by_stake);
                beyond = miss(w, w->scratch, w->left_open, full, w->scratch, by_stake);
            }
            if (beyond)
                continue;
        }
        if (rejects(w, open_rows, next, use_all ? full : next, by_stake))
            continue;
        /* Four bits per source: n_stages + 1 minus the number of sets with it, so stage + 1. */
        uint64_t key = (uint64_t)(depth + 1) * w->spread[next] - w->spreads[depth];
        int64_t stages = depth + 1;
        if (use_all) {
            key = (uint64_t)(depth + 2) * w->spread[full] - w->spreads[depth] - w->spread[next];
            stages = depth + 2;
        }
        note(w, used, got, next_paid, stages, key);
    }
}

/* Take `s` as the next set of the chain; return whether it misses too much of a class. */
ALWAYS_INLINE bool take(Walk *w, int64_t depth, size_t s, bool by_stake)
{
    const size_t words = w->words, classes = w->missed_masks.classes;
    int64_t *sums = w->sums + depth * 4, *next = sums + 4;
    const int64_t before = depth > 0 ? w->price[w->chain[depth]] : 0;
    uint64_t *open_rows = w->undecided + (size_t)depth * words;
    const bool beyond = miss(w, w->missed + (size_t)depth * classes, open_rows, s,
                             w->missed + (size_t)(depth + 1) * classes, by_stake);
    int64_t n_rows;
    const Got got = buy(w, open_rows, s, open_rows + words, &n_rows, by_stake);
    w->chain[depth + 1] = (int64_t)s;
    w->spreads[depth + 1] = w->spreads[depth] + w->spread[s];
    next[0] = sums[0] + got.accepted;
    next[1] = sums[1] + got.right;
    next[2] = sums[2] + sums[3] * (w->price[s] - before);
    next[3] = sums[3] - n_rows;
    return beyond;
}

ALWAYS_INLINE bool walk_on(const Walk *given, bool by_stake)
{
    /* A copy that nobody else can see: the compiler may keep its parts in registers. */
    Walk copy = *given, *w = &copy;
    const size_t full = w->sets - 1;
    const int64_t room = (int64_t)w->room - (int64_t)w->sets - 2;
    int64_t first = w->state[0], depth = w->state[1], walked = w->state[2], used = w->state[3];
    bool finished = false;
    while (w->step == 0 || used <= room) {
        /* Take the next set: a first one, or the next that follows the chain so far. */
        size_t s;
        if (depth == 0) {
            if (first == (int64_t)w->n_firsts) {
                finished = true;
                break;
            }
            s = (size_t)w->firsts[first++];
        } else {
            const int64_t t = w->following[depth];
            if (t == 0) {
                depth--;
                continue;
            }
            w->following[depth] = (t - 1) & w->rest[depth];
            s = (size_t)(w->chain[depth] | t);
            if (w->use_all && s == full)
                continue;
        }
        if (!w->exists[s])
            continue;
        const bool beyond = take(w, depth++, s, by_stake);
        end_here(w, &used, &walked, depth, s, beyond, by_stake);
        /* The sets that may follow. */
        const size_t others = full & ~s;
        const int64_t room_for = w->max_stages - depth - (w->use_all ? 1 : 0);
        if (others != 0 && room_for > 1) {
            w->rest[depth] = w->following[depth] = (int64_t)others;
            continue;
        }
        if (others != 0 && room_for == 1) {
            if (w->use_all)
                end_after(w, &used, &walked, depth, s, others, true, by_stake);
            else
                end_after(w, &used, &walked, depth, s, others, false, by_stake);
        }
        depth--;
    }
    w->state[0] = first, w->state[1] = depth, w->state[2] = walked, w->state[3] = used;
    return finished;
}

FOR_EACH_MACHINE
bool walk(const Walk *given)
{
    return given->planes.count ? walk_on(given, true) : walk_on(given, false);
}
