/* longhaul-worker: reads the flags, puts the parts together, runs the loop, and leaves when it is
 * told to. */
#include "common/base/clock.h"
#include "common/base/commands.h"
#include "common/base/log.h"
#include "common/base/memory_gauge.h"
#include "common/base/option_variables.h"
#include "common/base/stray_signals.h"
#include "common/config/config.h"
#include "common/gguf/gguf_file.h"
#include "common/net/listener.h"
#include "common/net/service_manager.h"
#include "common/sandbox/sandbox.h"
#include "worker/compute/thread_pool.h"
#include "worker/control/machine_speed.h"
#include "worker/control/reconciler.h"
#include "worker/defaults.h"
#include "worker/device_choice.h"
#include "worker/fleet_entry.h"
#include "worker/serve/server.h"
#include "worker/weights/weight_cache.h"
#include "worker/worker_metrics.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Shards that wait for the compute thread, and encoded ones that wait for the next hop: a few large
 * steps of each. */
#define QUEUE_BYTES ((size_t)64 << 20)

typedef struct program {
    lh_worker_settings settings;
    const lh_tls_options *tls; /* NULL: none */
    /* as others reach them; "": not at all */
    char plain[LH_ADDRESS_BYTES], secure[LH_ADDRESS_BYTES], members[LH_ADDRESS_BYTES];
    int member_listener; /* -1: none */
    lh_port_reservations reserved;
    uv_loop_t loop;
    uv_signal_t terminate, interrupt, hang_up, switch_slowdown, resume;
    uv_timer_t patience, alive;
    lh_service_manager manager;
    lh_weight_cache *cache;
    lh_weight_inventory *inventory;
    lh_thread_pool *pool;
    const lh_kernels *kernels;
    lh_device_choice device;
    lh_machine_speed speed;
    lh_host_facts host;
    lh_memory_gauge *memory; /* opened before the sandbox */
    lh_fleet_member *member; /* NULL: of no fleet with a CA of its own */
    lh_server *server;
    lh_reconciler *reconciler;
    lh_worker_metrics *metrics;
    bool leaving, stopping;
    lh_status begun; /* how beginning to serve went */
    lh_error *error;
} program;

/* ---- Leaving ---- */

static void close_handle(void *handle) {
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void on_member_closed(void *context) {
    program *p = context;
    p->member = NULL;
}

static void on_server_closed(void *context) {
    program *p = context;
    p->server = NULL;
    lh_worker_metrics_close(p->metrics);
    p->metrics = NULL;
    if (p->member)
        lh_fleet_member_close(p->member, on_member_closed, p);
    close_handle(&p->terminate);
    close_handle(&p->interrupt);
    close_handle(&p->hang_up);
    close_handle(&p->switch_slowdown);
    close_handle(&p->resume);
    close_handle(&p->patience);
    close_handle(&p->alive);
}

static void on_reconciler_closed(void *context) {
    program *p = context;
    p->reconciler = NULL;
    lh_server_close(p->server, on_server_closed, p);
}

static void stop(program *p) {
    if (p->stopping)
        return;
    p->stopping = true;
    if (p->reconciler)
        lh_reconciler_close(p->reconciler, on_reconciler_closed, p);
    else
        lh_server_close(p->server, on_server_closed, p);
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
        lh_log_flush();
        _exit(128 + number);
    }
    p->leaving = true;
    lh_log(LH_LOG_INFO, "worker", "leaving signal=%d", number);
    lh_service_manager_stopping(&p->manager);
    if (!p->reconciler) {
        stop(p);
        return;
    }
    uv_timer_start(&p->patience, on_impatient, (uint64_t)p->settings.drain_timeout * 1000, 0);
    lh_reconciler_leave(p->reconciler, on_released, p);
}

/* ---- Certificates ---- */

/* A few milliseconds in which the loop does nothing else: certificates are renewed by the month. */
static void on_hang_up(uv_signal_t *handle, int number) {
    program *p = handle->data;
    (void)number;
    lh_service_manager_reloading(&p->manager, lh_clock_us());
    if (p->tls)
        lh_program_options_reload_tls(&p->settings.program, "worker");
    else
        lh_log(LH_LOG_WARN, "worker",
               "SIGHUP reads certificates again, and there are none: neither by --tls-cert nor by "
               "joining a fleet");
    lh_service_manager_ready(&p->manager);
}

/* ---- The service manager ---- */

