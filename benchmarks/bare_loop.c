/* The ANDs and population counts of all chains of up to four sets, and nothing else. */

#include <stddef.h>
#include <stdint.h>

#define COUNT(word) __builtin_popcountll(word)

/* Return the number of designs; the counts end in `total`, so that none is left out. */
int64_t bare(const int64_t *firsts, size_t n_firsts, const uint64_t *accepted, const uint64_t *right,
             size_t sets, size_t words, uint64_t *one, uint64_t *two, int64_t *total)
{
    const size_t full = sets - 1;
    const uint64_t *all_accepted = accepted + full * words, *all_right = right + full * words;
    int64_t counted = 0, designs = 0;
    for (size_t i = 0; i < n_firsts; i++) {
        const size_t s1 = (size_t)firsts[i];
        for (size_t w = 0; w < words; w++) {
            counted += COUNT(accepted[s1 * words + w]) + COUNT(right[s1 * words + w]);
            one[w] = ~accepted[s1 * words + w];
        }
        const size_t rest = full & ~s1;
        for (size_t t = (rest - 1) & rest; rest && t > 0; t = (t - 1) & rest) {
            const size_t s2 = s1 | t;
            for (size_t w = 0; w < words; w++) {
                const uint64_t sure = one[w] & accepted[s2 * words + w];
                counted += COUNT(sure) + COUNT(one[w] & right[s2 * words + w]);
                two[w] = one[w] ^ sure;
            }
            const size_t others = full & ~s2;
            for (size_t u = (others - 1) & others; others && u > 0; u = (u - 1) & others) {
                const size_t s3 = s2 | u;
                for (size_t w = 0; w < words; w++) {
                    const uint64_t sure = two[w] & accepted[s3 * words + w], left = two[w] ^ sure;
                    counted += COUNT(sure) + COUNT(two[w] & right[s3 * words + w]);
                    counted += COUNT(left & all_accepted[w]) + COUNT(left & all_right[w]);
                }
                designs++;
            }
        }
    }
    *total = counted;
    return designs;
}
