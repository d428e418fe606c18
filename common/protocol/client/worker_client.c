/* Steps as requests on HTTP/2 client connections (worker_client.h). */
#include "common/protocol/client/worker_client.h"

#include "common/base/text_buffer.h"
#include "common/protocol/client/bulk_transfer.h"
#include "common/protocol/client/link_profile.h"
#include "common/protocol/client/relay_route.h"
#include "common/protocol/step_answer.h"
#include "common/protocol/step_times.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_BYTES_MAX 4096u /* of a JSON problem: a name, a status and a message */

struct lh_worker_client {
    /* the first, for manifests and decode steps, and the lanes, for shards of prefill steps */
    lh_h2_client *connections[1 + LH_WORKER_CLIENT_LANES_MAX];
    uint32_t connection_count, next_lane;
    uint32_t closing_count; /* of the connections: those that are to close and have not */
    uint32_t open_count;    /* of the submissions */
    char *address, *chain;
    char relayed_to[LH_WORKER_NAME_BYTES]; /* "": to whom the connections lead */
    lh_worker_client_events events;
    void *context;
    void (*on_closed)(void *);
    void *closed_context;
};

struct lh_step_submission {
    lh_worker_client *client;
    void *step_context;
    lh_h2_stream *stream;
    lh_bulk_transfer *shards; /* where they go by another connection; else NULL */
    bool shards_failed;       /* and they did */
    bool ended;               /* our END_STREAM is under way */
    bool cancelled;           /* by our user */
    bool answered;            /* the whole answer is here */
    bool timed;               /* the answer may carry times */
    bool is_trial;            /* a 200 has to say whose it is */
    int http_status;
    lh_text_buffer body;
};

/* ---- The answer ---- */

static void on_response(lh_h2_stream *stream, void *context, int http_status) {
    (void)stream;
    lh_step_submission *submission = context;
    submission->http_status = http_status;
}

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    lh_step_submission *submission = context;
    size_t most = submission->timed ? LH_STEP_TIMES_BODY_BYTES_MAX : ANSWER_BYTES_MAX;
    size_t room = most - submission->body.length;
    /* Without memory the answer is cut. Its code still tells what became of the step. */
    lh_text_buffer_append(&submission->body, (const char *)bytes, length < room ? length : room,
                          NULL);
    lh_h2_stream_consume(stream, length);
}

/* A refusal before we have ended: the rest of the step is of no use to the peer. */
static void on_end(lh_h2_stream *stream, void *context) {
    lh_step_submission *submission = context;
    submission->answered = true;
    if (!submission->ended)
        lh_h2_stream_cancel(stream);
}

/* What became of the submission, from the answer or, without one, from the way the stream ended. */
static void read_outcome(const lh_step_submission *submission, lh_status stream_status,
                         lh_step_answer *answer) {
    const char *address = submission->client->address;
    *answer = (lh_step_answer){.status = LH_ERR_UNAVAILABLE};
    if (submission->shards_failed && !submission->cancelled && !submission->answered) {
        snprintf(answer->message, sizeof(answer->message),
                 "the hop to %.200s: the connection with the shards broke", address);
    } else if (submission->cancelled) {
        answer->status = LH_ERR_CANCELLED;
        snprintf(answer->message, sizeof(answer->message), "cancelled");
    } else if (submission->answered) {
        lh_step_answer_parse(submission->http_status, submission->body.bytes,
                             submission->body.length, answer);
        if (answer->status == LH_OK && !submission->ended) {
            answer->status = LH_ERR_PROTOCOL;
            snprintf(answer->message, sizeof(answer->message),
                     "%.200s answered 200 before the step had ended", address);
        } else if (answer->status == LH_OK && submission->is_trial && !answer->is_named) {
            answer->status = LH_ERR_PROTOCOL;
            snprintf(answer->message, sizeof(answer->message),
                     "%.200s took a step and did not say who it is", address);
        }
    } else {
        snprintf(answer->message, sizeof(answer->message), "the hop to %.200s: %s", address,
                 stream_status == LH_OK ? "ended without an answer"
                                        : lh_status_text(stream_status));
    }
}