/* For `systemctl status`; and whoever hears nothing knows that the loop hangs. */
static void on_alive(uv_timer_t *timer) {
    program *p = timer->data;
    char status[LH_SERVICE_STATUS_BYTES] = "Ends";
    if (p->leaving)
        snprintf(status, sizeof status, "Leaves as soon as others have taken over");
    else if (p->reconciler)
        lh_reconciler_describe(p->reconciler, status, sizeof status);
    lh_service_manager_tell(&p->manager, lh_clock_us(), status);
}

static void report_ready(program *p) {
    uint32_t interval_ms = lh_service_manager_interval_ms(&p->manager);
    lh_service_manager_ready(&p->manager);
    if (interval_ms)
        uv_timer_start(&p->alive, on_alive, 0, interval_ms);
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
                                .relays = p->settings.relays,
                                .hop_connections = (uint32_t)p->settings.hop_connections,
                                .inbox_bytes = QUEUE_BYTES,
                                .outbox_bytes = QUEUE_BYTES};
    return lh_server_create(&server, &p->server, error);
}

static void read_figures(void *context, lh_worker_figures *figures) {
    const program *p = context;
    if (p->reconciler) {
        lh_reconciler_read_report(p->reconciler, &figures->report);
        figures->gathers = lh_reconciler_count_gathers(p->reconciler);
    }
    if (p->server)
        lh_server_read_status(p->server, &figures->server);
}

static lh_status open_metrics(program *p, lh_error *error) {
    const lh_worker_metrics_options options = {.loop = &p->loop,
                                               .listen = p->settings.metrics_listen,
                                               .name = p->settings.name,
                                               .read = read_figures,
                                               .context = p};
    return lh_worker_metrics_open(&options, &p->metrics, error);
}

static lh_status open_member_listener(program *p, lh_error *error) {
    uint16_t port;
    lh_error cause;
    if (!p->settings.listen_members[0])
        return LH_OK;
    if (p->device.is_gpu) {
        lh_log(LH_LOG_WARN, "worker", "--listen-members: a GPU computes each stage by itself");
        return LH_OK;
    }
    lh_status status =
        lh_listener_open(p->settings.listen_members, &p->member_listener, &port, &cause);
    return status == LH_OK ? lh_worker_settings_advertise(&p->settings, LH_WORKER_LISTENER_MEMBERS,
                                                          port, p->members, error)
                           : lh_fail(error, status, "--listen-members: %.250s", cause.message);
}

static lh_status choose_addresses(program *p, lh_error *error) {
    lh_status status = lh_worker_settings_advertise(
        &p->settings, LH_WORKER_LISTENER_PLAIN, lh_server_port(p->server, false), p->plain, error);
    return status == LH_OK
               ? lh_worker_settings_advertise(&p->settings, LH_WORKER_LISTENER_TLS,
                                              lh_server_port(p->server, true), p->secure, error)
               : status;
}

static void on_trust(void *context, const char *digest) {
    program *p = context;
    lh_fleet_member_hear_trust(p->member, digest);
}

static lh_status open_reconciler(program *p, lh_error *error) {
    lh_reconciler_options reconciler = {.loop = &p->loop,
                                        .server = p->server,
                                        .name = p->settings.name,
                                        .site = p->settings.site,
                                        .address_plain = p->plain,
                                        .address_tls = p->secure,
                                        .address_members = p->members,
                                        .relays = p->settings.relays,
                                        .is_behind_relay = p->settings.is_behind_relay,
                                        .memory_bytes = (uint64_t)p->settings.memory_bytes,
                                        .speed = p->speed,
                                        .host = p->host,
                                        .cache_dir = p->settings.cache_dir,
                                        .trust =
                                            p->member ? lh_fleet_member_trust(p->member) : NULL,
                                        .on_trust = p->member ? on_trust : NULL,
                                        .trust_context = p,
                                        .job = {.gateway_url = p->settings.gateway,
                                                .tls = p->tls,
                                                .cache = p->cache,
                                                .inventory = p->inventory,
                                                .model_path = p->settings.model,
                                                .kernels = p->kernels,
                                                .pool = p->pool,
                                                .device = lh_device_choice_device(&p->device),
                                                .kv_bytes = (size_t)p->settings.kv_bytes,
                                                .member_listener = p->member_listener,
                                                .memory = p->memory}};
    return lh_reconciler_create(&reconciler, &p->reconciler, error);
}

