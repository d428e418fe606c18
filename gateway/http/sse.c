/* Lines. */
#include "gateway/http/sse.h"

#include <string.h>

static lh_status append(lh_text_buffer *out, const char *text) {
    return lh_text_buffer_append(out, text, strlen(text), NULL);
}

lh_status lh_sse_open(lh_text_buffer *out) {
    return append(out, "data: ");
}

lh_status lh_sse_close(lh_text_buffer *out) {
    return append(out, "\n\n");
}

lh_status lh_sse_done(lh_text_buffer *out) {
    return append(out, "data: [DONE]\n\n");
}

lh_status lh_sse_keep_alive(lh_text_buffer *out) {
    return append(out, ": keep-alive\n\n");
}
