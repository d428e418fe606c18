/* Weights, hyper-parameters, repacking, the team, calibration: in this order, on a thread that may
 * wait. */
#include "worker/control/stage_job.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "worker/compute/stage/parameters.h"
#include "worker/compute/stage/stage_memory.h"
#include "worker/control/stage_trials.h"
#include "worker/mesh/handshake.h"
#include "worker/weights/weights.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

_Static_assert(LH_MEMBERS_MAX == LH_TEAM_MEMBERS_MAX &&
                   LH_MESH_SECRET_BYTES == LH_TEAM_SECRET_BYTES,
               "the protocol has what a mesh takes");

#define LOG_EVERY_US 1000000
/* Arithmetic between a loaded stage and one that is said to be ready; and where sequences wait for
 * it, whose steps will tell the rest. */
#define CALIBRATION_US        700000.0
#define URGENT_CALIBRATION_US 60000.0

/* Of a team. Who has no weights yet may have to fetch gigabytes first. */
#define FORMING_MS (30 * 60 * 1000)
/* Who listens can be connected to while it fetches. Nothing depends on a team that is prepared, so
 * it is given up; one that is to serve has nothing better to do than to wait. */
#define UNREACHED_MS 15000

/* How nice a job is to the stage that computes beside it: the kernel gives it a third of that one's
 * share where both want a core. */
#define BESIDE_NICENESS 5

void lh_built_stage_destroy(lh_built_stage *built) {
    bool leads = built->stage && lh_stage_made_with(built->stage)->membership.number == 0;
    if (leads)
        lh_stage_destroy(built->stage); /* the last orders go to the team */
    lh_team_destroy(built->team);
    if (!leads)
        lh_stage_destroy(built->stage);
    built->stage = NULL;
    built->team = NULL;
}

struct lh_stage_job {
    lh_stage_job_options options;
    lh_control_assignment assignment;
    uv_work_t work;
    void (*on_done)(void *context, const lh_error *failure);
    void *context;
    _Atomic bool cancelled;
    atomic_bool loading, joining;
    _Atomic uint64_t done_bytes, total_bytes;
    bool is_done;
    pthread_mutex_t mutex; /* guards what follows */
    lh_team *joined;       /* the work may wait in it; NULL: in none */
    /* The work's, until it is done. */
    int64_t logged_us;
    lh_built_stage built;
    lh_thread_pool *pool; /* that it works with */
    lh_status status;
    lh_error error;
};

/* ---- The work ---- */

/* One line a second at most. */
static void on_progress(void *context, uint64_t done_bytes, uint64_t total_bytes) {
    lh_stage_job *job = context;
    atomic_store(&job->done_bytes, done_bytes);
    atomic_store(&job->total_bytes, total_bytes);
    int64_t now_us = lh_clock_us();
    if (now_us - job->logged_us >= LOG_EVERY_US) {
        job->logged_us = now_us;
        lh_log(LH_LOG_INFO, "assignment", "%s percent=%d done_bytes=%llu total_bytes=%llu",
               atomic_load(&job->loading) ? "loading" : "fetching",
               total_bytes > 0 ? (int)((double)done_bytes / (double)total_bytes * 100) : 100,
               (unsigned long long)done_bytes, (unsigned long long)total_bytes);
    }
}

static lh_status open_weights(lh_stage_job *job, lh_weights **weights, lh_error *error) {
    const lh_stage_job_options *options = &job->options;
    const lh_control_model *model = &job->assignment.model;
    lh_weights_options weights_options = {.header_sha256 = model->header_sha256,
                                          .header_bytes = model->header_bytes,
                                          .file_bytes = model->file_bytes,
                                          .weights_url = model->weights_url,
                                          .tensors_url = model->tensors_url,
                                          .fleet_url = options->gateway_url,
                                          .cache = options->cache,
                                          .pool = job->pool,
                                          .bytes_per_s_max = job->assignment.bytes_per_s_max,
                                          .model_path = options->model_path,
                                          .cancelled = &job->cancelled};
    if (options->tls)
        weights_options.certificates = (lh_weight_certificates){
            options->tls->certificate_file, options->tls->key_file, options->tls->ca_file};
    return lh_weights_open(&weights_options, weights, error);
}