static void catch_signals(program *p) {
    uv_timer_init(&p->loop, &p->patience);
    uv_timer_init(&p->loop, &p->alive);
    uv_signal_init(&p->loop, &p->terminate);
    uv_signal_init(&p->loop, &p->interrupt);
    uv_signal_init(&p->loop, &p->hang_up);
    uv_signal_init(&p->loop, &p->switch_slowdown);
    uv_signal_init(&p->loop, &p->resume);
    p->patience.data = p->alive.data = p->terminate.data = p->interrupt.data = p->hang_up.data = p;
    p->switch_slowdown.data = p->resume.data = p;
    uv_signal_start(&p->terminate, on_signal, SIGTERM);
    uv_signal_start(&p->interrupt, on_signal, SIGINT);
    uv_signal_start(&p->hang_up, on_hang_up, SIGHUP);
    uv_signal_start(&p->switch_slowdown, on_switch, SIGUSR1);
    uv_signal_start(&p->resume, on_resume, SIGCONT);
}

static lh_status measure_speed(program *p, lh_error *error) {
    lh_compute compute = lh_cpu_compute(p->kernels, p->pool, LH_ACTIVATION_Q8);
    const lh_device *device = lh_device_choice_device(&p->device);
    const lh_device_work products = {.rows = 1};
    lh_status status = device ? lh_device_open(device, &products, &compute, error) : LH_OK;
    if (status == LH_OK)
        status = lh_machine_speed_measure(&compute, &p->speed, error);
    if (device)
        device->close(compute.queue);
    if (status == LH_OK) {
        lh_log(LH_LOG_DEBUG, "worker", "speed prompt_us=%.2f token_us=%.2f", p->speed.prompt_us,
               p->speed.token_us);
    }
    return status;
}

static void log_start(const program *p) {
    const lh_worker_settings *s = &p->settings;
    lh_log(LH_LOG_INFO, "worker",
           "started version=%s name=%s site=%s device=\"%s\" isa=%s threads=%u plain=%s tls=%s "
           "members=%s metrics_port=%u gateway=%s cache=%s",
           LONGHAUL_VERSION, s->name, s->site, p->device.text, p->kernels->name,
           (uint32_t)s->threads, p->plain, p->secure, p->members,
           lh_worker_metrics_port(p->metrics), s->gateway, s->cache_dir);
}

static lh_status check_model(program *p, lh_error *error) {
    lh_gguf_file *file = NULL;
    lh_status status =
        p->settings.model[0] ? lh_gguf_file_open(p->settings.model, &file, error) : LH_OK;
    lh_gguf_file_close(file);
    return status;
}

/* Said at once, also by a worker that is given no stage for a long time. */
static void tell_model(program *p) {
    lh_error error;
    if (check_model(p, &error) != LH_OK)
        lh_log(LH_LOG_WARN, "worker",
               "the local model file cannot be used: weights will be fetched until this is started "
               "again with a whole one path=\"%s\" reason=\"%s\"",
               p->settings.model, error.message);
}

/* The port is open, and others can be told. */
static lh_status begin(program *p, lh_error *error) {
    lh_status status = LH_OK;
    if (p->member)
        status = lh_fleet_member_start(p->member, &p->loop, &p->settings.program, error);
    if (status == LH_OK)
        status = open_reconciler(p, error);
    if (status == LH_OK) {
        log_start(p);
        tell_model(p);
        report_ready(p);
    }
    return status;
}

static void on_reach_tested(void *context, const char *address) {
    program *p = context;
    if (p->stopping)
        return;
    snprintf(p->secure, sizeof p->secure, "%s", address);
    p->begun = begin(p, p->error);
    if (p->begun != LH_OK)
        stop(p);
}

/* A machine that has just joined is told at once where others do not reach it, and not by their
 * first request. */
static lh_status begin_or_test(program *p, lh_error *error) {
    p->error = error;
    bool is_new = p->member && p->settings.join_url[0];
    if (!is_new || p->secure[0] == '\0' || p->settings.is_behind_relay)
        return begin(p, error);
    bool may_try_others = p->settings.advertise_tls == p->settings.own_advertise_tls;
    lh_fleet_member_test_reach(p->member, &p->loop, &p->settings.program, p->secure, may_try_others,
                               on_reach_tested, p);
    return LH_OK;
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
        status = open_member_listener(p, error);
    if (status == LH_OK)
        status = open_metrics(p, error);
    lh_listener_release(&p->reserved);
    if (status == LH_OK)
        status = begin_or_test(p, error);
    if (status != LH_OK && p->server)
        lh_server_close(p->server, on_server_closed, p);
    else if (status != LH_OK)
        on_server_closed(p);
    uv_run(&p->loop, UV_RUN_DEFAULT);
    uv_loop_close(&p->loop);
    return status == LH_OK ? p->begun : status;
}