static void on_stream_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    lh_step_submission *submission = context;
    lh_worker_client *client = submission->client;
    lh_step_answer answer;
    read_outcome(submission, status, &answer);
    if (submission->shards)
        lh_bulk_transfer_leave(submission->shards);
    void *step_context = submission->step_context;
    if (answer.status == LH_OK && submission->timed && client->events.on_times) {
        client->events.on_times(client->context, step_context,
                                (const uint8_t *)submission->body.bytes, submission->body.length);
    }
    lh_text_buffer_reset(&submission->body);
    free(submission);
    assert(client->open_count > 0);
    client->open_count--;
    client->events.on_done(client->context, step_context, answer.status, answer.worker,
                           answer.message);
}

static const lh_h2_stream_events stream_events = {.on_response = on_response,
                                                  .on_body = on_body,
                                                  .on_end = on_end,
                                                  .on_closed = on_stream_closed};

/* ---- The connection ---- */

static void on_state(void *context, bool connected, const char *reason) {
    lh_worker_client *client = context;
    if (connected && !lh_worker_client_is_connected(client))
        return; /* the last connection tells */
    if (client->events.on_state)
        client->events.on_state(client->context, connected, reason);
}

static void destroy(lh_worker_client *client) {
    free(client->chain);
    free(client->address);
    free(client);
}

lh_status lh_worker_client_create(uv_loop_t *loop, const char *address, const char *chain,
                                  const lh_tls_options *tls, const lh_h2_limits *limits,
                                  const lh_worker_client_events *events, void *context,
                                  lh_worker_client **client, lh_error *error) {
    assert(events->on_done);
    if (strlen(chain) >= LH_WORKER_NAME_BYTES)
        return lh_fail(error, LH_ERR_LIMIT, "chain name '%.80s...' is too long", chain);
    lh_worker_client *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "worker client: out of memory");
    made->events = *events;
    made->context = context;
    made->address = strdup(address);
    made->chain = strdup(chain);
    lh_status status;
    if (!made->address || !made->chain) {
        status = lh_fail(error, LH_ERR_NO_MEMORY, "worker client: out of memory");
    } else {
        status = lh_h2_client_create(loop, address, tls, limits, on_state, made,
                                     &made->connections[0], error);
    }
    if (status != LH_OK) {
        destroy(made);
        return status;
    }
    made->connection_count = 1;
    *client = made;
    return LH_OK;
}

lh_status lh_worker_client_add_lanes(lh_worker_client *client, uv_loop_t *loop,
                                     const lh_tls_options *tls, const lh_h2_limits *limits,
                                     uint32_t count, lh_error *error) {
    assert(client->connection_count + count <= 1 + LH_WORKER_CLIENT_LANES_MAX);
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < count && status == LH_OK; i++) {
        status = lh_h2_client_create(loop, client->address, tls, limits, on_state, client,
                                     &client->connections[client->connection_count], error);
        client->connection_count += status == LH_OK;
    }
    return status;
}

void lh_worker_client_set_relayed_to(lh_worker_client *client, const char *worker) {
    assert(client->open_count == 0 && strlen(worker) < sizeof client->relayed_to);
    snprintf(client->relayed_to, sizeof client->relayed_to, "%s", worker);
}

static void on_connection_closed(void *context) {
    lh_worker_client *client = context;
    if (--client->closing_count > 0)
        return;
    void (*on_closed)(void *) = client->on_closed;
    void *closed_context = client->closed_context;
    destroy(client);
    if (on_closed)
        on_closed(closed_context);
}

void lh_worker_client_close(lh_worker_client *client, void (*on_closed)(void *), void *context) {
    client->on_closed = on_closed;
    client->closed_context = context;
    client->closing_count = client->connection_count;
    for (uint32_t i = 0; i < client->connection_count; i++)
        lh_h2_client_close(client->connections[i], on_connection_closed, client);
}

