#include "tests/gateway/support/scripted_engine.h"

#include "common/base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIRST_BYTE_TOKEN 3u
#define TOPS_MAX         20u
#define FOREVER          INT64_MAX

typedef struct engine_script {
    char *text; /* bytes, malloc'd */
    size_t length;
    int64_t first_us, interval_us;
    int64_t fail_after; /* -1: never */
    bool internal, limit;
    lh_status refusal;
    int state; /* -1: as it is */
} engine_script;

typedef struct scripted_sequence {
    struct scripted_sequence *next;
    uint64_t handle;
    engine_script script;
    lh_sequence_request request;
    bool no_stop, delivering, cancelled;
    bool has_scored;
    lh_row_answer answer;   /* of the event that is being delivered */
    lh_token_score *scores; /* of its prompt, once told */
    uint32_t forced;        /* token, or UINT32_MAX */
    uint32_t sampled;
    size_t at;
    int64_t due_us;
} scripted_sequence;

struct lh_engine {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    bool ending;
    lh_engine_state state;
    const char *refusal; /* of the model, by its workers; NULL: none */
    lh_engine_outage outage;
    uint64_t positions;
    scripted_sequence *sequences;
    uint64_t last_handle;
    scripted_engine_counts counts;
    lh_sequence_request last;
};

/* ---- The script. ---- */

static void *need(void *pointer) {
    if (!pointer)
        abort();
    return pointer;
}

static char *prompt_text(const lh_sequence_request *request) {
    char *text = need(calloc(request->prompt_tokens + 1, 1));
    size_t length = 0;
    for (uint32_t i = 0; i < request->prompt_tokens; i++) {
        uint32_t token = request->prompt[i];
        char byte = token < FIRST_BYTE_TOKEN || token > FIRST_BYTE_TOKEN + 255
                        ? '\n'
                        : (char)(token - FIRST_BYTE_TOKEN);
        text[length++] = byte ? byte : '\n';
    }
    return text;
}

static void set_text(engine_script *script, const char *text, size_t length) {
    free(script->text);
    script->text = need(calloc(length + 1, 1));
    script->length = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned byte;
        if (text[i] == '\\' && i + 3 < length && sscanf(text + i, "\\x%2x", &byte) == 1) {
            script->text[script->length++] = (char)byte;
            i += 3;
        } else {
            script->text[script->length++] = text[i];
        }
    }
}

static void set_word(engine_script *script, const char *word) {
    static const char *const states[] = {"loading", "ready", "no_chain", "draining"};
    long long number;
    if (sscanf(word, "first_ms=%lld", &number) == 1)
        script->first_us = number * 1000;
    else if (sscanf(word, "interval_ms=%lld", &number) == 1)
        script->interval_us = number * 1000;
    else if (sscanf(word, "fail_after=%lld", &number) == 1)
        script->fail_after = number;
    else if (strcmp(word, "internal=1") == 0)
        script->internal = true;
    else if (strcmp(word, "limit=1") == 0)
        script->limit = true;
    else if (strcmp(word, "refuse=busy") == 0)
        script->refusal = LH_ERR_BUSY;
    else if (strcmp(word, "refuse=unavailable") == 0)
        script->refusal = LH_ERR_UNAVAILABLE;
    else if (strcmp(word, "refuse=limit") == 0)
        script->refusal = LH_ERR_LIMIT;
    for (int i = 0; i < 4; i++)
        if (strncmp(word, "state=", 6) == 0 && strcmp(word + 6, states[i]) == 0)
            script->state = i;
}

static void set_letters(engine_script *script, uint64_t seed) {
    char letters[64];
    for (size_t i = 0; i < sizeof letters; i++) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        letters[i] = (char)('a' + (seed >> 40) % 26);
    }
    set_text(script, letters, sizeof letters);
}

