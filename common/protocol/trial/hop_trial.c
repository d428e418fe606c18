/* One client, one step at a time, and the pauses between them. */
#include "common/protocol/trial/hop_trial.h"

#include "common/base/arithmetic.h"
#include "common/protocol/wire_type.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEP_BYTES = 32 << 10, /* of the shard: several TCP segments and TLS records */
    STEP_ROWS_MAX = 64,
    ANSWER_MS = 3000,
    PAUSE_MS_MIN = 500,
    PAUSE_MS_MAX = 10000
};

struct lh_hop_trial {
    lh_worker_client *client; /* NULL: taken */
    char *address;
    uint32_t width;
    lh_wire_type wire;
    int64_t answer_ms, pause_ms;
    void (*on_change)(void *context);
    void *context;
    lh_hop_trial_report report;
    lh_step_submission *step; /* on its way, or NULL */
    /* with a step: until its answer is overdue; without: until the next one may go */
    uv_timer_t timer;
    /* why the last step failed, where that has not been told yet; "": it has */
    char failure[LH_ERROR_MESSAGE_BYTES];
    uint32_t open_parts; /* timer and client, while they close */
    bool is_closing;
    void (*on_closed)(void *);
    void *closed_context;
};

/* ---- The outcome ---- */

/* May end the trial: nothing of it is touched afterwards. */
static void tell(lh_hop_trial *trial, lh_hop_trial_state state, const char *reason) {
    lh_hop_trial_report *report = &trial->report;
    char error[LH_REPORT_ERROR_BYTES];
    lh_worker_report_copy_error(error, reason);
    if (report->state == state && strcmp(report->error, error) == 0)
        return;
    report->state = state;
    memcpy(report->error, error, sizeof error);
    trial->on_change(trial->context);
}

static void send_step(lh_hop_trial *trial);

static void on_pause_over(uv_timer_t *timer) {
    lh_hop_trial *trial = timer->data;
    if (lh_worker_client_is_connected(trial->client))
        send_step(trial);
}

static void on_step_failed(uv_timer_t *timer) {
    lh_hop_trial *trial = timer->data;
    char failure[sizeof trial->failure];
    memcpy(failure, trial->failure, sizeof failure);
    trial->failure[0] = '\0';
    uv_timer_start(&trial->timer, on_pause_over, (uint64_t)trial->pause_ms, 0);
    trial->pause_ms = lh_min_i64(2 * trial->pause_ms, PAUSE_MS_MAX);
    if (failure[0] != '\0')
        tell(trial, LH_HOP_TRIAL_FAILED, failure);
}

/* Told a moment later: a step ends before its connection, which knows better why. */
static void fail_soon(lh_hop_trial *trial) {
    uv_timer_start(&trial->timer, on_step_failed, 0, 0);
}

/* The address comes first, where the message does not say it. */
static void describe(const lh_hop_trial *trial, const char *message,
                     char text[LH_ERROR_MESSAGE_BYTES]) {
    if (strstr(message, trial->address))
        snprintf(text, LH_ERROR_MESSAGE_BYTES, "%s", message);
    else
        snprintf(text, LH_ERROR_MESSAGE_BYTES, "%.100s: %.200s", trial->address, message);
}

/* ---- The step ---- */

/* Values of both signs and many exponents. */
static float value_at(size_t i) {
    return (float)((int)(i * 2654435761u >> 16 & 0xffff) - 0x8000) / (float)(1 + i % 977);
}

/* *bytes: malloc'd, or NULL where the step has no rows. */
static lh_status encode_shard(const lh_hop_trial *trial, uint32_t rows, void **bytes,
                              size_t *length, lh_error *error) {
    *bytes = NULL;
    if (rows == 0)
        return LH_OK;
    size_t count = (size_t)rows * trial->width,
           capacity = lh_step_shard_bytes(trial->wire, rows, trial->width);
    float *values = malloc(count * sizeof *values);
    lh_status status = LH_ERR_NO_MEMORY;
    void *encoded = malloc(capacity);
    for (size_t i = 0; values && i < count; i++)
        values[i] = value_at(i);
    if (values && encoded)
        status = lh_step_encode_shard(trial->wire, 0, rows, 0, trial->width, values, encoded,
                                      capacity, length, error);
    else
        lh_fail(error, status, "no memory for a step of a trial");
    free(values);
    if (status == LH_OK)
        *bytes = encoded;
    else
        free(encoded);
    return status;
}

