/* A list of the queries that wait, each on the stack of the thread that asks. */
#include "gateway/engine/fleet_queries.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

typedef struct fleet_query {
    struct fleet_query *next;
    lh_fleet_question question;
    char *text;
    bool is_answered;
} fleet_query;

struct lh_fleet_queries {
    void (*wake)(void *);
    void *wake_context;
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    /* Under the mutex. */
    fleet_query *first;
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
    pthread_cond_destroy(&queries->answered);
    pthread_mutex_destroy(&queries->mutex);
    free(queries);
}

char *lh_fleet_queries_ask(lh_fleet_queries *queries, lh_fleet_question question) {
    fleet_query query = {.question = question};
    pthread_mutex_lock(&queries->mutex);
    query.next = queries->first;
    queries->first = &query;
    queries->wake(queries->wake_context);
    while (!query.is_answered)
        pthread_cond_wait(&queries->answered, &queries->mutex);
    pthread_mutex_unlock(&queries->mutex);
    return query.text;
}

void lh_fleet_queries_answer(lh_fleet_queries *queries,
                             char *(*render)(void *context, lh_fleet_question question),
                             void *context) {
    pthread_mutex_lock(&queries->mutex);
    for (; queries->first; queries->first = queries->first->next) {
        assert(!queries->first->is_answered);
        queries->first->text = render(context, queries->first->question);
        queries->first->is_answered = true;
    }
    pthread_cond_broadcast(&queries->answered);
    pthread_mutex_unlock(&queries->mutex);
}