static engine_script read_script(const lh_sequence_request *request) {
    engine_script script = {.fail_after = -1, .state = -1};
    if (request->sampling.temperature > 0)
        set_letters(&script, request->sampling.seed);
    else
        set_text(&script, "Hello from the script.", 22);
    char *text = prompt_text(request), *at = strstr(text, "@@");
    for (at = at ? at + 2 : NULL; at && *at && *at != '\n';) {
        at += strspn(at, " ");
        if (strncmp(at, "text=", 5) == 0) {
            set_text(&script, at + 5, strcspn(at + 5, "\n"));
            break;
        }
        char word[64];
        size_t length = strcspn(at, " \n");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        set_word(&script, word);
        at += length;
    }
    free(text);
    return script;
}

/* ---- Sequences. ---- */

static void apply_biases(scripted_sequence *sequence) {
    const lh_sampling *sampling = &sequence->request.sampling;
    sequence->forced = UINT32_MAX;
    for (uint32_t i = 0; i < sampling->bias_count; i++) {
        uint32_t token = sampling->biases[i].token;
        if (sampling->biases[i].bias >= 100)
            sequence->forced = token;
        if (sampling->biases[i].bias > -100)
            continue;
        size_t kept = 0;
        for (size_t k = 0; k < sequence->script.length; k++)
            if ((unsigned char)sequence->script.text[k] + FIRST_BYTE_TOKEN != token)
                sequence->script.text[kept++] = sequence->script.text[k];
        sequence->script.length = kept;
    }
}

static scripted_sequence *make_sequence(lh_engine *engine, const lh_sequence_request *request,
                                        engine_script script) {
    scripted_sequence *sequence = need(calloc(1, sizeof *sequence));
    sequence->handle = ++engine->last_handle;
    sequence->script = script;
    sequence->request = *request;
    sequence->no_stop = request->stop_token_count == 0;
    sequence->due_us = lh_clock_us() + script.first_us;
    apply_biases(sequence);
    sequence->request.prompt = NULL;
    sequence->request.sampling.biases = NULL;
    return sequence;
}

static void remove_sequence(lh_engine *engine, scripted_sequence *gone) {
    scripted_sequence **link = &engine->sequences;
    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    engine->counts.running--;
    free(gone->script.text);
    free(gone->scores);
    free(gone);
}

static scripted_sequence *find(lh_engine *engine, uint64_t handle) {
    scripted_sequence *at = engine->sequences;
    while (at && at->handle != handle)
        at = at->next;
    return at;
}

/* Those of the prompt, at once: token i has logprob -i / 8 and rank i; the best ones are "0",
 * "1", ... */
static void score(scripted_sequence *sequence, lh_sequence_event *event) {
    uint32_t count = sequence->request.prompt_tokens - 1;
    lh_token_score *scores = need(calloc(count + 1, sizeof *scores));
    for (uint32_t i = 0; i < count; i++) {
        scores[i] = (lh_token_score){.logprob = -0.125f * (float)(i + 1),
                                     .rank = i + 1,
                                     .top_count = sequence->request.prompt_tops};
        for (uint32_t k = 0; k < scores[i].top_count; k++)
            scores[i].top[k] = (lh_token_logprob){FIRST_BYTE_TOKEN + '0' + k, -0.125f - (float)k};
    }
    event->kind = LH_SEQUENCE_PROMPT;
    event->position = 1;
    sequence->scores = scores;
    sequence->answer = (lh_row_answer){.score_count = count, .scores = scores};
    event->answer = &sequence->answer;
    sequence->has_scored = true;
}

