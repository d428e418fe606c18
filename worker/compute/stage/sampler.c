/* From logits to a token. Whatever could differ between instruction sets goes through the kernels
 * or is arithmetic of integers, so that every machine draws the same token. */
#include "worker/compute/stage/sampler.h"

#include "worker/compute/stage/aligned_array.h"
#include "worker/compute/stage/candidates.h"
#include "worker/compute/stage/logits.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

/* Ordinary values end far below; beyond, exp and products would only overflow. */
#define BIAS_MAX    1e6f
#define PENALTY_MAX 1e6f

typedef struct lh_sampler_scratch {
    float *probabilities; /* [vocabulary]: not normalized, the greatest is 1 */
    uint32_t *left;       /* [vocabulary]: the tokens that may be drawn */
    void *candidates;     /* lh_candidates_bytes */
} lh_sampler_scratch;

static size_t row_bytes(uint32_t vocabulary) {
    return lh_aligned_bytes((size_t)vocabulary * sizeof(float));
}

size_t lh_sampler_scratch_bytes(uint32_t vocabulary) {
    return 2 * row_bytes(vocabulary) + lh_candidates_bytes(vocabulary);
}

static lh_sampler_scratch scratch_of(void *memory, uint32_t vocabulary) {
    char *bytes = memory;
    return (lh_sampler_scratch){.probabilities = (float *)bytes,
                                .left = (uint32_t *)(bytes + row_bytes(vocabulary)),
                                .candidates = bytes + 2 * row_bytes(vocabulary)};
}

/* ---- The parameters ---- */

static lh_truncation truncation_of(const lh_sampling *sampling) {
    return (lh_truncation){
        .top_k = sampling->top_k, .top_p = sampling->top_p, .min_p = sampling->min_p};
}

static lh_status check_range(const char *name, float value, float minimum, float maximum,
                             lh_error *error) {
    if (value >= minimum && value <= maximum)
        return LH_OK; /* NaN fails both */
    return lh_fail(error, LH_ERR_INVALID, "sampling: %s = %g is not in %g..%g", name, (double)value,
                   (double)minimum, (double)maximum);
}

static lh_status check_token(const char *list, uint32_t token, uint32_t vocabulary,
                             lh_error *error) {
    if (token < vocabulary)
        return LH_OK;
    return lh_fail(error, LH_ERR_LIMIT, "sampling: token %u in %s is not in the vocabulary of %u",
                   token, list, vocabulary);
}

static lh_status check_lists(const lh_sampling *sampling, uint32_t vocabulary, lh_error *error) {
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < sampling->bias_count && status == LH_OK; i++) {
        status = check_token("biases", sampling->biases[i].token, vocabulary, error);
        if (status == LH_OK)
            status = check_range("bias", sampling->biases[i].bias, -BIAS_MAX, BIAS_MAX, error);
    }
    for (uint32_t i = 0; i < sampling->count_count && status == LH_OK; i++)
        status = check_token("counts", sampling->counts[i].token, vocabulary, error);
    return status;
}

lh_status lh_sampling_check(const lh_sampling *sampling, uint32_t vocabulary, lh_error *error) {
    const struct {
        const char *name;
        float value, minimum, maximum;
    } ranges[] = {
        {"temperature", sampling->temperature, 0, 1e6f},
        {"top_p", sampling->top_p, 0, 1},
        {"min_p", sampling->min_p, 0, 1},
        {"repetition_penalty", sampling->repetition_penalty, 1 / PENALTY_MAX, PENALTY_MAX},
        {"presence_penalty", sampling->presence_penalty, -PENALTY_MAX, PENALTY_MAX},
        {"frequency_penalty", sampling->frequency_penalty, -PENALTY_MAX, PENALTY_MAX},
    };
    lh_status status = LH_OK;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0] && status == LH_OK; i++) {
        status = check_range(ranges[i].name, ranges[i].value, ranges[i].minimum, ranges[i].maximum,
                             error);
    }
    if (status == LH_OK && sampling->top_logprobs > LH_TOP_LOGPROBS_MAX) {
        status = lh_fail(error, LH_ERR_LIMIT, "sampling: top_logprobs = %u is over %u",
                         sampling->top_logprobs, LH_TOP_LOGPROBS_MAX);
    }
    const lh_truncation cut = truncation_of(sampling);
    if (status == LH_OK && vocabulary > LH_CANDIDATES_MAX &&
        lh_truncation_is_on(&cut, vocabulary)) {
        status = lh_fail(error, LH_ERR_LIMIT,
                         "sampling: top-k, top-p and min-p do not cut a vocabulary of over %u",
                         LH_CANDIDATES_MAX);
    }
    return status != LH_OK ? status : check_lists(sampling, vocabulary, error);
}

