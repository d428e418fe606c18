/* A text that is sent from its front. */
#include "gateway/openai/server_events.h"

#include "common/json/json_text.h"

#include <assert.h>
#include <string.h>

void lh_server_events_reset(lh_server_events *events) {
    lh_text_buffer_reset(&events->out);
    *events = (lh_server_events){0};
}

static lh_status put(lh_server_events *events, const char *text) {
    assert(!events->done);
    return lh_text_buffer_append(&events->out, text, strlen(text), NULL);
}

static lh_status put_name(lh_server_events *events, const char *name) {
    lh_status status = put(events, "event: ");
    if (!status)
        status = put(events, name);
    return status ? status : put(events, "\n");
}

lh_status lh_server_events_put(lh_server_events *events, const char *name, json_t *data) {
    lh_status status = name ? put_name(events, name) : LH_OK;
    if (!status)
        status = put(events, "data: ");
    lh_status rendered = lh_json_render(data, &events->out);
    return status ? status : rendered ? rendered : put(events, "\n\n");
}

lh_status lh_server_events_put_line(lh_server_events *events, json_t *data) {
    lh_status rendered = lh_json_render(data, &events->out);
    return rendered ? rendered : put(events, "\n");
}

lh_status lh_server_events_put_text(lh_server_events *events, const char *text) {
    lh_status status = put(events, "data: ");
    if (!status)
        status = put(events, text);
    return status ? status : put(events, "\n\n");
}

lh_status lh_server_events_keep_alive(lh_server_events *events, const char *waiting) {
    lh_status status = put(events, ": ");
    if (!status)
        status = put(events, waiting[0] ? waiting : "keep-alive");
    return status ? status : put(events, "\n\n");
}

size_t lh_server_events_pending(const lh_server_events *events) {
    return events->out.length - events->sent;
}

size_t lh_server_events_take(lh_server_events *events, char *buffer, size_t capacity) {
    size_t length = lh_server_events_pending(events);
    length = length < capacity ? length : capacity;
    if (length)
        memcpy(buffer, events->out.bytes + events->sent, length);
    events->sent += length;
    if (events->sent == events->out.length)
        events->sent = events->out.length = 0;
    return length;
}
