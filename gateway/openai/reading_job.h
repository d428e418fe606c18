/* A body, or what else takes long, that the reader pool reads for an exchange, which is woken when
 * that is done. Whatever the exchange does meanwhile, the job lives until it has run. Thread: the
 * exchange's server thread. */
#pragma once

#include "gateway/openai/reading.h"

/* A longer body takes long to read, whatever it says, and leaves so much memory behind that it is
 * worth giving back; so much text takes a millisecond or two. */
#define LH_LARGE_BODY_BYTES 16384u

typedef struct lh_openai_reading_job lh_openai_reading_job;

/* Whose the body is. */
typedef struct lh_openai_client {
    const lh_ticket *ticket; /* outlives the job's end */
    uint64_t address;        /* stands for the client where no keys are asked for */
} lh_openai_client;

/* To what its reading is charged. */
lh_reading_share lh_openai_reading_share(const lh_openai_client *client);
/* Takes body[length], malloc'd, also where it fails; is_gzip: it is to be expanded first. `client`
 * is whose turn it uses, and whose share of the readers' time. False: *error says why it is not
 * read now: 429, 500. */
bool lh_openai_reading_job_begin(const lh_openai_service *service, lh_http_exchange *exchange,
                                 lh_openai_reading_goal goal, const lh_openai_client *client,
                                 char *body, size_t length, bool is_gzip,
                                 lh_openai_reading_job **job, lh_openai_error *error);
/* NULL: not yet, the exchange will be woken. Else what was read, the job's until its end; status 0
 * in *error: it may begin. */
lh_openai_reading *lh_openai_reading_job_result(lh_openai_reading_job *job, lh_openai_error *error);
/* Gives up its turn, or what was read. NULL is allowed. */
void lh_openai_reading_job_end(lh_openai_reading_job *job);