/* ---- Logits ---- */

/* What is forbidden becomes -inf. Words of which all tokens are allowed or none, most of them as a
 * rule, cost next to nothing. */
static void apply_mask(float *logits, uint32_t vocabulary, const uint64_t *mask) {
    for (uint32_t begin = 0; begin < vocabulary; begin += 64) {
        uint64_t word = mask[begin / 64];
        uint32_t count = vocabulary - begin < 64 ? vocabulary - begin : 64;
        if (word == UINT64_MAX)
            continue;
        for (uint32_t i = 0; i < count; i++)
            logits[begin + i] = word >> i & 1 ? logits[begin + i] : -INFINITY;
    }
}

static void apply_biases(float *logits, const lh_sampling *sampling) {
    for (uint32_t i = 0; i < sampling->bias_count; i++)
        logits[sampling->biases[i].token] += sampling->biases[i].bias;
}

static void apply_penalties(float *logits, const lh_sampling *sampling) {
    for (uint32_t i = 0; i < sampling->count_count; i++) {
        const lh_token_count *count = &sampling->counts[i];
        float *logit = &logits[count->token];
        if (count->prompt_count > 0 || count->output_count > 0) {
            *logit = *logit > 0 ? *logit / sampling->repetition_penalty
                                : *logit * sampling->repetition_penalty;
        }
        if (count->output_count > 0) {
            *logit -= sampling->presence_penalty +
                      sampling->frequency_penalty * (float)count->output_count;
        }
    }
}

static uint32_t first_of(const float *logits, float value) {
    uint32_t token = 0;
    while (logits[token] != value)
        token++;
    return token;
}

/* ---- Logprobs ---- */

static void fill_logprobs(const lh_kernels *kernels, const float *logits, uint32_t vocabulary,
                          float max, const lh_sampling *sampling, const lh_sampler_scratch *scratch,
                          lh_row_answer *answer) {
    if (!sampling->want_logprob && sampling->top_logprobs == 0)
        return;
    float log_sum = lh_logits_log_sum(kernels, logits, vocabulary, max, scratch->probabilities);
    if (sampling->want_logprob)
        answer->logprob = logits[answer->token] - max - log_sum;
    if (sampling->top_logprobs > 0)
        answer->top_count = lh_logits_best(logits, vocabulary, sampling->top_logprobs, answer->top);
    for (uint32_t i = 0; i < answer->top_count; i++)
        answer->top[i].logprob = answer->top[i].logprob - max - log_sum;
}

/* ---- The draw ---- */

static uint32_t draw(const lh_kernels *kernels, const float *logits, uint32_t vocabulary, float max,
                     const lh_sampling *sampling, const lh_sampler_scratch *scratch) {
    const lh_draw how = {max, sampling->temperature, sampling->seed, sampling->counter};
    const lh_truncation cut = truncation_of(sampling);
    if (!lh_truncation_is_on(&cut, vocabulary))
        return kernels->draw(logits, vocabulary, &how);
    kernels->draw_weights(scratch->probabilities, logits, vocabulary, &how);
    uint32_t left = lh_candidates_left(scratch->probabilities, vocabulary, &cut, scratch->left,
                                       scratch->candidates);
    return kernels->draw_among(logits, scratch->left, left, &how);
}

lh_status lh_sample(const lh_kernels *kernels, float *logits, uint32_t vocabulary,
                    const lh_sampling *sampling, const uint64_t *mask, void *memory,
                    lh_row_answer *answer, lh_error *error) {
    const lh_sampler_scratch scratch = scratch_of(memory, vocabulary);
    *answer = (lh_row_answer){.top = answer->top};
    if (sampling->want_digest)
        answer->digest = XXH3_64bits(logits, (size_t)vocabulary * sizeof *logits);
    if (mask)
        apply_mask(logits, vocabulary, mask);
    apply_biases(logits, sampling);
    apply_penalties(logits, sampling);
    lh_status status = lh_logits_check(logits, vocabulary, error);
    if (status != LH_OK)
        return status;
    float max = kernels->max(logits, vocabulary);
    if (max == -INFINITY)
        return lh_fail(error, LH_ERR_INVALID, "sampling: every logit is -inf");
    answer->token = sampling->temperature == 0
                        ? first_of(logits, max)
                        : draw(kernels, logits, vocabulary, max, sampling, &scratch);
    fill_logprobs(kernels, logits, vocabulary, max, sampling, &scratch, answer);
    return LH_OK;
}
