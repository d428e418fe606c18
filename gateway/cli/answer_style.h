/* How the commands that talk with a model want to be answered. Thread: start-up only. */
#pragma once

#include "common/base/options.h"

typedef struct lh_answer_style {
    const char *system;      /* the system prompt; "": none */
    const char *temperature; /* a number */
    int64_t max_tokens;      /* of an answer; 0: as many as there is room for */
} lh_answer_style;

/* Rows of an lh_option array, where `field` is the lh_answer_style of the struct `type`. */
#define LH_OPTION_ANSWER_STYLE_ROWS(type, field)                                                   \
    {.name = "system",                                                                             \
     .kind = LH_OPTION_TEXT,                                                                       \
     .offset = offsetof(type, field.system),                                                       \
     .default_text = "",                                                                           \
     .placeholder = "TEXT",                                                                        \
     .help = "what the model is told first"},                                                      \
        {.name = "temperature",                                                                    \
         .kind = LH_OPTION_TEXT,                                                                   \
         .offset = offsetof(type, field.temperature),                                              \
         .default_text = "0.6",                                                                    \
         .placeholder = "NUMBER",                                                                  \
         .help = "how freely it answers, 0 to 2; 0: always with the likeliest word"},              \
        {.name = "max-tokens",                                                                     \
         .kind = LH_OPTION_NUMBER,                                                                 \
         .offset = offsetof(type, field.max_tokens),                                               \
         .default_text = "0",                                                                      \
         .placeholder = "N",                                                                       \
         .minimum = 0,                                                                             \
         .maximum = 1 << 24,                                                                       \
         .help = "how long an answer may be; 0: as long as there is room for"}

/* LH_ERR_INVALID: --temperature is no number of its range. */
lh_status lh_answer_style_check(const lh_answer_style *style, lh_error *error);