/* A stage that could not be timed is as good as another: the steps to come will tell. */
static lh_status calibrate(lh_stage_job *job, lh_error *error) {
    lh_compute_profile *profile = &job->built.profile;
    int64_t begin_us = lh_clock_us();
    lh_status status =
        lh_stage_trials_run(job->built.stage, job->assignment.wire,
                            job->options.is_urgent ? URGENT_CALIBRATION_US : CALIBRATION_US,
                            &job->cancelled, profile, error);
    if (status == LH_ERR_CANCELLED)
        return status;
    if (status != LH_OK)
        lh_log(LH_LOG_WARN, "assignment", "calibration ends early reason=\"%s\"", error->message);
    if (profile->point_count > 0) {
        const lh_compute_point *first = &profile->points[0],
                               *last = &profile->points[profile->point_count - 1];
        lh_log(LH_LOG_INFO, "assignment",
               "calibrated points=%u rows_min=%u min_us=%.0f rows_max=%u max_us=%.0f took_ms=%lld",
               profile->point_count, first->rows, first->us, last->rows, last->us,
               (long long)((lh_clock_us() - begin_us) / 1000));
    }
    return LH_OK;
}

/* The header is what its digest says, so what is wrong with it stays wrong. */
static lh_status read_config(const lh_weights *weights, lh_model_config *config, lh_error *error) {
    lh_error cause;
    lh_status status = lh_model_config_read(lh_weights_gguf(weights), config, &cause);
    if (status == LH_OK)
        return LH_OK;
    if (status != LH_ERR_NO_MEMORY)
        status = LH_ERR_UNSUPPORTED;
    return lh_fail(error, status, "%s", cause.message);
}

/* Before anything is fetched for it: memory that is promised and not there would end the worker
 * later, in the middle of a request. */
static lh_status check_memory(const lh_stage_job *job, const lh_weights *weights,
                              const lh_model_config *config, const lh_stage_options *options,
                              lh_error *error) {
    lh_stage_memory memory;
    if (job->assignment.weights_only)
        return LH_OK;
    lh_status status = lh_stage_memory_count(lh_weights_gguf(weights), config, options,
                                             lh_thread_pool_size(job->pool), &memory, error);
    int64_t free_bytes = options->device ? options->device->free_bytes(options->device)
                                         : lh_memory_gauge_free(job->options.memory);
    return status == LH_OK ? lh_stage_memory_check(&memory, options->range, free_bytes, error)
                           : status;
}

/* Whoever cancels the job ends the team that it waits in. */
static void note_joined(lh_stage_job *job, lh_team *team) {
    pthread_mutex_lock(&job->mutex);
    job->joined = team;
    if (team && atomic_load(&job->cancelled))
        lh_team_end(team);
    pthread_mutex_unlock(&job->mutex);
}

static lh_status join_team(lh_stage_job *job, lh_error *error) {
    const lh_control_team *team = &job->assignment.team;
    lh_address addresses[LH_MEMBERS_MAX];
    lh_team_options options = {
        .identity = {job->assignment.chain, team->epoch, team->count, team->own, {0}},
        .addresses = addresses,
        .listener = job->options.member_listener,
        .forming_ms = FORMING_MS,
        .unreached_ms = job->options.is_beside ? UNREACHED_MS : 0,
        .cancelled = &job->cancelled,
        .on_failed = job->options.on_team_failed,
        .context = job->options.team_context};
    lh_status status = LH_OK;
    memcpy(options.identity.secret, team->secret, sizeof team->secret);
    for (uint32_t i = 0; i < team->count && status == LH_OK; i++)
        status = lh_address_parse(team->members[i].address, &addresses[i], error);
    if (status != LH_OK)
        return status;
    lh_log(LH_LOG_INFO, "assignment", "joins a team first=%s own=%u members=%u epoch=%u",
           team->members[0].name, team->own, team->count, team->epoch);
    atomic_store(&job->joining, true);
    status = lh_team_form(&options, job->built.stage, &job->built.team, error);
    atomic_store(&job->joining, false);
    if (status == LH_OK)
        note_joined(job, job->built.team);
    return status;
}

/* The others of a team are timed with the first one. */
static lh_status begin_and_calibrate(lh_stage_job *job, lh_error *error) {
    lh_team *team = job->built.team;
    lh_status status = team ? lh_team_begin(team, error) : LH_OK;
    return status == LH_OK && job->assignment.team.own == 0 ? calibrate(job, error) : status;
}

/* Of a team that is to rest until it is needed: it is timed, and so tried. */
static lh_status rehearse(lh_stage_job *job, lh_error *error) {
    if (job->assignment.team.own > 0)
        return lh_team_follow(job->built.team, error);
    lh_status status = begin_and_calibrate(job, error);
    return status == LH_OK ? lh_team_rest(job->built.team, error) : status;
}