/* Who this worker is, where it has a certificate. */
static lh_status open_identity(program *p, lh_error *error) {
    lh_program_options *options = &p->settings.program;
    lh_status status = lh_program_options_open_tls(options, LH_TLS_WORKER, error);
    if (status != LH_OK || !p->tls)
        return status;
    const lh_tls_identity identity = lh_tls_credentials_identity(options->tls.credentials);
    return lh_worker_settings_take_identity(&p->settings, &identity, error);
}

/* The cache folder is there by now. */
static lh_status enter_sandbox(program *p, lh_error *error) {
    lh_sandbox_rules rules = {0};
    lh_program_options_read_host(&p->settings.program, &p->host);
    p->memory = lh_memory_gauge_open("/proc", "/sys/fs/cgroup");
    lh_worker_settings_allow(&p->settings, &rules);
    if (p->device.is_gpu && !rules.is_off) {
        rules.is_off = true;
        rules.off_reason = "a GPU's driver opens files and sockets of its own while it works";
    }
    lh_status status = lh_sandbox_enter(&rules, "worker", error);
    lh_host_facts_set(&p->host, LH_HOST_LANDLOCK, rules.has_landlock);
    lh_host_facts_set(&p->host, LH_HOST_SECCOMP, rules.has_seccomp);
    lh_sandbox_rules_reset(&rules);
    return status;
}

/* Weights go where the stages compute. */
static lh_status choose_device(program *p, lh_error *error) {
    lh_worker_settings *s = &p->settings;
    uint64_t free_bytes = 0;
    lh_status status =
        lh_device_choice_make(s->device, s->cuda_library, s->cublas_library, &p->device, error);
    if (status != LH_OK || !p->device.is_gpu || !s->chooses_memory)
        return status;
    status = lh_cuda_device_memory(&p->device.gpu, &free_bytes, error);
    s->memory_bytes = lh_default_memory_of((int64_t)p->device.gpu.facts.memory_bytes,
                                           (int64_t)free_bytes, s->kv_bytes);
    return status;
}

/* While it may still be seen who has a port. */
static lh_status reserve_ports(program *p, lh_error *error) {
    const lh_worker_settings *s = &p->settings;
    const struct {
        const char *flag, *address;
    } ports[] = {{"listen", s->listen},
                 {"listen-tls", s->listen_tls},
                 {"listen-members", s->listen_members},
                 {"metrics-listen", lh_operator_port_address(s->metrics_listen, "")}};
    lh_status status = LH_OK;
    for (size_t i = 0; status == LH_OK && i < sizeof ports / sizeof ports[0]; i++)
        status = lh_listener_reserve(ports[i].flag, ports[i].address, LH_PORT_PATIENCE_MS,
                                     &p->reserved, error);
    return status;
}

static lh_status run(program *p, lh_error *error) {
    lh_service_manager_open(&p->manager, "worker");
    lh_status status = reserve_ports(p, error);
    if (status == LH_OK)
        status = lh_weight_cache_open(p->settings.cache_dir, &p->cache, error);
    if (status == LH_OK)
        status = choose_device(p, error);
    if (status == LH_OK)
        status = enter_sandbox(p, error);
    if (status == LH_OK)
        status = lh_log_start_thread(error);
    if (status == LH_OK)
        status = lh_weight_inventory_create(p->settings.cache_dir, p->settings.model, &p->inventory,
                                            error);
    if (status == LH_OK)
        status = open_identity(p, error);
    if (status == LH_OK)
        status = lh_kernels_select(p->settings.isa, &p->kernels, error);
    if (status == LH_OK)
        status = lh_thread_pool_create((uint32_t)p->settings.threads, &p->pool, error);
    if (status == LH_OK && uv_loop_init(&p->loop) != 0)
        status = lh_fail(error, LH_ERR_IO, "the event loop cannot be opened");
    if (status == LH_OK)
        status = serve(p, error);
    lh_listener_release(&p->reserved);
    lh_thread_pool_destroy(p->pool);
    lh_memory_gauge_close(p->memory);
    lh_weight_inventory_destroy(p->inventory);
    lh_weight_cache_close(p->cache);
    if (p->member_listener >= 0)
        close(p->member_listener);
    lh_program_options_close_tls(&p->settings.program);
    lh_service_manager_close(&p->manager);
    return status;
}

