/* Evaluate given chains of source sets. */

#include "kernels.h"

#include <string.h>

FOR_EACH_MACHINE
void evaluate_chains(Chains chains, const int64_t *prices, Outcomes table, Masks masks,
                     uint64_t *undecided, Counts out)
{
    const size_t words = table.words, classes = masks.classes;
    int64_t n_rows = 0;
    for (size_t w = 0; w < words; w++)
        n_rows += count_bits(table.everyone[w]);
    for (size_t d = 0; d < chains.designs; d++) {
        if (chains.positions[chains.begins[d]] < 0)
            continue;
        memcpy(undecided, table.everyone, words * sizeof *undecided);
        int64_t n_accepted = 0, n_right = 0, paid = 0, before = 0;
        int64_t *class_accepted = out.class_accepted + d * classes;
        int64_t *class_right = out.class_right + d * classes;
        for (int64_t i = chains.begins[d]; i < chains.begins[d + 1]; i++) {
            const size_t threshold = (size_t)chains.which[i], set = (size_t)chains.positions[i];
            const uint64_t *accepted = line_of(table.accepted, threshold, set, words);
            const uint64_t *right = line_of(table.right, threshold, set, words);
            out.reached[i] = n_rows - n_accepted;
            paid += (n_rows - n_accepted) * (prices[i] - before);
            before = prices[i];
            for (size_t w = 0; w < words; w++) {
                const uint64_t sure = undecided[w] & accepted[w], good = undecided[w] & right[w];
                n_accepted += count_bits(sure);
                n_right += count_bits(good);
                for (size_t c = 0; c < classes; c++) {
                    const uint64_t mask = masks.bits[c * words + w];
                    class_accepted[c] += count_bits(sure & mask);
                    class_right[c] += count_bits(good & mask);
                }
                undecided[w] ^= sure;
            }
        }
        out.accepted[d] = n_accepted;
        out.right[d] = n_right;
        out.paid[d] = paid;
    }
}

FOR_EACH_MACHINE
void count_labels(Chains chains, Outcomes table, Lines labels, size_t label_bits, size_t classes,
                  uint64_t *undecided, int64_t *out)
{
    const size_t words = table.words;
    for (size_t d = 0; d < chains.designs; d++) {
        memcpy(undecided, table.everyone, words * sizeof *undecided);
        for (int64_t i = chains.begins[d]; i < chains.begins[d + 1]; i++) {
            const size_t threshold = (size_t)chains.which[i], set = (size_t)chains.positions[i];
            const uint64_t *accepted = line_of(table.accepted, threshold, set, words);
            for (size_t w = 0; w < words; w++) {
                const uint64_t sure = undecided[w] & accepted[w];
                undecided[w] ^= sure;
                for (size_t c = 0; c < classes; c++) {
                    uint64_t own = sure;
                    for (size_t b = 0; b < label_bits; b++) {
                        const uint64_t label = line_of(labels, b, set, words)[w];
                        own &= c >> b & 1 ? label : ~label;
                    }
                    out[d * classes + c] += count_bits(own);
                }
            }
        }
    }
}
