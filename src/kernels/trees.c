/* Walk each tree once for all source sets: see emsco/learners/_tree_walk.py. */

#include "kernels.h"

#include <math.h>

/* Add a leaf to the sets that reach it; without branches, so that it can be vectorised. */
ALWAYS_INLINE void add_leaf(double leaf, const uint64_t *sets, size_t n_sets, uint64_t known,
                            uint64_t bought, double *total)
{
    for (size_t s = 0; s < n_sets; s++)
        total[s] += (sets[s] & known) == bought ? leaf : 0.0;
}

FOR_EACH_MACHINE
void add_leaves(const double *X, size_t rows, size_t columns, const uint64_t *sets, size_t n_sets,
                const int64_t *source, Trees trees, size_t classes, Todo todo, double *raw)
{
    for (size_t row = 0; row < rows; row++) {
        for (size_t tree = 0; tree < trees.trees; tree++) {
            const int64_t first = trees.begins[tree];
            double *total = raw + (row * classes + tree % classes) * n_sets;
            size_t left_to_do = 1;
            todo.node[0] = 0, todo.known[0] = 0, todo.bought[0] = 0;
            while (left_to_do) {
                left_to_do--;
                const int64_t node = first + todo.node[left_to_do];
                const uint64_t known = todo.known[left_to_do], bought = todo.bought[left_to_do];
                if (trees.is_leaf[node]) {
                    add_leaf(trees.value[node], sets, n_sets, known, bought, total);
                    continue;
                }
                const size_t column = (size_t)trees.feature[node];
                const bool tells = column >= columns; /* column of a source, not of a value */
                const uint64_t bit = (uint64_t)1 << (tells ? (int64_t)(column - columns) : source[column]);
                const double number = tells ? 1.0 : X[row * columns + column];
                const bool missing_left = trees.missing_left[node] > 0;
                const bool if_bought = isnan(number) ? missing_left : number <= trees.threshold[node];
                const bool if_hidden = tells ? trees.threshold[node] >= 0.0 : missing_left;
                const int64_t left = trees.left[node], right = trees.right[node];
                /* If both take the same branch, the source stays open, so no node is visited twice. */
                if (known & bit || if_bought == if_hidden) {
                    const bool goes_left = known & bit && !(bought & bit) ? if_hidden : if_bought;
                    todo.node[left_to_do++] = goes_left ? left : right;
                    continue; /* what is known and bought stands there already */
                }
                todo.node[left_to_do] = if_bought ? left : right;
                todo.known[left_to_do] = known | bit;
                todo.bought[left_to_do++] = bought | bit;
                todo.node[left_to_do] = if_hidden ? left : right;
                todo.known[left_to_do] = known | bit;
                todo.bought[left_to_do++] = bought;
            }
        }
    }
}
