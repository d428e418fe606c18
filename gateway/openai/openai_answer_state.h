/* What an answer in progress is made of. Private to gateway/openai/openai_answer*.c. */
#pragma once

#include "gateway/openai/openai_answer.h"
#include "gateway/openai/openai_stream.h"
#include "gateway/openai/openai_timing.h"
#include "gateway/random_id.h"

#include <stdatomic.h>

struct lh_openai_answer {
    lh_openai_answer_options options;
    lh_http_exchange *exchange;
    lh_pass *pass;
    int64_t received_us, deadline_us; /* 0: none */
    _Atomic(lh_generation *) generation;
    atomic_bool gone;

    char id[LH_RANDOM_ID_BYTES];
    lh_openai_frame frame;
    bool streams;
    lh_openai_stream stream;
    lh_openai_gathered *gathered; /* [choices of all prompts], where it does not stream */
    lh_text_buffer *echoes;       /* [echo_count], or NULL */
    uint32_t echo_count;
    int64_t silent_since_us;

    lh_openai_timing timing;
};
