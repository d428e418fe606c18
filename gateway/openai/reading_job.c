/* A task of the reader pool and what it works on. */
#include "gateway/openai/reading_job.h"

#include "gateway/http/gzip.h"
#include "gateway/openai/reader_pool.h"

#include <stdlib.h>

struct lh_openai_reading_job {
    const lh_openai_service *service;
    lh_http_exchange *exchange; /* there as long as the exchange has not ended the job */
    lh_reader_work *work;
    lh_openai_reading_goal goal;
    char *body; /* until it has been read */
    size_t length;
    bool is_gzip;            /* the body still is */
    const lh_ticket *ticket; /* there as long as the exchange has not ended the job */
    lh_reading_share share;
    int64_t wait_us; /* above 0: it was refused, until then */
    lh_openai_reading reading;
    lh_openai_error error;
};

/* The expanded body has the bound that one without a coding has. */
static bool expand(lh_openai_reading_job *job) {
    char *expanded;
    size_t length;
    lh_error cause;
    lh_status status =
        lh_gzip_expand(job->body, job->length, job->service->config.http.body_bytes_max, &expanded,
                       &length, &cause);
    if (status == LH_ERR_LIMIT)
        return lh_openai_refuse(&job->error, 413, NULL, "request_too_large", "%s", cause.message);
    if (status == LH_ERR_MALFORMED)
        return lh_openai_refuse(&job->error, 400, NULL, "invalid_value", "%s", cause.message);
    if (status)
        return lh_openai_refuse_cause(&job->error, &cause);
    free(job->body);
    job->body = expanded;
    job->length = length;
    return true;
}

static void run(void *context) {
    lh_openai_reading_job *job = context;
    if (!job->is_gzip || expand(job))
        lh_openai_reading_take(&job->reading, job->service, job->goal, job->body, job->length,
                               &job->error);
    free(job->body);
    job->body = NULL;
}

static void refuse(void *context, int64_t wait_us) {
    ((lh_openai_reading_job *)context)->wait_us = wait_us;
}

static void on_end(void *context) {
    lh_http_exchange_wake(((lh_openai_reading_job *)context)->exchange);
}

static void discard(void *context) {
    lh_openai_reading_job *job = context;
    lh_openai_reading_reset(&job->reading);
    free(job->body);
    free(job);
}

/* 429: the client has used up its share of the readers' time. */
static bool refuse_share(const lh_openai_reading_job *job, int64_t wait_us,
                         lh_openai_error *error) {
    const lh_account_refusal refusal = {LH_ACCOUNT_READING, job->share.ms_per_minute, wait_us};
    return lh_openai_refuse_client(error, job->ticket, &refusal);
}

static bool submit(lh_openai_reading_job *job, lh_openai_error *error) {
    int64_t wait_us = lh_reader_pool_wait_us(job->service->readers, &job->share);
    if (wait_us > 0)
        return refuse_share(job, wait_us, error);
    const lh_reader_task task = {.share = job->share,
                                 .bytes = job->length,
                                 /* what a compressed one holds is not known, and a trace may have
                                  * hundreds of steps */
                                 .is_large = job->is_gzip || job->length > LH_LARGE_BODY_BYTES ||
                                             job->goal == LH_READING_TRACE,
                                 .run = run,
                                 .refuse = refuse,
                                 .on_end = on_end,
                                 .discard = discard,
                                 .context = job};
    lh_error cause;
    return !lh_reader_pool_submit(job->service->readers, &task, &job->work, &cause) ||
           lh_openai_refuse_cause(error, &cause);
}

lh_reading_share lh_openai_reading_share(const lh_openai_client *client) {
    const lh_ticket *ticket = client->ticket;
    return (lh_reading_share){.client = ticket->tenant ? ticket->tenant : client->address,
                              .ms_per_minute = ticket->reading_ms_per_minute};
}

bool lh_openai_reading_job_begin(const lh_openai_service *service, lh_http_exchange *exchange,
                                 lh_openai_reading_goal goal, const lh_openai_client *client,
                                 char *body, size_t length, bool is_gzip,
                                 lh_openai_reading_job **out, lh_openai_error *error) {
    lh_openai_reading_job *job = calloc(1, sizeof *job);
    if (!job) {
        free(body);
        return lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
    }
    *job = (lh_openai_reading_job){.service = service,
                                   .exchange = exchange,
                                   .goal = goal,
                                   .body = body,
                                   .length = length,
                                   .is_gzip = is_gzip,
                                   .ticket = client->ticket,
                                   .share = lh_openai_reading_share(client)};
    if (!submit(job, error)) {
        discard(job);
        return false;
    }
    *out = job;
    return true;
}

lh_openai_reading *lh_openai_reading_job_result(lh_openai_reading_job *job,
                                                lh_openai_error *error) {
    if (!lh_reader_pool_has_run(job->service->readers, job->work))
        return NULL;
    *error = job->error;
    if (job->wait_us > 0)
        refuse_share(job, job->wait_us, error);
    return &job->reading;
}

void lh_openai_reading_job_end(lh_openai_reading_job *job) {
    if (job)
        lh_reader_pool_leave(job->service->readers, job->work);
}
