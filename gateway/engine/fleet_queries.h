/* Queries of GET /fleet and GET /fleet/map: asked by any thread, which waits, and answered by the
 * engine's thread, whose state they are about. Who asks soon after another is shown what that one
 * was, so that the engine's thread renders for a small part of its time. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>

typedef struct lh_fleet_queries lh_fleet_queries;

typedef enum lh_fleet_question {
    LH_FLEET_STATE,
    LH_FLEET_MAP,
    LH_FLEET_QUESTIONS
} lh_fleet_question;

/* wake is called by any thread when there is something to answer. LH_ERR_NO_MEMORY. */
lh_status lh_fleet_queries_create(void (*wake)(void *), void *wake_context,
                                  lh_fleet_queries **queries, lh_error *error);
/* Nobody asks, or is waiting. NULL is allowed. */
void lh_fleet_queries_destroy(lh_fleet_queries *queries);

/* Any thread: a text of which the caller has the copy; NULL: out of memory. */
char *lh_fleet_queries_ask(lh_fleet_queries *queries, lh_fleet_question question);
/* The engine's thread: answers all queries that wait. render gives a malloc'd text; NULL: out of
 * memory. */
void lh_fleet_queries_answer(lh_fleet_queries *queries,
                             char *(*render)(void *context, lh_fleet_question question),
                             void *context);