static int start(program *p, bool is_joining, const lh_config *config) {
    lh_error error;
    lh_status status = lh_fleet_entry_open(&p->settings, is_joining, &p->member, &error);
    if (status == LH_OK)
        status = lh_worker_settings_complete(&p->settings, &error);
    if (status != LH_OK) {
        lh_config_locate(config, NULL, &error);
        fprintf(stderr, "longhaul-worker: %s\n", error.message);
        return status == LH_ERR_INVALID ? 2 : 1;
    }
    lh_program_options_apply(&p->settings.program);
    if (p->settings.config.file[0])
        lh_log(LH_LOG_INFO, "worker", "configuration read file=%s", p->settings.config.file);
    lh_option_variables_tell(&lh_worker_option_table, "worker");
    p->tls = lh_program_options_have_tls(&p->settings.program) ? &p->settings.program.tls : NULL;
    if (run(p, &error) != LH_OK) {
        lh_log_failure("longhaul-worker", error.message);
        return 1;
    }
    lh_log(LH_LOG_INFO, "worker", "stopped");
    return 0;
}

/* ---- --check-config ---- */

/* Where the machine has joined before, with what it got then, if no worker serves with that now;
 * the token of one that joins is good once, and stays unused. */
static lh_status check_settings(program *p, lh_error *error) {
    lh_status status = lh_fleet_entry_look(&p->settings, &p->member, error);
    if (status == LH_ERR_BUSY) {
        puts("longhaul-worker: a worker of this state folder runs: what depends on its certificate "
             "is not checked");
        return LH_OK;
    }
    return status == LH_OK ? lh_worker_settings_complete(&p->settings, error) : status;
}

static lh_status check_isa(program *p, lh_error *error) {
    return lh_kernels_select(p->settings.isa, &p->kernels, error);
}

static lh_status check_tls(program *p, lh_error *error) {
    p->tls = lh_program_options_have_tls(&p->settings.program) ? &p->settings.program.tls : NULL;
    lh_status status = open_identity(p, error);
    lh_program_options_close_tls(&p->settings.program);
    return status;
}

/* The files that the options name are read as a start would; nothing is written, fetched or
 * listened at. All that is wrong is said, not the first alone. */
static int check(program *p, const lh_config *config) {
    static const struct {
        const char *option; /* where the message names none */
        lh_status (*check)(program *p, lh_error *error);
    } parts[] = {{NULL, check_settings},
                 {"isa", check_isa},
                 {"tls-cert", check_tls},
                 {"model", check_model}};
    int faults = 0;
    lh_log_set_level(LH_LOG_WARN);
    lh_option_variables_tell(&lh_worker_option_table, "worker");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        lh_error error;
        if (parts[i].check(p, &error) == LH_OK)
            continue;
        lh_config_locate(config, parts[i].option, &error);
        fprintf(stderr, "%s\n", error.message);
        faults++;
    }
    if (p->member)
        lh_fleet_member_close(p->member, on_member_closed, p);
    if (faults == 0)
        puts("longhaul-worker: nothing is wrong with the configuration");
    return faults ? 2 : 0;
}

int main(int argc, char **argv) {
    static program p = {.member_listener = -1};
    lh_error error;
    lh_option_action action;
    int code = 0;
    if (lh_commands_run(&lh_worker_option_table, argc, argv, stdout, stderr, &code))
        return code;
    bool is_joining = lh_worker_settings_take_join(&p.settings, &argc, &argv);
    lh_config *config = NULL;
    lh_status status =
        lh_config_parse(is_joining ? &lh_worker_join_option_table : &lh_worker_option_table, argc,
                        argv, &p.settings, stdout, stderr, &config, &action, &error);
    if (status != LH_OK) {
        fprintf(stderr, "longhaul-worker: %s\n", error.message);
        code = status == LH_ERR_INVALID ? 2 : 1;
    } else if (action == LH_OPTIONS_RUN) {
        signal(SIGPIPE, SIG_IGN);
        lh_stray_signals_ignore();
        code = p.settings.config.check ? check(&p, config) : start(&p, is_joining, config);
    }
    lh_config_destroy(config);
    return code;
}
