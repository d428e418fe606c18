/* What is wrong with a configuration file, all of it: a line "FILE:LINE: what, and what to do" for
 * each fault, as editors and people find it. Thread: the owner's. */
#pragma once

#include "common/base/text_buffer.h"

#include <stddef.h>
#include <stdint.h>

/* More are counted, but not told: who has given the wrong file need not see them all. */
#define LH_CONFIG_PROBLEMS_TOLD 20

typedef struct lh_config_problems {
    const char *path; /* the caller's */
    lh_text_buffer lines;
    size_t count;
} lh_config_problems;

/* Line 0: of the file as a whole. Control characters become '?'. Where there is no memory the line
 * is lost, and the count stays right. */
void lh_config_problems_add(lh_config_problems *problems, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void lh_config_problems_reset(lh_config_problems *problems);
