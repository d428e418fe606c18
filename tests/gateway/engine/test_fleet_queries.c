/* Questions of one thread, answers of another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/engine/fleet_queries.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The thread that answers. */
typedef struct answerer {
    lh_fleet_queries *queries;
    sem_t woken;
    atomic_bool is_over;
    int64_t render_us; /* that it takes */
    int renderings;
} answerer;

static void wake(void *context) {
    sem_post(&((answerer *)context)->woken);
}

static char *render(void *context, lh_fleet_question question) {
    answerer *a = context;
    const struct timespec pause = {.tv_nsec = a->render_us * 1000};
    nanosleep(&pause, NULL);
    a->renderings++;
    return strdup(question == LH_FLEET_MAP ? "map" : "fleet");
}

static void *answer(void *argument) {
    answerer *a = argument;
    for (sem_wait(&a->woken); !atomic_load(&a->is_over); sem_wait(&a->woken))
        lh_fleet_queries_answer(a->queries, render, a);
    return NULL;
}

static void *ask(void *argument) {
    return lh_fleet_queries_ask(argument, LH_FLEET_STATE);
}

static void *ask_for_map(void *argument) {
    return lh_fleet_queries_ask(argument, LH_FLEET_MAP);
}

static pthread_t begin(answerer *a, int64_t render_us) {
    pthread_t thread;
    *a = (answerer){.render_us = render_us};
    sem_init(&a->woken, 0, 0);
    assert_int_equal(lh_fleet_queries_create(wake, a, &a->queries, NULL), LH_OK);
    assert_int_equal(pthread_create(&thread, NULL, answer, a), 0);
    return thread;
}

static void end(answerer *a, pthread_t thread) {
    atomic_store(&a->is_over, true);
    sem_post(&a->woken);
    pthread_join(thread, NULL);
    lh_fleet_queries_destroy(a->queries);
    sem_destroy(&a->woken);
}

static void each_gets_an_answer_of_its_own(void **state) {
    (void)state;
    enum { ASKERS = 8 };
    answerer a;
    pthread_t thread = begin(&a, 0), askers[ASKERS];
    for (int i = 0; i < ASKERS; i++)
        assert_int_equal(pthread_create(&askers[i], NULL, i % 2 ? ask_for_map : ask, a.queries), 0);
    for (int i = 0; i < ASKERS; i++) {
        void *text;
        pthread_join(askers[i], &text);
        assert_string_equal(text, i % 2 ? "map" : "fleet");
        free(text);
    }
    end(&a, thread);
}

/* The thread that carries tokens renders for a small part of its time, however many ask. */
static void who_asks_soon_after_another_causes_no_work(void **state) {
    (void)state;
    answerer a;
    pthread_t thread = begin(&a, 50000);
    for (int i = 0; i < 100; i++)
        free(ask(a.queries));
    free(ask_for_map(a.queries));
    end(&a, thread);
    assert_in_range(a.renderings, 2, 3); /* for a second each is shown */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_gets_an_answer_of_its_own),
        cmocka_unit_test(who_asks_soon_after_another_causes_no_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
