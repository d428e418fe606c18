/* longhaul-worker: reads the flags, puts the parts together, runs the loop, and leaves when it is
 * told to. */
#include "common/base/log.h"
#include "worker/compute/thread_pool.h"
#include "worker/control/machine_speed.h"
#include "worker/control/reconciler.h"
#include "worker/serve/server.h"
#include "worker/weights/weight_cache.h"
#include "worker/worker_settings.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* Shards that wait for the compute thread, and encoded ones that wait for the next hop: a few large
 * steps of each. */
#define QUEUE_BYTES ((size_t)64 << 20)

typedef struct program {
    lh_worker_settings settings;
    const lh_tls_options *tls; /* NULL: none */
    /* as others reach them; "": not at all */
    char plain[LH_ADDRESS_BYTES], secure[LH_ADDRESS_BYTES];
    uv_loop_t loop;
    uv_signal_t terminate, interrupt, hang_up, switch_slowdown, resume;
    uv_timer_t patience;
    lh_weight_cache *cache;
    lh_thread_pool *pool;
    const lh_kernels *kernels;
    lh_machine_speed speed;
    lh_server *server;
    lh_reconciler *reconciler;
    bool leaving, stopping;
} program;

/* ---- Leaving ---- */

static void close_handle(void *handle) {
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void on_server_closed(void *context) {
    program *p = context;
    p->server = NULL;
    close_handle(&p->terminate);
    close_handle(&p->interrupt);
    close_handle(&p->hang_up);
    close_handle(&p->switch_slowdown);
    close_handle(&p->resume);
    close_handle(&p->patience);
}

static void on_reconciler_closed(void *context) {
    program *p = context;
    p->reconciler = NULL;
    lh_server_close(p->server, on_server_closed, p);
}

static void stop(program *p) {
    if (!p->stopping) {
        p->stopping = true;
        lh_reconciler_close(p->reconciler, on_reconciler_closed, p);
    }
}

static void on_idle(void *context) {
    stop(context);
}

/* Other workers have taken over, or no gateway is there to send steps. */
static void on_released(void *context) {
    program *p = context;
    lh_server_drain(p->server, on_idle, p);
}

static void on_impatient(uv_timer_t *timer) {
    program *p = timer->data;
    lh_log(LH_LOG_WARN, "worker",
           "the drain timeout is over: leaving although nobody has taken over");
    stop(p);
}

static void on_signal(uv_signal_t *handle, int number) {
    program *p = handle->data;
    if (p->leaving) {
        lh_log(LH_LOG_WARN, "worker", "stopping at once signal=%d", number);
        _exit(128 + number);
    }
    p->leaving = true;
    lh_log(LH_LOG_INFO, "worker", "leaving signal=%d", number);
    uv_timer_start(&p->patience, on_impatient, (uint64_t)p->settings.drain_timeout * 1000, 0);
    lh_reconciler_leave(p->reconciler, on_released, p);
}

/* ---- Certificates ---- */

/* A few milliseconds in which the loop does nothing else: certificates are renewed by the month. */
static void on_hang_up(uv_signal_t *handle, int number) {
    program *p = handle->data;
    (void)number;
    if (p->tls)
        lh_program_options_reload_tls(&p->settings.program, "worker");
    else
        lh_log(LH_LOG_WARN, "worker",
               "SIGHUP reads certificates again, and there is no --tls-cert");
}

/* ---- Slowdown ---- */

static void set_slowdown(program *p) {
    double factor = p->settings.slowdown_factors[0];
    lh_slowdown_set(lh_thread_pool_slowdown(p->pool), factor);
    if (factor > 1)
        lh_log(LH_LOG_WARN, "worker", "this plays a slower machine factor=%g", factor);
}

static void on_switch(uv_signal_t *handle, int number) {
    program *p = handle->data;
    (void)number;
    double *factors = p->settings.slowdown_factors, factor = factors[0];
    factors[0] = factors[1];
    factors[1] = factor;
    set_slowdown(p);
}

/* ---- Stopped ---- */

/* (systemd sends it after SIGTERM, too.) */
static void on_resume(uv_signal_t *handle, int number) {
    program *p = handle->data;
    (void)number;
    lh_log(LH_LOG_DEBUG, "worker", "goes on after a stop: the next steps are not measured");
    if (p->server)
        lh_server_note_stopped(p->server);
}

/* ---- Start ---- */

static lh_status open_server(program *p, lh_error *error) {
    lh_server_options server = {.loop = &p->loop,
                                .name = p->settings.name,
                                .listen = p->settings.listen,
                                .listen_tls = p->settings.listen_tls,
                                .tls = p->tls,
                                .limits = lh_h2_limits_of_program(&p->settings.program),
                                .hop_connections = (uint32_t)p->settings.hop_connections,
                                .inbox_bytes = QUEUE_BYTES,
                                .outbox_bytes = QUEUE_BYTES};
    return lh_server_create(&server, &p->server, error);
}

static lh_status choose_addresses(program *p, lh_error *error) {
    lh_status status = lh_worker_settings_advertise(
        &p->settings, false, lh_server_port(p->server, false), p->plain, error);
    return status == LH_OK
               ? lh_worker_settings_advertise(&p->settings, true, lh_server_port(p->server, true),
                                              p->secure, error)
               : status;
}

static lh_status open_reconciler(program *p, lh_error *error) {
    lh_reconciler_options reconciler = {.loop = &p->loop,
                                        .server = p->server,
                                        .name = p->settings.name,
                                        .site = p->settings.site,
                                        .address_plain = p->plain,
                                        .address_tls = p->secure,
                                        .memory_bytes = (uint64_t)p->settings.memory_bytes,
                                        .speed = p->speed,
                                        .job = {.gateway_url = p->settings.gateway,
                                                .tls = p->tls,
                                                .cache = p->cache,
                                                .model_path = p->settings.model,
                                                .kernels = p->kernels,
                                                .pool = p->pool,
                                                .kv_bytes = (size_t)p->settings.kv_bytes}};
    return lh_reconciler_create(&reconciler, &p->reconciler, error);
}

static void catch_signals(program *p) {
    uv_timer_init(&p->loop, &p->patience);
    uv_signal_init(&p->loop, &p->terminate);
    uv_signal_init(&p->loop, &p->interrupt);
    uv_signal_init(&p->loop, &p->hang_up);
    uv_signal_init(&p->loop, &p->switch_slowdown);
    uv_signal_init(&p->loop, &p->resume);
    p->patience.data = p->terminate.data = p->interrupt.data = p->hang_up.data = p;
    p->switch_slowdown.data = p->resume.data = p;
    uv_signal_start(&p->terminate, on_signal, SIGTERM);
    uv_signal_start(&p->interrupt, on_signal, SIGINT);
    uv_signal_start(&p->hang_up, on_hang_up, SIGHUP);
    uv_signal_start(&p->switch_slowdown, on_switch, SIGUSR1);
    uv_signal_start(&p->resume, on_resume, SIGCONT);
    signal(SIGPIPE, SIG_IGN);
}

static lh_status measure_speed(program *p, lh_error *error) {
    const lh_compute compute = {p->kernels, p->pool, LH_ACTIVATION_Q8};
    lh_status status = lh_machine_speed_measure(&compute, &p->speed, error);
    if (status == LH_OK) {
        lh_log(LH_LOG_DEBUG, "worker", "speed prompt_us=%.2f token_us=%.2f", p->speed.prompt_us,
               p->speed.token_us);
    }
    return status;
}

static void log_start(const program *p) {
    const lh_worker_settings *s = &p->settings;
    lh_log(
        LH_LOG_INFO, "worker",
        "started version=%s name=%s site=%s isa=%s threads=%u plain=%s tls=%s gateway=%s cache=%s",
        LONGHAUL_VERSION, s->name, s->site, p->kernels->name, (uint32_t)s->threads,
        p->plain[0] != '\0' ? p->plain : "-", p->secure[0] != '\0' ? p->secure : "-", s->gateway,
        s->cache_dir);
}

/* On an open loop: until it has left. */
static lh_status serve(program *p, lh_error *error) {
    catch_signals(p);
    set_slowdown(p);
    lh_status status = measure_speed(p, error);
    if (status == LH_OK)
        status = open_server(p, error);
    if (status == LH_OK)
        status = choose_addresses(p, error);
    if (status == LH_OK)
        status = open_reconciler(p, error);
    if (status == LH_OK)
        log_start(p);
    else if (p->server)
        lh_server_close(p->server, on_server_closed, p);
    else
        on_server_closed(p);
    uv_run(&p->loop, UV_RUN_DEFAULT);
    uv_loop_close(&p->loop);
    return status;
}

static lh_status run(program *p, lh_error *error) {
    lh_status status = lh_program_options_open_tls(&p->settings.program, error);
    if (status == LH_OK)
        status = lh_kernels_select(p->settings.isa, &p->kernels, error);
    if (status == LH_OK)
        status = lh_weight_cache_open(p->settings.cache_dir, &p->cache, error);
    if (status == LH_OK)
        status = lh_thread_pool_create((uint32_t)p->settings.threads, &p->pool, error);
    if (status == LH_OK && uv_loop_init(&p->loop) != 0)
        status = lh_fail(error, LH_ERR_IO, "the event loop cannot be opened");
    if (status == LH_OK)
        status = serve(p, error);
    lh_thread_pool_destroy(p->pool);
    lh_weight_cache_close(p->cache);
    lh_program_options_close_tls(&p->settings.program);
    return status;
}

int main(int argc, char **argv) {
    static program p;
    lh_error error;
    lh_option_action action;
    lh_status status =
        lh_options_parse(&lh_worker_option_table, argc, argv, &p.settings, stdout, &action, &error);
    if (status == LH_OK && action == LH_OPTIONS_EXIT)
        return 0;
    if (status == LH_OK)
        status = lh_worker_settings_complete(&p.settings, &error);
    if (status != LH_OK) {
        fprintf(stderr, "longhaul-worker: %s\n", error.message);
        return 2;
    }
    lh_program_options_apply(&p.settings.program);
    p.tls = lh_program_options_have_tls(&p.settings.program) ? &p.settings.program.tls : NULL;
    if (run(&p, &error) != LH_OK) {
        fprintf(stderr, "longhaul-worker: %s\n", error.message);
        return 1;
    }
    lh_log(LH_LOG_INFO, "worker", "stopped");
    return 0;
}
