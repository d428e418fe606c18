/* A list of the queries that wait, each on the stack of the thread that asks, and what was rendered
 * last. */
#include "gateway/engine/fleet_queries.h"

#include "common/base/clock.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A rendering is shown for so many times as long as it took: so the engine's thread, which carries
 * tokens, renders for a twentieth of its time at most, however many ask. With three workers that is
 * some milliseconds, with a hundred a fifth of a second. */
#define SHOWN_TIMES 20

typedef struct fleet_query {
    struct fleet_query *next;
    lh_fleet_question question;
    char *text;
    bool is_answered;
} fleet_query;

typedef struct rendering {
    char *text; /* NULL: none yet, or there was no memory */
    int64_t until_us;
} rendering;

struct lh_fleet_queries {
    void (*wake)(void *);
    void *wake_context;
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    /* Under the mutex. */
    fleet_query *first;
    rendering last[LH_FLEET_QUESTIONS];
};

lh_status lh_fleet_queries_create(void (*wake)(void *), void *wake_context,
                                  lh_fleet_queries **queries, lh_error *error) {
    lh_fleet_queries *q = calloc(1, sizeof *q);
    if (!q)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for queries of the fleet");
    q->wake = wake;
    q->wake_context = wake_context;
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->answered, NULL);
    *queries = q;
    return LH_OK;
}

void lh_fleet_queries_destroy(lh_fleet_queries *queries) {
    if (!queries)
        return;
    for (size_t i = 0; i < LH_FLEET_QUESTIONS; i++)
        free(queries->last[i].text);
    pthread_cond_destroy(&queries->answered);
    pthread_mutex_destroy(&queries->mutex);
    free(queries);
}

/* With the queries locked. NULL: it is too old, or there is no memory. */
static char *copy_last(const lh_fleet_queries *queries, lh_fleet_question question) {
    const rendering *last = &queries->last[question];
    return last->text && lh_clock_us() < last->until_us ? strdup(last->text) : NULL;
}

char *lh_fleet_queries_ask(lh_fleet_queries *queries, lh_fleet_question question) {
    fleet_query query = {.question = question};
    pthread_mutex_lock(&queries->mutex);
    query.text = copy_last(queries, question);
    query.is_answered = query.text != NULL;
    if (!query.is_answered) {
        query.next = queries->first;
        queries->first = &query;
        queries->wake(queries->wake_context);
    }
    while (!query.is_answered)
        pthread_cond_wait(&queries->answered, &queries->mutex);
    pthread_mutex_unlock(&queries->mutex);
    return query.text;
}

void lh_fleet_queries_answer(lh_fleet_queries *queries,
                             char *(*render)(void *context, lh_fleet_question question),
                             void *context) {
    bool is_new[LH_FLEET_QUESTIONS] = {false};
    pthread_mutex_lock(&queries->mutex);
    for (; queries->first; queries->first = queries->first->next) {
        fleet_query *query = queries->first;
        rendering *last = &queries->last[query->question];
        assert(!query->is_answered);
        if (!is_new[query->question]) {
            int64_t begun_us = lh_clock_us();
            free(last->text);
            last->text = render(context, query->question);
            last->until_us = lh_clock_us() + SHOWN_TIMES * (lh_clock_us() - begun_us);
            is_new[query->question] = true;
        }
        query->text = last->text ? strdup(last->text) : NULL;
        query->is_answered = true;
    }
    pthread_cond_broadcast(&queries->answered);
    pthread_mutex_unlock(&queries->mutex);
}