static uint32_t count_rows(const lh_hop_trial *trial) {
    if (trial->width == 0)
        return 0;
    size_t rows = STEP_BYTES / lh_wire_bytes(trial->wire, 1, trial->width);
    return rows < 1 ? 1 : rows > STEP_ROWS_MAX ? STEP_ROWS_MAX : (uint32_t)rows;
}

static lh_status submit_step(lh_hop_trial *trial, lh_error *error) {
    static const uint32_t tokens[STEP_ROWS_MAX] = {0};
    uint32_t rows = count_rows(trial);
    const lh_step_segment segment = {.rows = rows};
    const lh_step_manifest manifest = {.step_class = LH_STEP_PREFILL,
                                       .rows = rows,
                                       .tokens = tokens,
                                       .segment_count = rows > 0,
                                       .segments = &segment};
    void *shard;
    size_t length;
    lh_status status = encode_shard(trial, rows, &shard, &length, error);
    if (status != LH_OK)
        return status;
    status = lh_worker_client_submit_trial(trial->client, trial->width, &manifest, NULL,
                                           &trial->step, error);
    if (status != LH_OK) {
        free(shard);
        return status;
    }
    if (shard && lh_step_submission_write(trial->step, shard, length) != LH_OK)
        lh_step_submission_cancel(trial->step); /* on_done tells of it */
    else
        lh_step_submission_end(trial->step);
    return LH_OK;
}

static void on_overdue(uv_timer_t *timer) {
    lh_hop_trial *trial = timer->data;
    snprintf(trial->failure, sizeof trial->failure,
             "%.250s: a step of the trial was not answered within %lld ms", trial->address,
             (long long)trial->answer_ms);
    lh_step_submission_cancel(trial->step);
}

static void send_step(lh_hop_trial *trial) {
    lh_error error;
    assert(!trial->step);
    if (submit_step(trial, &error) == LH_OK) {
        uv_timer_start(&trial->timer, on_overdue, (uint64_t)trial->answer_ms, 0);
        return;
    }
    describe(trial, error.message, trial->failure);
    fail_soon(trial);
}

/* ---- What the client says ---- */

static void name_failure(lh_hop_trial *trial, const char *worker, const char *message) {
    char refusal[LH_ERROR_MESSAGE_BYTES];
    if (worker[0] == '\0') {
        describe(trial, message, trial->failure);
        return;
    }
    snprintf(refusal, sizeof refusal, "worker '%s' refuses a step of the trial: %.180s", worker,
             message);
    describe(trial, refusal, trial->failure);
}

static void name_stranger(lh_hop_trial *trial, const char *worker) {
    const char *next = trial->report.next, *address = trial->address;
    size_t size = sizeof trial->failure;
    if (worker[0] == '\0')
        snprintf(trial->failure, size, "the gateway answers at %.200s, not '%s'", address, next);
    else if (next[0] == '\0')
        snprintf(trial->failure, size, "worker '%s' answers at %.200s, not the gateway", worker,
                 address);
    else
        snprintf(trial->failure, size, "worker '%s' answers at %.150s, not '%s'", worker, address,
                 next);
}

/* Sets the failure, if it is one and not overdue: then it is set. */
static void judge(lh_hop_trial *trial, lh_status status, const char *worker, const char *message) {
    if (trial->failure[0] != '\0')
        return;
    if (status != LH_OK)
        name_failure(trial, worker, message);
    else if (strcmp(worker, trial->report.next) != 0)
        name_stranger(trial, worker);
}

static void on_done(void *context, void *step_context, lh_status status, const char *worker,
                    const char *message) {
    (void)step_context;
    lh_hop_trial *trial = context;
    trial->step = NULL;
    if (trial->is_closing)
        return;
    uv_timer_stop(&trial->timer);
    judge(trial, status, worker, message);
    bool has_failed = trial->failure[0] != '\0',
         is_connected = lh_worker_client_is_connected(trial->client);
    if (!is_connected)
        trial->failure[0] = '\0'; /* why has been told; a step goes when it is back */
    if (has_failed) {
        fail_soon(trial);
    } else if (is_connected) {
        trial->pause_ms = PAUSE_MS_MIN;
        tell(trial, LH_HOP_TRIAL_PROVEN, "");
    }
}

