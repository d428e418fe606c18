/* The sampler's numbers and the scorer's are made here, so that they are the same. */
#include "worker/compute/stage/logits.h"

#include <math.h>

/* Whether logits[16] are numbers below infinity: a length that compilers make vectors of. */
static bool are_sound(const float *logits) {
    int32_t bad = 0;
    for (int i = 0; i < 16; i++)
        bad |= !(logits[i] < INFINITY);
    return !bad;
}

lh_status lh_logits_check(const float *logits, uint32_t vocabulary, lh_error *error) {
    uint32_t first = 0;
    while (first + 16 <= vocabulary && are_sound(logits + first))
        first += 16;
    while (first < vocabulary && logits[first] < INFINITY)
        first++;
    if (first == vocabulary)
        return LH_OK;
    return lh_fail(error, LH_ERR_INVALID, "sampling: the logit of token %u is %g", first,
                   (double)logits[first]);
}

/* Ascending token ids make equal ones keep their order. */
uint32_t lh_logits_best(const float *logits, uint32_t vocabulary, uint32_t wanted,
                        lh_token_logprob *top) {
    uint32_t held = 0;
    for (uint32_t token = 0; token < vocabulary && wanted > 0; token++) {
        float logit = logits[token];
        if (logit == -INFINITY || (held == wanted && !(logit > top[held - 1].logprob)))
            continue;
        uint32_t place = held < wanted ? held++ : held - 1;
        for (; place > 0 && logit > top[place - 1].logprob; place--)
            top[place] = top[place - 1];
        top[place] = (lh_token_logprob){token, logit};
    }
    return held;
}

float lh_logits_log_sum(const lh_kernels *kernels, const float *logits, uint32_t vocabulary,
                        float max, float *scratch) {
    return lh_log_f32(kernels->exp_sum(scratch, logits, max, vocabulary));
}

/* Equal logits share a rank. */
static uint32_t rank_of(const float *logits, uint32_t vocabulary, float logit) {
    uint32_t above = 0;
    for (uint32_t i = 0; i < vocabulary; i++)
        above += logits[i] > logit;
    return above + 1;
}

lh_status lh_logits_score(const lh_kernels *kernels, const float *logits, uint32_t vocabulary,
                          uint32_t token, uint32_t top, float *scratch, lh_token_score *score,
                          lh_error *error) {
    lh_status status = lh_logits_check(logits, vocabulary, error);
    if (status != LH_OK)
        return status;
    float max = kernels->max(logits, vocabulary);
    if (max == -INFINITY)
        return lh_fail(error, LH_ERR_INVALID, "scoring: every logit is -inf");
    float log_sum = lh_logits_log_sum(kernels, logits, vocabulary, max, scratch);
    score->logprob = logits[token] - max - log_sum;
    score->rank = rank_of(logits, vocabulary, logits[token]);
    score->top_count = lh_logits_best(logits, vocabulary, top, score->top);
    for (uint32_t i = 0; i < score->top_count; i++)
        score->top[i].logprob = score->top[i].logprob - max - log_sum;
    return LH_OK;
}