void lh_worker_client_watch(lh_worker_client *client, const lh_worker_client_events *events,
                            void *context) {
    assert(client->open_count == 0 && events->on_done);
    client->events = *events;
    client->context = context;
}

bool lh_worker_client_is_connected(const lh_worker_client *client) {
    bool all = true;
    for (uint32_t i = 0; i < client->connection_count; i++)
        all = all && lh_h2_client_is_connected(client->connections[i]);
    return all;
}

/* A connection that carries shards, beside those before it. */
static void add_lane(const lh_h2_client *lane, bool is_first, lh_h2_client_link *sum) {
    lh_h2_client_link link;
    lh_h2_client_read_link(lane, &link);
    link.bytes_sent += sum->bytes_sent;
    link.probe_bytes_sent += sum->probe_bytes_sent;
    link.ready_bytes += is_first ? 0 : sum->ready_bytes;
    link.refused = link.refused || sum->refused;
    bool is_better = link.estimate.bytes_per_us_is_bound == sum->estimate.bytes_per_us_is_bound
                         ? link.estimate.bytes_per_us > sum->estimate.bytes_per_us
                         : !link.estimate.bytes_per_us_is_bound;
    if (!is_better)
        link.estimate = sum->estimate;
    *sum = link;
}

void lh_worker_client_read_profile(const lh_worker_client *client, lh_hop_profile *profile) {
    lh_h2_client_link link;
    lh_h2_client_read_link(client->connections[0], &link);
    for (uint32_t i = 1; i < client->connection_count; i++)
        add_lane(client->connections[i], i == 1, &link);
    *profile = lh_link_profile(&link, lh_worker_client_is_connected(client));
}

/* ---- Submitting ---- */

#define PATH_BYTES 160

static lh_status open_stream(lh_step_submission *submission, const lh_step_manifest *manifest,
                             const char path[PATH_BYTES], lh_error *error) {
    const char *relayed_to = submission->client->relayed_to;
    const lh_h2_header headers[] = {{.name = "content-type", .value = LH_STEP_CONTENT_TYPE},
                                    {.name = LH_RELAY_TO_HEADER, .value = relayed_to},
                                    {.name = LH_RELAY_CLASS_HEADER,
                                     .value = manifest->step_class == LH_STEP_DECODE ? "0" : "1"}};
    return lh_h2_client_submit(submission->client->connections[0], "POST", path, headers,
                               relayed_to[0] != '\0' ? 3 : 1, (int)manifest->step_class,
                               &stream_events, submission, &submission->stream, error);
}

static lh_status open_step(lh_step_submission *submission, const lh_step_manifest *manifest,
                           bool shards_go_apart, lh_error *error) {
    char path[PATH_BYTES];
    snprintf(path, sizeof(path), "/chains/%s/steps/%llu%s", submission->client->chain,
             (unsigned long long)manifest->step, shards_go_apart ? "?shards=apart" : "");
    return open_stream(submission, manifest, path, error);
}

static lh_status check_connected(const lh_worker_client *client, lh_error *error) {
    return lh_worker_client_is_connected(client)
               ? LH_OK
               : lh_fail(error, LH_ERR_UNAVAILABLE, "not connected to %.200s", client->address);
}

static lh_status open_trial(lh_step_submission *submission, const lh_step_manifest *manifest,
                            uint32_t width, lh_error *error) {
    char path[PATH_BYTES];
    snprintf(path, sizeof(path), "/chains/%s/trials/%u", submission->client->chain, width);
    lh_status status = check_connected(submission->client, error);
    return status == LH_OK ? open_stream(submission, manifest, path, error) : status;
}

/* Without its shards the step is nothing. */
static void on_shards_failed(void *context, lh_status status) {
    (void)status;
    lh_step_submission *submission = context;
    submission->shards_failed = true;
    lh_h2_stream_cancel(submission->stream);
}

