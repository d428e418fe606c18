/* Averages that forget. */
#include "gateway/cost/request_mix.h"

#include <math.h>

/* Of those before, a request leaves all but one part in so many. */
#define SPAN 64.0

static void move(double *average, double share, uint32_t value) {
    *average += share * (value - *average);
}

void lh_request_mix_note(lh_request_mix *mix, uint32_t prompt_tokens, uint32_t answer_tokens,
                         uint32_t sequences) {
    double share = 1 / fmin((double)++mix->count, SPAN);
    move(&mix->prompt_tokens, share, prompt_tokens);
    move(&mix->answer_tokens, share, answer_tokens);
    move(&mix->sequences, share, sequences);
}
