/* The best tokens without sorting the vocabulary: a histogram over the leading bits of the
 * probabilities (for floats >= 0 the bits are in the order of the values) says in which bucket a
 * cut lies. What is above is left, and of that bucket a heap gives the best one by one. */
#include "worker/compute/stage/candidates.h"

#include "worker/compute/stage/aligned_array.h"

#include <assert.h>
#include <string.h>

/* Eight buckets to a power of two: sign, exponent and 3 bits of the mantissa. 1.0f is in bucket
 * 1016. */
#define BUCKET_SHIFT 20
#define BUCKETS      1017u

typedef struct lh_candidate {
    float probability;
    uint32_t token;
} lh_candidate;

/* Tokens 0 .. count - 1, or where they are given tokens[count]. */
typedef struct token_list {
    const uint32_t *tokens;
    uint32_t count;
} token_list;

/* What a cut adds up, and how much of it is enough. */
typedef enum cut_measure { CUT_BY_COUNT, CUT_BY_MASS } cut_measure;

bool lh_truncation_is_on(const lh_truncation *cut, uint32_t count) {
    return (cut->top_k > 0 && cut->top_k < count) || cut->top_p < 1 || cut->min_p > 0;
}

size_t lh_candidates_bytes(uint32_t count) {
    return lh_aligned_bytes((size_t)count * sizeof(lh_candidate));
}

static uint32_t token_at(token_list list, uint32_t i) {
    return list.tokens ? list.tokens[i] : i;
}

static uint32_t bucket_of(float probability) {
    uint32_t bits;
    memcpy(&bits, &probability, sizeof bits);
    assert(bits >> BUCKET_SHIFT < BUCKETS);
    return bits >> BUCKET_SHIFT;
}

static uint64_t weight_of(float probability, cut_measure measure) {
    return measure == CUT_BY_COUNT ? 1 : (uint64_t)(int64_t)(probability * 0x1p40f);
}

/* floor(top_p * total), top_p to 32 bits behind the point. */
static uint64_t share_of(uint64_t total, float top_p) {
    uint64_t share = (uint64_t)(top_p * 0x1p32f);
    return (total >> 32) * share + ((total & UINT32_MAX) * share >> 32);
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

/* Writes the best of heap[count] to tokens, one by one until their weights come to `enough`: at
 * least one, where there are any. Returns how many. */
static uint32_t heap_take(lh_candidate *heap, uint32_t count, cut_measure measure, uint64_t enough,
                          uint32_t *tokens) {
    uint32_t taken = 0;
    uint64_t sum = 0;
    for (uint32_t place = count / 2; place-- > 0;)
        heap_sink(heap, count, place);
    while (taken < count && (taken == 0 || sum < enough)) {
        tokens[taken++] = heap[0].token;
        sum += weight_of(heap[0].probability, measure);
        heap[0] = heap[count - taken];
        heap_sink(heap, count - taken, 0);
    }
    return taken;
}

/* Of list, to `tokens`, which may be the list's own: the best, until their weights come to `enough`
 * of a count, or to the share top_p of their mass. Returns how many. */
static uint32_t take_best(const float *probabilities, token_list list, cut_measure measure,
                          uint32_t wanted, float top_p, uint32_t *tokens, lh_candidate *heap) {
    uint64_t weights[BUCKETS] = {0}, total = 0, above = 0;
    for (uint32_t i = 0; i < list.count; i++) {
        float probability = probabilities[token_at(list, i)];
        if (probability > 0)
            weights[bucket_of(probability)] += weight_of(probability, measure);
    }
    for (uint32_t bucket = 0; bucket < BUCKETS; bucket++)
        total += weights[bucket];
    uint64_t enough = measure == CUT_BY_COUNT ? wanted : share_of(total, top_p);
    uint32_t lowest = BUCKETS - 1, taken = 0, held = 0;
    for (; lowest > 0 && above + weights[lowest] < enough; lowest--)
        above += weights[lowest];
    for (uint32_t i = 0; i < list.count; i++) {
        uint32_t token = token_at(list, i), bucket = bucket_of(probabilities[token]);
        if (bucket > lowest)
            tokens[taken++] = token;
        else if (bucket == lowest && probabilities[token] > 0)
            heap[held++] = (lh_candidate){probabilities[token], token};
    }
    return taken + heap_take(heap, held, measure, enough - above, tokens + taken);
}

static uint32_t take_probable(const float *probabilities, token_list list, float min_p,
                              uint32_t *tokens) {
    uint32_t taken = 0;
    for (uint32_t i = 0; i < list.count; i++) {
        uint32_t token = token_at(list, i);
        if (probabilities[token] > 0 && probabilities[token] >= min_p)
            tokens[taken++] = token;
    }
    return taken;
}

uint32_t lh_candidates_left(const float *probabilities, uint32_t count, const lh_truncation *cut,
                            uint32_t *tokens, void *scratch) {
    token_list list = {NULL, count};
    assert(count <= LH_CANDIDATES_MAX);
    if (cut->top_k > 0 && cut->top_k < count) {
        list.count = take_best(probabilities, list, CUT_BY_COUNT, cut->top_k, 1, tokens, scratch);
        list.tokens = tokens;
    }
    if (cut->top_p < 1) {
        list.count = take_best(probabilities, list, CUT_BY_MASS, 0, cut->top_p, tokens, scratch);
        list.tokens = tokens;
    }
    return take_probable(probabilities, list, cut->min_p, tokens);
}
