/* Loops over packed bits and trees: plain C, which knows nothing of Python.
 *
 * Rows are bits, 64 to a word. For a source set, `accepted` marks the rows whose confidence reaches
 * the threshold, and `right` those of them that are labelled right. Along a chain S1 < S2 < ... the
 * rows still undecided are an AND of rejected bits, and an evaluation needs only population counts.
 *
 * Rows may count by what is at stake on them, a whole number. Stakes are planes of bits: plane p
 * marks the rows whose stake has the bit 2^p, so a sum of stakes is one population count a plane.
 */
#ifndef EMSCO_KERNELS_H
#define EMSCO_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whole loops are compiled twice for x86-64, and the loader chooses: with one instruction for the
 * count of a word's bits, a search takes a third of the time. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_MACHINE __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define FOR_EACH_MACHINE
#endif

#if defined(_MSC_VER)
#include <intrin.h>
#define ALWAYS_INLINE static __forceinline
#else
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#endif

/* Count the bits of a word. */
ALWAYS_INLINE int64_t count_bits(uint64_t word)
{
#if defined(_MSC_VER)
    word -= (word >> 1) & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + ((word >> 2) & 0x3333333333333333u);
    return (int64_t)((((word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u) >> 56);
#else
    return __builtin_popcountll(word);
#endif
}

/* The stakes of rows as planes of bits, those of a word together: words x planes; none if every row
 * counts as one. */
typedef struct {
    size_t count;
    const uint64_t *bits;
} Planes;

/* Add up the bits from `begin` to below `end` of the stakes of the rows of word `w` that `rows` marks. */
ALWAYS_INLINE int64_t sum_of_bits(Planes planes, size_t w, uint64_t rows, size_t begin, size_t end)
{
    const uint64_t *plane = planes.bits + w * planes.count;
    int64_t sum = 0;
    for (size_t p = begin; p < end; p++)
        sum += count_bits(rows & plane[p]) << p;
    return sum;
}

/* Count the rows of word `w` that `rows` marks, or add up their stakes. */
ALWAYS_INLINE int64_t sum_of(Planes planes, size_t w, uint64_t rows, bool by_stake)
{
    return by_stake ? sum_of_bits(planes, w, rows, 0, planes.count) : count_bits(rows);
}

/* Lines of bits, one for each source set, in one or more layers: layers x sets x words. */
typedef struct {
    const uint64_t *bits;
    size_t layer; /* words from one layer to the next, which may leave room for more sets */
} Lines;

/* The outcomes of source sets; a layer for each threshold. */
typedef struct {
    size_t words;
    Lines accepted, right;
    const uint64_t *everyone; /* words: a bit for each row there is */
    Planes planes;
} Outcomes;

ALWAYS_INLINE const uint64_t *line_of(Lines lines, size_t layer, size_t set, size_t words)
{
    return lines.bits + layer * lines.layer + set * words;
}

/* Chains of source sets, a design each. */
typedef struct {
    size_t designs;
    const int64_t *positions; /* of each set of each chain in the tables; -1 if it does not exist */
    const int64_t *which;     /* of the thresholds that each stage has */
    const int64_t *begins;    /* where each design's chain begins */
} Chains;

/* Masks of classes: a bit for each row of a class. */
typedef struct {
    size_t classes;
    const uint64_t *bits; /* classes x words */
} Masks;

/* What is counted of each design: rows or stakes, but `reached` always counts rows. */
typedef struct {
    int64_t *accepted, *right, *paid;
    int64_t *class_accepted, *class_right; /* designs x classes */
    int64_t *reached;                      /* rows that reach each set of each chain */
} Counts;

void evaluate_chains(Chains chains, const int64_t *prices, Outcomes table, Masks masks,
                     uint64_t *undecided, Counts out);

/* A layer of `labels` is a bit of the label's code. */
void count_labels(Chains chains, Outcomes table, Lines labels, size_t label_bits, size_t classes,
                  uint64_t *undecided, int64_t *out);

/* A walk over every chain of sets, whose position is the number that their bits form. */
typedef struct {
    size_t sets, words;
    const uint64_t *accepted, *right; /* sets x words */
    Planes planes;
    const int64_t *firsts; /* the sets that the first stage may buy */
    size_t n_firsts;
    int64_t max_stages;
    bool use_all;           /* whether the last stage must have bought every source */
    const int64_t *price;   /* of each set */
    const bool *exists;     /* whether a set is closed under what its sources require */
    const uint64_t *spread; /* a set with four bits per source, the first source highest */
    Masks missed_masks, rejected_masks; /* of the classes with a limit */
    const int64_t *most_missed, *most_rejected;
    int64_t *least;         /* the lowest cost at each place; a design that costs more is dominated;
                             * of a list, no higher where fewer are accepted or more are wrong */
    int64_t width;          /* of `least`, as a square */
    int64_t step;           /* counts that share a place; 0 if each (accepted, wrong) has its own */
    int64_t *cells;         /* what is known of each place, or a list of designs */
    size_t room;            /* how many cells there are */
    uint64_t *keys;
    int64_t *state;         /* next first, depth, designs walked, list entries used */
    int64_t *chain, *rest, *following;
    uint64_t *undecided;    /* (depths) x words */
    int64_t *sums;          /* (max_stages + 2) x (accepted, right, paid, rows left) */
    int64_t *missed;        /* (max_stages + 2) x classes with a limit on missed rows */
    uint64_t *spreads;
    uint64_t *left_open;    /* words: room to work in */
    int64_t *scratch;       /* classes with a limit on missed rows: the same */
} Walk;

/* Walk every chain that starts with one of `firsts`; return whether the walk is finished.
 *
 * If a list fills up, the walk stops before its next loop; it is called again with the same arrays
 * once there is room. */
bool walk(const Walk *walk);

/* Trees of gradient boosting, all nodes in one row. */
typedef struct {
    size_t trees;
    const int64_t *begins; /* where each tree's nodes begin */
    const int64_t *feature;
    const double *threshold;
    const uint8_t *missing_left, *is_leaf;
    const uint32_t *left, *right; /* counted from the tree's first node */
    const double *value;
} Trees;

/* Nodes still to visit, with the sources known and bought on the way. */
typedef struct {
    int64_t *node;
    uint64_t *known, *bought;
} Todo;

/* Add the leaf of each tree to each row and set; an iteration has one tree per class. */
void add_leaves(const double *X, size_t rows, size_t columns, const uint64_t *sets, size_t n_sets,
                const int64_t *source, Trees trees, size_t classes, Todo todo, double *raw);

#endif
