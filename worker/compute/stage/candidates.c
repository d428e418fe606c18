/* The best tokens without sorting the vocabulary: a histogram over the leading bits of the
 * probabilities (for floats >= 0 the bits are in the order of the values) says how far down top-k
 * or top-p can reach; only what is above that is gathered into a heap, and the heap gives the best
 * one by one until a cut ends it. */
#include "worker/compute/stage/candidates.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Eight buckets to a power of two: sign, exponent and 3 bits of the mantissa. 1.0f is in bucket
 * 1016. */
#define BUCKET_SHIFT 20
#define BUCKETS      1017u
/* Probabilities that are summed before they join the sum of a draw from all. */
#define SUM_BLOCK 256u

typedef struct lh_candidate {
    float probability;
    uint32_t token;
} lh_candidate;

bool lh_truncation_is_on(const lh_truncation *cut, uint32_t count) {
    return (cut->top_k > 0 && cut->top_k < count) || cut->top_p < 1 || cut->min_p > 0;
}

size_t lh_candidates_bytes(uint32_t count) {
    return ((size_t)count * sizeof(lh_candidate) + 63) / 64 * 64;
}

static uint32_t bucket_of(float probability) {
    uint32_t bits;
    memcpy(&bits, &probability, sizeof bits);
    assert(bits >> BUCKET_SHIFT < BUCKETS);
    return bits >> BUCKET_SHIFT;
}

/* ---- From all ---- */

/* Four sums side by side, because a chain of additions waits for each. */
static double block_sum(const float *values, uint32_t count) {
    double sums[4] = {0};
    uint32_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (uint32_t j = 0; j < 4; j++)
            sums[j] += (double)values[i + j];
    for (; i < count; i++)
        sums[0] += (double)values[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static uint32_t block_length(uint32_t begin, uint32_t count) {
    return count - begin < SUM_BLOCK ? count - begin : SUM_BLOCK;
}

/* The element of values[count] at which the running sum passes `target`; rounding may leave it at
 * the end: then the last that is not 0. */
static uint32_t walk(const float *values, uint32_t count, double target) {
    double sum = 0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] > 0) {
            last = i;
            sum += (double)values[i];
            if (sum > target)
                return i;
        }
    }
    return last;
}

uint32_t lh_draw_from_all(const float *probabilities, uint32_t count, double uniform) {
    double total = 0;
    for (uint32_t begin = 0; begin < count; begin += SUM_BLOCK)
        total += block_sum(probabilities + begin, block_length(begin, count));
    double target = uniform * total, before = 0;
    uint32_t found = 0;
    double found_before = 0;
    for (uint32_t begin = 0; begin < count && before <= target; begin += SUM_BLOCK) {
        double sum = block_sum(probabilities + begin, block_length(begin, count));
        if (sum > 0) {
            found = begin;
            found_before = before;
        }
        before += sum;
    }
    return found + walk(probabilities + found, block_length(found, count), target - found_before);
}

/* ---- From the best ---- */

/* The lowest bucket that top-k or top-p can reach. *total is the sum of all. */
static uint32_t lowest_bucket(const float *probabilities, uint32_t count, const lh_truncation *cut,
                              double *total) {
    uint32_t counts[BUCKETS] = {0};
    double masses[BUCKETS] = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (probabilities[i] > 0) {
            uint32_t bucket = bucket_of(probabilities[i]);
            counts[bucket]++;
            masses[bucket] += (double)probabilities[i];
        }
    }
    *total = 0;
    for (uint32_t bucket = 0; bucket < BUCKETS; bucket++)
        *total += masses[bucket];
    uint32_t bucket = BUCKETS - 1, held = counts[bucket];
    double mass = masses[bucket];
    while (bucket > 0 &&
           (cut->top_k > 0 ? held < cut->top_k : mass < (double)cut->top_p * *total)) {
        bucket--;
        held += counts[bucket];
        mass += masses[bucket];
    }
    return bucket;
}