static void draw(scripted_sequence *sequence, lh_sequence_event *event, lh_token_logprob *tops) {
    event->kind = LH_SEQUENCE_TOKEN;
    event->token =
        sequence->forced != UINT32_MAX
            ? sequence->forced
            : (unsigned char)sequence->script.text[sequence->at++ % sequence->script.length] +
                  FIRST_BYTE_TOKEN;
    sequence->answer = (lh_row_answer){
        .token = event->token,
        .logprob = -0.25f,
        .digest = sequence->request.sampling.want_digest ? 0x1000u + sequence->sampled : 0,
        .top_count = sequence->request.sampling.top_logprobs,
        .top = tops};
    for (uint32_t i = 0; i < sequence->answer.top_count; i++)
        tops[i] =
            (lh_token_logprob){i ? (event->token + i) % 259 : event->token, -0.25f - (float)i};
    event->answer = &sequence->answer;
    sequence->sampled++;
}

/* True: it was the last event. */
static bool next_event(scripted_sequence *sequence, lh_sequence_event *event,
                       lh_token_logprob *tops) {
    const engine_script *script = &sequence->script;
    if (sequence->request.deadline_us && lh_clock_us() >= sequence->request.deadline_us &&
        !sequence->cancelled) {
        event->kind = LH_SEQUENCE_FAILED;
        event->status = LH_ERR_TIMEOUT;
        event->message = "the deadline has passed";
        return true;
    }
    bool over = sequence->at >= script->length && sequence->forced == UINT32_MAX &&
                (!sequence->no_stop || script->length == 0) &&
                sequence->sampled >= sequence->request.min_tokens;
    if (sequence->cancelled ||
        (script->fail_after >= 0 && sequence->sampled >= script->fail_after)) {
        event->kind = LH_SEQUENCE_FAILED;
        event->status = sequence->cancelled ? LH_ERR_CANCELLED
                        : script->limit     ? LH_ERR_LIMIT
                        : script->internal  ? LH_ERR_IO
                                            : LH_ERR_UNAVAILABLE;
        event->message = "as the script says, at 10.1.2.3:4567";
        return true;
    }
    if (sequence->request.scores_prompt && !sequence->has_scored &&
        sequence->request.prompt_tokens > 1) {
        score(sequence, event);
        return false;
    }
    if (over || sequence->sampled >= sequence->request.max_tokens) {
        event->kind = LH_SEQUENCE_FINISHED;
        event->token = 2;
        event->reason =
            sequence->sampled >= sequence->request.max_tokens ? LH_FINISH_LENGTH : LH_FINISH_STOP;
        return true;
    }
    draw(sequence, event, tops);
    return false;
}

static void count_event(lh_engine *engine, const scripted_sequence *sequence,
                        lh_sequence_event_kind kind) {
    engine->counts.tokens += kind == LH_SEQUENCE_TOKEN;
    engine->counts.finished += kind == LH_SEQUENCE_FINISHED;
    engine->counts.failed += kind == LH_SEQUENCE_FAILED && !sequence->cancelled;
    engine->counts.cancelled += kind == LH_SEQUENCE_FAILED && sequence->cancelled;
}

/* With the mutex held, which is let go during the delivery. */
static void deliver(lh_engine *engine, scripted_sequence *sequence) {
    lh_token_logprob tops[TOPS_MAX];
    lh_sequence_event event = {.chain = "scripted", .epoch = 7};
    bool last = next_event(sequence, &event, tops);
    count_event(engine, sequence, event.kind);
    sequence->due_us += sequence->script.interval_us;
    sequence->delivering = true;
    pthread_mutex_unlock(&engine->mutex);
    sequence->request.on_event(sequence->request.context, &event);
    pthread_mutex_lock(&engine->mutex);
    sequence->delivering = false;
    if (last)
        remove_sequence(engine, sequence);
    pthread_cond_broadcast(&engine->changed);
}

/* When its next event is due: a token, or that its time is over. */
static int64_t due_us_of(const scripted_sequence *sequence) {
    int64_t deadline_us = sequence->request.deadline_us;
    return deadline_us && deadline_us < sequence->due_us ? deadline_us : sequence->due_us;
}