static void leave_team(lh_stage_job *job) {
    note_joined(job, NULL);
    lh_team_destroy(job->built.team);
    job->built.team = NULL;
    lh_stage_reset(job->built.stage); /* of what the trials have left in it */
}

/* Again, where another member is lost meanwhile: it may come back, or else the gateway wants
 * something else. */
static lh_status join_and_rehearse(lh_stage_job *job, lh_error *error) {
    lh_status status = join_team(job, error);
    while (status == LH_OK) {
        status = rehearse(job, error);
        if (status != LH_ERR_CLOSED && status != LH_ERR_TIMEOUT)
            return status;
        lh_log(LH_LOG_WARN, "assignment", "a team that is prepared forms again reason=\"%s\"",
               error->message);
        leave_team(job);
        status = join_team(job, error);
    }
    return status;
}

static lh_status join_and_calibrate(lh_stage_job *job, lh_error *error) {
    bool has_team = job->assignment.team.count > 0;
    if (has_team && job->options.is_beside)
        return join_and_rehearse(job, error);
    lh_status status = has_team ? join_team(job, error) : LH_OK;
    return status == LH_OK ? begin_and_calibrate(job, error) : status;
}

/* Whose part of the tensors is fetched. */
typedef struct own_part {
    const lh_model_config *config;
    lh_layer_range range;
    lh_division division;
} own_part;

static uint32_t slices_of(void *context, lh_tensor_role role, const lh_gguf_tensor *tensor,
                          lh_tensor_slice slices[LH_TENSOR_PARTS_MAX]) {
    const own_part *own = context;
    return lh_parameters_slices(own->config, own->range, &own->division, role, tensor, slices);
}

/* A member of a team has, and fetches, its own part alone. */
static lh_status ensure_weights(lh_stage_job *job, lh_weights *weights,
                                const lh_model_config *config, const lh_stage_options *options,
                                lh_error *error) {
    own_part own = {.config = config, .range = options->range};
    const lh_weight_needs needs = {slices_of, &own};
    lh_status status = lh_division_make(config, &options->membership, &own.division, error);
    return status == LH_OK ? lh_weights_ensure(weights, config, options->range,
                                               own.division.members > 1 ? &needs : NULL,
                                               on_progress, job, error)
                           : status;
}

/* What is here of the model, now that it is known; without it a stage is built as well. */
static void list_layers(const lh_stage_job *job, const lh_weights *weights,
                        const lh_model_config *config) {
    lh_error problem;
    if (job->options.inventory &&
        lh_weights_list_layers(weights, config, job->options.inventory, &problem) != LH_OK)
        lh_log(LH_LOG_WARN, "assignment", "cached layers are not told reason=\"%s\"",
               problem.message);
}

/* What the reply's words mean to the kernels; a reply with others is refused. */
static void set_numbers(const lh_control_assignment *assignment, lh_stage_options *options) {
    bool are_known = lh_activation_kind_parse(assignment->activations, &options->activations) &&
                     lh_kv_type_parse(assignment->kv_type, &options->kv_type);
    assert(are_known);
    (void)are_known;
}

static lh_status build(lh_stage_job *job, lh_weights *weights, lh_error *error) {
    const lh_control_assignment *assignment = &job->assignment;
    lh_layer_range range = {assignment->first_layer, assignment->last_layer};
    lh_model_config config;
    lh_status status = read_config(weights, &config, error);
    if (status != LH_OK)
        return status;
    if (config.layers != assignment->layers) {
        return lh_fail(error, LH_ERR_INVALID,
                       "the assignment speaks of %u layers, the model has %u", assignment->layers,
                       config.layers);
    }
    list_layers(job, weights, &config);
    const lh_control_team *team = &assignment->team;
    lh_stage_options options = {.range = range,
                                .kv_bytes = job->options.kv_bytes,
                                .context = assignment->context,
                                .rows_max = assignment->rows_max,
                                .steps_max = assignment->steps_max,
                                .kernels = job->options.kernels,
                                .pool = job->pool,
                                .device = job->options.device,
                                .is_fast = strcmp(assignment->gpu_math, "fast") == 0,
                                .membership = {team->count, team->own, {0}}};
    set_numbers(assignment, &options);
    for (uint32_t i = 0; i < team->count; i++)
        options.membership.weights[i] = team->members[i].weight;
    status = check_memory(job, weights, &config, &options, error);
    if (status == LH_OK)
        status = ensure_weights(job, weights, &config, &options, error);
    if (job->options.inventory)
        lh_weight_inventory_refresh(job->options.inventory);
    if (status != LH_OK)
        return status;
    lh_log(LH_LOG_INFO, "assignment",
           "weights are here layers=%u-%u fetched_bytes=%" PRIu64 " needed_bytes=%" PRIu64,
           assignment->first_layer, assignment->last_layer - 1, lh_weights_fetched_bytes(weights),
           atomic_load(&job->total_bytes));
    if (assignment->weights_only)
        return LH_OK;
    atomic_store(&job->loading, true);
    on_progress(job, 0, atomic_load(&job->total_bytes)); /* the same bytes again */
    lh_weight_source source = lh_weights_source(weights);
    status = lh_stage_create(lh_weights_gguf(weights), &config, &source, &options, on_progress, job,
                             &job->built.stage, error);
    return status == LH_OK ? join_and_calibrate(job, error) : status;
}