static bool is_better(lh_candidate a, lh_candidate b) {
    return a.probability > b.probability || (a.probability == b.probability && a.token < b.token);
}

static void heap_sink(lh_candidate *heap, uint32_t count, uint32_t place) {
    lh_candidate moving = heap[place];
    for (uint32_t child; (child = 2 * place + 1) < count; place = child) {
        if (child + 1 < count && is_better(heap[child + 1], heap[child]))
            child++;
        if (!is_better(heap[child], moving))
            break;
        heap[place] = heap[child];
    }
    heap[place] = moving;
}

/* Moves the best `wanted` of heap[count] to its end, the best last: at least one, no more when
 * their sum has come to `enough`. Returns how many were moved. */
static uint32_t heap_take(lh_candidate *heap, uint32_t count, uint32_t wanted, double enough) {
    uint32_t taken = 0;
    double mass = 0;
    for (uint32_t place = count / 2; place-- > 0;)
        heap_sink(heap, count, place);
    while (taken < wanted && taken < count && (taken == 0 || mass < enough)) {
        lh_candidate best = heap[0];
        taken++;
        heap[0] = heap[count - taken];
        heap[count - taken] = best;
        heap_sink(heap, count - taken, 0);
        mass += (double)best.probability;
    }
    return taken;
}

static uint32_t gather(const float *probabilities, uint32_t count, uint32_t lowest, float least,
                       lh_candidate *out) {
    uint32_t held = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (probabilities[i] > 0 && probabilities[i] >= least &&
            bucket_of(probabilities[i]) >= lowest) {
            out[held++] = (lh_candidate){probabilities[i], i};
        }
    }
    return held;
}

/* The i-th best of those that heap_take has moved to the end. */
static lh_candidate nth_best(const lh_candidate *end, uint32_t i) {
    return end[-1 - (ptrdiff_t)i];
}

static double sum_of_best(const lh_candidate *end, uint32_t kept) {
    double mass = 0;
    for (uint32_t i = 0; i < kept; i++)
        mass += (double)nth_best(end, i).probability;
    return mass;
}

/* The first of the best[kept] at which the running sum has come to `enough`; the last one where it
 * never does. */
static uint32_t find_by_sum(const lh_candidate *end, uint32_t kept, double enough) {
    double mass = 0;
    for (uint32_t i = 0; i < kept; i++) {
        mass += (double)nth_best(end, i).probability;
        if (mass >= enough)
            return i;
    }
    return kept - 1;
}

uint32_t lh_draw_from_best(const float *probabilities, uint32_t count, const lh_truncation *cut,
                           double uniform, void *scratch) {
    lh_candidate *heap = scratch;
    double total;
    uint32_t kept, lowest = lowest_bucket(probabilities, count, cut, &total);
    /* What top-p counts is known only when the k are: min-p must not hide some of them before. */
    bool by_count_and_mass = cut->top_k > 0 && cut->top_p < 1;
    uint32_t held = gather(probabilities, count, lowest, by_count_and_mass ? 0 : cut->min_p, heap);
    const lh_candidate *end = heap + held;
    if (cut->top_k > 0)
        kept = heap_take(heap, held, cut->top_k, HUGE_VAL);
    else
        kept = heap_take(heap, held, held, cut->top_p < 1 ? (double)cut->top_p * total : HUGE_VAL);
    if (by_count_and_mass)
        kept = find_by_sum(end, kept, (double)cut->top_p * sum_of_best(end, kept)) + 1;
    while (kept > 1 && nth_best(end, kept - 1).probability < cut->min_p)
        kept--;
    double target = uniform * sum_of_best(end, kept);
    /* the sum must pass the target */
    uint32_t drawn = find_by_sum(end, kept, nextafter(target, HUGE_VAL));
    return nth_best(end, drawn).token;
}