static scripted_sequence *most_urgent(lh_engine *engine) {
    scripted_sequence *best = NULL;
    for (scripted_sequence *at = engine->sequences; at; at = at->next)
        if (at->cancelled)
            return at;
        else if (!best || due_us_of(at) < due_us_of(best))
            best = at;
    return best;
}

static void *run(void *argument) {
    lh_engine *engine = argument;
    pthread_mutex_lock(&engine->mutex);
    while (!engine->ending) {
        scripted_sequence *next = most_urgent(engine);
        int64_t now_us = lh_clock_us();
        if (next && (next->cancelled || due_us_of(next) <= now_us)) {
            deliver(engine, next);
        } else if (next) {
            int64_t until_us = due_us_of(next);
            struct timespec until = {until_us / 1000000, (until_us % 1000000) * 1000};
            pthread_cond_clockwait(&engine->changed, &engine->mutex, CLOCK_MONOTONIC, &until);
        } else {
            pthread_cond_wait(&engine->changed, &engine->mutex);
        }
    }
    pthread_mutex_unlock(&engine->mutex);
    return NULL;
}

/* ---- The seam. ---- */

lh_engine *scripted_engine_create(void) {
    lh_engine *engine = need(calloc(1, sizeof *engine));
    engine->state = LH_ENGINE_READY;
    engine->positions = UINT64_MAX;
    engine->outage = (lh_engine_outage){.reason = "worker-7 has not loaded its stage"};
    pthread_mutex_init(&engine->mutex, NULL);
    pthread_cond_init(&engine->changed, NULL);
    if (pthread_create(&engine->thread, NULL, run, engine))
        abort();
    return engine;
}

void scripted_engine_destroy(lh_engine *engine) {
    pthread_mutex_lock(&engine->mutex);
    engine->ending = true;
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->mutex);
    pthread_join(engine->thread, NULL);
    while (engine->sequences)
        remove_sequence(engine, engine->sequences);
    pthread_cond_destroy(&engine->changed);
    pthread_mutex_destroy(&engine->mutex);
    free(engine);
}

lh_status lh_engine_submit(lh_engine *engine, const lh_sequence_request *requests, uint32_t count,
                           uint64_t *handles, lh_error *error) {
    pthread_mutex_lock(&engine->mutex);
    const char *refusal = engine->refusal;
    if (refusal) {
        pthread_mutex_unlock(&engine->mutex);
        return lh_fail(error, LH_ERR_UNSUPPORTED, "%s", refusal);
    }
    for (uint32_t i = 0; i < count; i++) {
        engine_script script = read_script(&requests[i]);
        if (script.state >= 0)
            engine->state = (lh_engine_state)script.state;
        if (script.refusal) {
            free(script.text);
            pthread_mutex_unlock(&engine->mutex);
            return lh_fail(error, script.refusal, "refused, as the script says");
        }
        scripted_sequence *sequence = make_sequence(engine, &requests[i], script);
        handles[i] = sequence->handle;
        sequence->next = engine->sequences;
        engine->sequences = sequence;
        engine->counts.submitted++;
        engine->counts.running++;
        engine->last = requests[i];
    }
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->mutex);
    return LH_OK;
}

void lh_engine_cancel(lh_engine *engine, uint64_t handle) {
    pthread_mutex_lock(&engine->mutex);
    scripted_sequence *sequence = find(engine, handle);
    while (sequence && sequence->delivering) {
        pthread_cond_wait(&engine->changed, &engine->mutex);
        sequence = find(engine, handle);
    }
    if (sequence) {
        engine->counts.cancelled++;
        remove_sequence(engine, sequence);
    }
    pthread_mutex_unlock(&engine->mutex);
}

void lh_engine_cancel_later(lh_engine *engine, uint64_t handle) {
    pthread_mutex_lock(&engine->mutex);
    scripted_sequence *sequence = find(engine, handle);
    if (sequence)
        sequence->cancelled = true;
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->mutex);
}

