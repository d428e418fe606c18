/* Counted references, so that the lock is held for the exchange of a pointer alone. */
#include "common/metrics/published_text.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct held_text {
    lh_text_buffer text;
    uint32_t holders; /* under the mutex */
} held_text;

struct lh_published_text {
    pthread_mutex_t mutex;
    held_text *last; /* NULL: nothing was put yet */
};

lh_status lh_published_text_create(lh_published_text **published, lh_error *error) {
    lh_published_text *p = calloc(1, sizeof *p);
    if (!p)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a published text");
    pthread_mutex_init(&p->mutex, NULL);
    *published = p;
    return LH_OK;
}

static void release(lh_published_text *published, held_text *held) {
    pthread_mutex_lock(&published->mutex);
    bool is_last = --held->holders == 0;
    pthread_mutex_unlock(&published->mutex);
    if (!is_last)
        return;
    lh_text_buffer_reset(&held->text);
    free(held);
}

void lh_published_text_destroy(lh_published_text *published) {
    if (!published)
        return;
    if (published->last)
        release(published, published->last);
    pthread_mutex_destroy(&published->mutex);
    free(published);
}

void lh_published_text_put(lh_published_text *published, lh_text_buffer *text) {
    held_text *next = malloc(sizeof *next), *before;
    if (!next || pthread_mutex_trylock(&published->mutex) != 0) {
        free(next);
        lh_text_buffer_reset(text);
        return;
    }
    *next = (held_text){.text = *text, .holders = 1};
    before = published->last;
    published->last = next;
    pthread_mutex_unlock(&published->mutex);
    *text = (lh_text_buffer){0};
    if (before)
        release(published, before);
}

void lh_published_text_append_to(lh_published_text *published, lh_exposition *exposition) {
    pthread_mutex_lock(&published->mutex);
    held_text *held = published->last;
    if (held)
        held->holders++;
    pthread_mutex_unlock(&published->mutex);
    if (!held)
        return;
    lh_exposition_append(exposition, held->text.bytes, held->text.length);
    release(published, held);
}