/* The request of the step, and where its shards go by another connection that one's. */
static lh_status open_streams(lh_step_submission *submission, const lh_step_manifest *manifest,
                              lh_error *error) {
    lh_worker_client *client = submission->client;
    bool has_shards = manifest->step_class == LH_STEP_PREFILL && manifest->rows > 0;
    lh_status status = check_connected(client, error);
    if (status != LH_OK)
        return status;
    uint32_t lane_count = client->connection_count - 1;
    if (!has_shards || lane_count == 0) {
        status = open_step(submission, manifest, false, error);
        if (status == LH_OK && has_shards)
            lh_h2_client_expect_bulk(client->connections[0], true);
        return status;
    }
    lh_h2_client *lane = client->connections[1 + client->next_lane++ % lane_count];
    status = lh_bulk_transfer_begin(lane, client->chain, client->relayed_to, manifest->epoch,
                                    manifest->step, on_shards_failed, submission,
                                    &submission->shards, error);
    if (status != LH_OK)
        return status;
    status = open_step(submission, manifest, true, error);
    if (status != LH_OK)
        lh_bulk_transfer_leave(submission->shards);
    return status;
}

/* trial_width: NULL where it is a step of the chain's. */
static lh_status submit(lh_worker_client *client, const uint32_t *trial_width,
                        const lh_step_manifest *manifest, void *step_context,
                        lh_step_submission **submission, lh_error *error) {
    size_t capacity = lh_step_manifest_bytes(manifest), length = 0;
    uint8_t *bytes = malloc(capacity);
    lh_step_submission *made = calloc(1, sizeof *made);
    lh_status status = LH_ERR_NO_MEMORY;
    if (!bytes || !made) {
        lh_fail(error, LH_ERR_NO_MEMORY, "step %llu: out of memory",
                (unsigned long long)manifest->step);
        goto fail;
    }
    made->client = client;
    made->step_context = step_context;
    made->timed = manifest->timed;
    made->is_trial = trial_width;
    status = lh_step_encode_manifest(manifest, bytes, capacity, &length, error);
    if (status != LH_OK)
        goto fail;
    status = trial_width ? open_trial(made, manifest, *trial_width, error)
                         : open_streams(made, manifest, error);
    if (status != LH_OK)
        goto fail;
    client->open_count++;
    *submission = made;
    if (lh_h2_stream_write_owned(made->stream, bytes, length) != LH_OK)
        lh_h2_stream_cancel(made->stream); /* on_done tells of it */
    else if (made->shards)
        lh_h2_stream_end(made->stream);
    return LH_OK;

fail:
    free(made);
    free(bytes);
    return status;
}

lh_status lh_worker_client_submit(lh_worker_client *client, const lh_step_manifest *manifest,
                                  void *step_context, lh_step_submission **submission,
                                  lh_error *error) {
    return submit(client, NULL, manifest, step_context, submission, error);
}

lh_status lh_worker_client_submit_trial(lh_worker_client *client, uint32_t width,
                                        const lh_step_manifest *manifest, void *step_context,
                                        lh_step_submission **submission, lh_error *error) {
    return submit(client, &width, manifest, step_context, submission, error);
}

lh_status lh_step_submission_write(lh_step_submission *submission, void *bytes, size_t length) {
    if (submission->shards)
        return lh_bulk_transfer_write(submission->shards, bytes, length);
    lh_h2_client_expect_bulk(submission->client->connections[0], false);
    return lh_h2_stream_write_owned(submission->stream, bytes, length);
}

size_t lh_step_submission_queued_bytes(const lh_step_submission *submission) {
    size_t bytes = lh_h2_stream_queued_bytes(submission->stream);
    return submission->shards ? bytes + lh_bulk_transfer_queued_bytes(submission->shards) : bytes;
}

void lh_step_submission_end(lh_step_submission *submission) {
    submission->ended = true;
    if (submission->shards) {
        lh_bulk_transfer_end(submission->shards);
        return;
    }
    lh_h2_client_expect_bulk(submission->client->connections[0], false);
    lh_h2_stream_end(submission->stream);
}

void lh_step_submission_cancel(lh_step_submission *submission) {
    submission->cancelled = true;
    lh_h2_stream_cancel(submission->stream);
}