void scripted_engine_set_state(lh_engine *engine, lh_engine_state state) {
    pthread_mutex_lock(&engine->mutex);
    engine->state = state;
    pthread_mutex_unlock(&engine->mutex);
}

lh_engine_state lh_engine_current_state(const lh_engine *engine) {
    lh_engine *guarded = (lh_engine *)engine;
    pthread_mutex_lock(&guarded->mutex);
    lh_engine_state state = guarded->state;
    pthread_mutex_unlock(&guarded->mutex);
    return state;
}

void scripted_engine_set_outage(lh_engine *engine, const lh_engine_outage *outage) {
    pthread_mutex_lock(&engine->mutex);
    engine->outage = *outage;
    pthread_mutex_unlock(&engine->mutex);
}

void scripted_engine_set_refusal(lh_engine *engine, const char *message) {
    pthread_mutex_lock(&engine->mutex);
    engine->refusal = message;
    pthread_mutex_unlock(&engine->mutex);
}

void scripted_engine_set_positions(lh_engine *engine, uint64_t positions) {
    pthread_mutex_lock(&engine->mutex);
    engine->positions = positions;
    pthread_mutex_unlock(&engine->mutex);
}

static uint64_t current_positions(lh_engine *engine) {
    pthread_mutex_lock(&engine->mutex);
    uint64_t positions = engine->positions;
    pthread_mutex_unlock(&engine->mutex);
    return positions;
}

void lh_engine_refusal(const lh_engine *engine, lh_error *refusal) {
    lh_engine *guarded = (lh_engine *)engine;
    pthread_mutex_lock(&guarded->mutex);
    if (guarded->refusal)
        lh_fail(refusal, LH_ERR_UNSUPPORTED, "%s", guarded->refusal);
    else
        lh_fail(refusal, LH_ERR_UNAVAILABLE, "no chain");
    pthread_mutex_unlock(&guarded->mutex);
}

void lh_engine_current_outage(lh_engine *engine, lh_engine_outage *outage) {
    pthread_mutex_lock(&engine->mutex);
    *outage = engine->outage;
    pthread_mutex_unlock(&engine->mutex);
}

int lh_engine_fleet_port(const lh_engine *engine) {
    (void)engine;
    return 7100;
}

scripted_engine_counts scripted_engine_count(lh_engine *engine) {
    pthread_mutex_lock(&engine->mutex);
    scripted_engine_counts counts = engine->counts;
    pthread_mutex_unlock(&engine->mutex);
    return counts;
}

lh_sequence_request scripted_engine_last_request(lh_engine *engine) {
    pthread_mutex_lock(&engine->mutex);
    lh_sequence_request last = engine->last;
    pthread_mutex_unlock(&engine->mutex);
    return last;
}

lh_engine_room lh_engine_current_room(const lh_engine *engine) {
    uint32_t running = scripted_engine_count((lh_engine *)engine).running;
    return (lh_engine_room){.running = running,
                            .sequences_max = 1024,
                            .sequences_free = running < 1024 ? 1024 - running : 0,
                            .positions_max = current_positions((lh_engine *)engine),
                            .positions_free = UINT64_MAX};
}

char *lh_engine_fleet_map_json(lh_engine *engine) {
    (void)engine;
    return strdup("{\"machines\":[]}");
}

/* The counts, so that a test over HTTP can see what runs. */
char *lh_engine_fleet_json(lh_engine *engine) {
    scripted_engine_counts counts = scripted_engine_count(engine);
    char *text = NULL;
    if (asprintf(&text,
                 "{\"submitted\":%u,\"finished\":%u,\"failed\":%u,\"cancelled\":%u,\"running\":%u,"
                 "\"tokens\":%llu}",
                 counts.submitted, counts.finished, counts.failed, counts.cancelled, counts.running,
                 (unsigned long long)counts.tokens) < 0)
        return NULL;
    return text;
}