static lh_status run(lh_stage_job *job, lh_error *error) {
    lh_weights *weights = NULL;
    job->logged_us = lh_clock_us();
    lh_status status = open_weights(job, &weights, error);
    if (status != LH_OK)
        return status;
    status = build(job, weights, error);
    note_joined(job, NULL);
    lh_weights_close(weights);
    return status;
}

/* A thread's niceness is its own, on Linux, and that of the threads that it starts; without
 * privileges it cannot be taken back. So the job gets a thread of its own. */
static void *run_beside(void *argument) {
    lh_stage_job *job = argument;
    lh_thread_pool *own = job->options.pool;
    setpriority(PRIO_PROCESS, (id_t)gettid(), BESIDE_NICENESS);
    job->status = lh_thread_pool_create(lh_thread_pool_size(own), &job->pool, &job->error);
    if (job->status != LH_OK)
        return NULL;
    lh_slowdown_set(lh_thread_pool_slowdown(job->pool),
                    lh_slowdown_factor(lh_thread_pool_slowdown(own)));
    job->status = run(job, &job->error);
    if (job->built.stage)
        lh_stage_use_pool(job->built.stage, own);
    lh_thread_pool_destroy(job->pool);
    return NULL;
}

static void do_work(uv_work_t *work) {
    lh_stage_job *job = work->data;
    pthread_t thread;
    job->pool = job->options.pool;
    if (!job->options.is_beside)
        job->status = run(job, &job->error);
    else if (pthread_create(&thread, NULL, run_beside, job) == 0)
        pthread_join(thread, NULL);
    else
        job->status =
            lh_fail(&job->error, LH_ERR_IO, "a thread to prepare a stage could not be started");
}

/* ---- For the loop ---- */

static void on_worked(uv_work_t *work, int cancelled) {
    lh_stage_job *job = work->data;
    assert(cancelled == 0 && !job->is_done);
    job->is_done = true;
    job->on_done(job->context, job->status == LH_OK ? NULL : &job->error);
}

lh_status lh_stage_job_start(uv_loop_t *loop, const lh_stage_job_options *options,
                             const lh_control_assignment *assignment,
                             void (*on_done)(void *context, const lh_error *failure), void *context,
                             lh_stage_job **job, lh_error *error) {
    lh_stage_job *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "assignment: out of memory");
    made->options = *options;
    made->assignment = *assignment;
    made->on_done = on_done;
    made->context = context;
    made->work.data = made;
    pthread_mutex_init(&made->mutex, NULL);
    uv_queue_work(loop, &made->work, do_work, on_worked); /* which cannot fail */
    *job = made;
    return LH_OK;
}

void lh_stage_job_destroy(lh_stage_job *job) {
    assert(job->is_done);
    lh_built_stage_destroy(&job->built);
    pthread_mutex_destroy(&job->mutex);
    free(job);
}

lh_built_stage lh_stage_job_take(lh_stage_job *job) {
    assert(job->is_done && job->status == LH_OK);
    lh_built_stage built = job->built;
    job->built.stage = NULL;
    job->built.team = NULL;
    return built;
}

void lh_stage_job_cancel(lh_stage_job *job) {
    pthread_mutex_lock(&job->mutex);
    atomic_store(&job->cancelled, true);
    if (job->joined)
        lh_team_end(job->joined);
    pthread_mutex_unlock(&job->mutex);
}

lh_worker_stage_state lh_stage_job_progress(const lh_stage_job *job, uint64_t *done_bytes,
                                            uint64_t *total_bytes) {
    *done_bytes = atomic_load(&job->done_bytes);
    *total_bytes = atomic_load(&job->total_bytes);
    return atomic_load(&job->loading) ? LH_WORKER_LOADING : LH_WORKER_FETCHING;
}

bool lh_stage_job_is_joining(const lh_stage_job *job) {
    return atomic_load(&job->joining);
}
