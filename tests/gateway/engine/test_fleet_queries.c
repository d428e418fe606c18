/* Questions of one thread, answers of another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/engine/fleet_queries.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

static sem_t woken;

static void wake(void *context) {
    (void)context;
    sem_post(&woken);
}

static void *ask(void *argument) {
    return lh_fleet_queries_ask(argument, LH_FLEET_STATE);
}

static void *ask_for_map(void *argument) {
    return lh_fleet_queries_ask(argument, LH_FLEET_MAP);
}

static char *render(void *context, lh_fleet_question question) {
    return strdup(question == LH_FLEET_MAP ? "map" : context);
}

static void each_gets_an_answer_of_its_own(void **state) {
    (void)state;
    enum { ASKERS = 8 };
    lh_fleet_queries *queries;
    pthread_t askers[ASKERS];
    static char text[] = "fleet";
    sem_init(&woken, 0, 0);
    assert_int_equal(lh_fleet_queries_create(wake, NULL, &queries, NULL), LH_OK);
    for (int i = 0; i < ASKERS; i++)
        assert_int_equal(pthread_create(&askers[i], NULL, i % 2 ? ask_for_map : ask, queries), 0);
    for (int i = 0; i < ASKERS; i++) {
        sem_wait(&woken);
        lh_fleet_queries_answer(queries, render, text);
    }
    for (int i = 0; i < ASKERS; i++) {
        void *answer;
        pthread_join(askers[i], &answer);
        assert_string_equal(answer, i % 2 ? "map" : "fleet");
        free(answer);
    }
    lh_fleet_queries_destroy(queries);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_gets_an_answer_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
