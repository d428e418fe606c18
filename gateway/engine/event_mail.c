/* Two arrays that grow to the most events of one turn. */
#include "gateway/engine/event_mail.h"

#include "gateway/growing_array.h"

#include <stdlib.h>
#include <string.h>

typedef struct letter {
    uint64_t handle;
    lh_sequence_event event;
    size_t first_top;
} letter;

struct lh_event_mail {
    void (*deliver)(void *context, uint64_t handle, const lh_sequence_event *event);
    void *context;
    letter *letters;
    size_t count, capacity;
    lh_sequence_logprob *tops;
    size_t top_count, top_capacity;
};

lh_status lh_event_mail_create(void (*deliver)(void *context, uint64_t handle,
                                               const lh_sequence_event *event),
                               void *context, lh_event_mail **mail, lh_error *error) {
    lh_event_mail *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for events");
    made->deliver = deliver;
    made->context = context;
    *mail = made;
    return LH_OK;
}

void lh_event_mail_destroy(lh_event_mail *mail) {
    if (!mail)
        return;
    free(mail->letters);
    free(mail->tops);
    free(mail);
}

static bool has_room(lh_event_mail *mail, const lh_sequence_event *event) {
    return lh_growing_array_reserve(&mail->letters, &mail->capacity, mail->count + 1,
                                    sizeof *mail->letters) &&
           lh_growing_array_reserve(&mail->tops, &mail->top_capacity, mail->top_count + event->top_count,
                                    sizeof *mail->tops);
}

void lh_event_mail_keep(lh_event_mail *mail, uint64_t handle, const lh_sequence_event *event) {
    if (event->kind == LH_SEQUENCE_FAILED || !has_room(mail, event)) {
        lh_event_mail_send(mail);
        mail->deliver(mail->context, handle, event);
        return;
    }
    mail->letters[mail->count++] = (letter){handle, *event, mail->top_count};
    if (event->top_count)
        memcpy(mail->tops + mail->top_count, event->top, event->top_count * sizeof *event->top);
    mail->top_count += event->top_count;
}

void lh_event_mail_send(lh_event_mail *mail) {
    for (size_t i = 0; i < mail->count; i++) {
        letter *item = &mail->letters[i];
        item->event.top = item->event.top_count ? mail->tops + item->first_top : NULL;
        mail->deliver(mail->context, item->handle, &item->event);
    }
    mail->count = mail->top_count = 0;
}
