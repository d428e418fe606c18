/* A short list of names. */
#include "gateway/openai/left_out.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void lh_left_out_note(lh_left_out *left_out, const char *format, ...) {
    if (!left_out || left_out->count == LH_LEFT_OUT_KINDS_MAX)
        return;
    char *kind = left_out->kinds[left_out->count];
    va_list args;
    va_start(args, format);
    vsnprintf(kind, LH_LEFT_OUT_KIND_BYTES, format, args);
    va_end(args);
    for (size_t i = 0; i < left_out->count; i++)
        if (strcmp(left_out->kinds[i], kind) == 0)
            return;
    left_out->count++;
}
