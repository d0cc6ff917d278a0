/* Evaluate given chains of source sets. */

#include "kernels.h"

#include <string.h>

ALWAYS_INLINE void evaluate(Chains chains, const int64_t *prices, Outcomes table, Masks masks,
                            uint64_t *undecided, Counts out, bool by_stake)
{
    const size_t words = table.words, classes = masks.classes;
    int64_t n_rows = 0;
    for (size_t w = 0; w < words; w++)
        n_rows += count_bits(table.everyone[w]);
    for (size_t d = 0; d < chains.designs; d++) {
        if (chains.positions[chains.begins[d]] < 0)
            continue;
        memcpy(undecided, table.everyone, words * sizeof *undecided);
        int64_t n_left = n_rows, accepted_sum = 0, right_sum = 0, paid = 0, before = 0;
        int64_t *class_accepted = out.class_accepted + d * classes;
        int64_t *class_right = out.class_right + d * classes;
        for (int64_t i = chains.begins[d]; i < chains.begins[d + 1]; i++) {
            const size_t threshold = (size_t)chains.which[i], set = (size_t)chains.positions[i];
            const uint64_t *accepted = line_of(table.accepted, threshold, set, words);
            const uint64_t *right = line_of(table.right, threshold, set, words);
            out.reached[i] = n_left;
            paid += n_left * (prices[i] - before);
            before = prices[i];
            for (size_t w = 0; w < words; w++) {
                const uint64_t sure = undecided[w] & accepted[w], good = undecided[w] & right[w];
                n_left -= count_bits(sure);
                accepted_sum += sum_of(table.planes, w, sure, by_stake);
                right_sum += sum_of(table.planes, w, good, by_stake);
                for (size_t c = 0; c < classes; c++) {
                    const uint64_t mask = masks.bits[c * words + w];
                    class_accepted[c] += sum_of(table.planes, w, sure & mask, by_stake);
                    class_right[c] += sum_of(table.planes, w, good & mask, by_stake);
                }
                undecided[w] ^= sure;
            }
        }
        out.accepted[d] = accepted_sum;
        out.right[d] = right_sum;
        out.paid[d] = paid;
    }
}

FOR_EACH_MACHINE
void evaluate_chains(Chains chains, const int64_t *prices, Outcomes table, Masks masks,
                     uint64_t *undecided, Counts out)
{
    if (table.planes.count)
        evaluate(chains, prices, table, masks, undecided, out, true);
    else
        evaluate(chains, prices, table, masks, undecided, out, false);
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
                    out[d * classes + c] += sum_of(table.planes, w, own, table.planes.count > 0);
                }
            }
        }
    }
}
