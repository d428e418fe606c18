/* One part is open at a time. */
#include "gateway/openai/answer_parts.h"

#include "common/base/growing_array.h"

#include <stdlib.h>
#include <string.h>

void lh_answer_parts_reset(lh_answer_parts *parts) {
    for (size_t i = 0; i < parts->count; i++)
        lh_text_buffer_reset(&parts->parts[i].text);
    free(parts->parts);
    *parts = (lh_answer_parts){0};
}

static lh_status close_part(lh_answer_parts *parts) {
    const lh_answer_part_listener *to = &parts->listener;
    if (!parts->is_open)
        return LH_OK;
    parts->is_open = false;
    return to->end ? to->end(to->context, parts->count - 1) : LH_OK;
}

/* call: whose head it is; NULL of the other kinds. */
static lh_status begin(lh_answer_parts *parts, lh_answer_part_kind kind,
                       const lh_tool_call_delta *call) {
    const lh_answer_part_listener *to = &parts->listener;
    lh_status status = close_part(parts);
    if (status)
        return status;
    if (!lh_growing_array_reserve(&parts->parts, &parts->capacity, parts->count + 1,
                                  sizeof *parts->parts))
        return LH_ERR_NO_MEMORY;
    lh_answer_part *part = &parts->parts[parts->count++];
    *part = (lh_answer_part){.kind = kind};
    if (call) {
        strcpy(part->id, call->id);
        strcpy(part->name, call->name);
    }
    parts->is_open = true;
    return to->begin ? to->begin(to->context, parts->count - 1) : LH_OK;
}

static lh_status grow(lh_answer_parts *parts, const char *bytes, size_t length,
                      const lh_generation_piece *piece) {
    const lh_answer_part_listener *to = &parts->listener;
    if (length == 0)
        return LH_OK;
    lh_status status =
        lh_text_buffer_append(&parts->parts[parts->count - 1].text, bytes, length, NULL);
    if (status || !to->grow)
        return status;
    return to->grow(to->context, parts->count - 1, bytes, length, piece);
}

/* A thought or a text: it goes on where the last part is of its kind. */
static lh_status add(lh_answer_parts *parts, lh_answer_part_kind kind, const char *bytes,
                     size_t length, const lh_generation_piece *piece) {
    bool goes_on = parts->is_open && parts->parts[parts->count - 1].kind == kind;
    if (length == 0)
        return LH_OK;
    lh_status status = goes_on ? LH_OK : begin(parts, kind, NULL);
    return status ? status : grow(parts, bytes, length, piece);
}

lh_status lh_answer_parts_take(lh_answer_parts *parts, const lh_generation_piece *piece) {
    lh_status status = add(parts, LH_ANSWER_THOUGHT, piece->thought, piece->thought_length, piece);
    if (!status)
        status = add(parts, LH_ANSWER_TEXT, piece->text, piece->length, piece);
    for (size_t i = 0; i < piece->call_count && !status; i++) {
        const lh_tool_call_delta *call = &piece->calls[i];
        if (call->begins)
            status = begin(parts, LH_ANSWER_CALL, call);
        if (!status)
            status =
                grow(parts, piece->arguments + call->arguments_at, call->arguments_length, piece);
    }
    return status;
}

lh_status lh_answer_parts_end(lh_answer_parts *parts, bool needs_text) {
    lh_status status = needs_text && parts->count == 0 ? begin(parts, LH_ANSWER_TEXT, NULL) : LH_OK;
    return status ? status : close_part(parts);
}
