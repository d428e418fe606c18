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
    bool is_gzip; /* the body still is */
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

static void on_end(void *context) {
    lh_http_exchange_wake(((lh_openai_reading_job *)context)->exchange);
}

static void discard(void *context) {
    lh_openai_reading_job *job = context;
    lh_openai_reading_reset(&job->reading);
    free(job->body);
    free(job);
}

bool lh_openai_reading_job_begin(const lh_openai_service *service, lh_http_exchange *exchange,
                                 lh_openai_reading_goal goal, uint64_t client, char *body,
                                 size_t length, bool is_gzip, lh_openai_reading_job **out,
                                 lh_openai_error *error) {
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
                                   .is_gzip = is_gzip};
    const lh_reader_task task = {client, length, run, on_end, discard, job};
    lh_error cause;
    if (lh_reader_pool_submit(service->readers, &task, &job->work, &cause)) {
        discard(job);
        return lh_openai_refuse_cause(error, &cause);
    }
    *out = job;
    return true;
}

lh_openai_reading *lh_openai_reading_job_result(lh_openai_reading_job *job,
                                                lh_openai_error *error) {
    if (!lh_reader_pool_has_run(job->service->readers, job->work))
        return NULL;
    *error = job->error;
    return &job->reading;
}

void lh_openai_reading_job_end(lh_openai_reading_job *job) {
    if (job)
        lh_reader_pool_leave(job->service->readers, job->work);
}