static void on_state(void *context, bool connected, const char *reason) {
    lh_hop_trial *trial = context;
    char failure[LH_ERROR_MESSAGE_BYTES];
    bool is_pausing = uv_is_active((uv_handle_t *)&trial->timer);
    if (connected && !trial->step && !is_pausing)
        send_step(trial);
    if (connected)
        return;
    trial->failure[0] = '\0';
    describe(trial, reason, failure);
    tell(trial, LH_HOP_TRIAL_FAILED, failure);
}

/* ---- Life ---- */

static void destroy(lh_hop_trial *trial) {
    free(trial->address);
    free(trial);
}

static lh_hop_trial_report report_of(const char *next, const char *address,
                                     lh_hop_trial_state state) {
    lh_hop_trial_report report = {.state = state};
    snprintf(report.next, sizeof report.next, "%s", next);
    if (next[0] != '\0')
        snprintf(report.address, sizeof report.address, "%s", address);
    return report;
}

lh_hop_trial_report lh_hop_trial_stuck(const char *next, const char *address,
                                       const lh_error *error) {
    lh_hop_trial_report report = report_of(next, address, LH_HOP_TRIAL_FAILED);
    lh_worker_report_copy_error(report.error, error->message);
    return report;
}

lh_status lh_hop_trial_create(uv_loop_t *loop, lh_worker_client *client,
                              const lh_hop_trial_options *options, lh_hop_trial **trial,
                              lh_error *error) {
    static const lh_worker_client_events events = {.on_state = on_state, .on_done = on_done};
    assert(!lh_worker_client_is_connected(client));
    lh_hop_trial *made = calloc(1, sizeof *made);
    if (made)
        made->address = strdup(options->address);
    if (!made || !made->address) {
        free(made);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the trial of a hop");
    }
    made->client = client;
    made->width = options->width;
    made->wire = options->wire;
    made->answer_ms = options->answer_ms > 0 ? options->answer_ms : ANSWER_MS;
    made->pause_ms = PAUSE_MS_MIN;
    made->on_change = options->on_change;
    made->context = options->context;
    made->report = report_of(options->next, options->address, LH_HOP_TRIAL_RUNNING);
    uv_timer_init(loop, &made->timer);
    made->timer.data = made;
    lh_worker_client_watch(client, &events, made);
    *trial = made;
    return LH_OK;
}

const lh_hop_trial_report *lh_hop_trial_read(const lh_hop_trial *trial) {
    return &trial->report;
}

void lh_hop_trial_read_profile(const lh_hop_trial *trial, lh_hop_profile *profile) {
    *profile = (lh_hop_profile){0};
    if (trial->client)
        lh_worker_client_read_profile(trial->client, profile);
}

lh_worker_client *lh_hop_trial_take(lh_hop_trial *trial, const lh_worker_client_events *events,
                                    void *context) {
    lh_worker_client *client = trial->client;
    assert(trial->report.state == LH_HOP_TRIAL_PROVEN && client && !trial->step);
    lh_worker_client_watch(client, events, context);
    trial->client = NULL;
    return client;
}

static void on_part_closed(lh_hop_trial *trial) {
    assert(trial->open_parts > 0);
    if (--trial->open_parts > 0)
        return;
    void (*on_closed)(void *) = trial->on_closed;
    void *context = trial->closed_context;
    destroy(trial);
    if (on_closed)
        on_closed(context);
}

static void on_timer_closed(uv_handle_t *handle) {
    on_part_closed(handle->data);
}

static void on_client_closed(void *context) {
    on_part_closed(context);
}

void lh_hop_trial_close(lh_hop_trial *trial, void (*on_closed)(void *), void *context) {
    assert(!trial->is_closing);
    trial->is_closing = true;
    trial->on_closed = on_closed;
    trial->closed_context = context;
    trial->open_parts = 1 + (trial->client != NULL);
    uv_close((uv_handle_t *)&trial->timer, on_timer_closed);
    if (trial->client)
        lh_worker_client_close(trial->client, on_client_closed, trial);
}
