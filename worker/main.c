/* longhaul-worker: reads the flags, puts the parts together, runs the loop, leaves when it is told to. */
#include "common/address.h"
#include "common/log.h"
#include "common/options.h"
#include "worker/assignment.h"
#include "worker/control_json.h"
#include "worker/server.h"
#include "worker/thread_pool.h"
#include "worker/weight_cache.h"

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Shards that wait for the compute thread, and encoded ones that wait for the next hop: a few large steps of
 * each. */
#define QUEUE_BYTES ((size_t)64 << 20)
/* Steps in progress get so long when the worker is told to stop. */
#define LEAVE_MS 5000
/* In the clear, so for this machine alone. */
#define LISTEN_DEFAULT "127.0.0.1:7101"

typedef struct flags {
    const char *name, *site, *gateway, *listen, *listen_tls, *advertise, *advertise_tls;
    const char *tls_cert, *tls_key, *tls_ca, *isa, *cache_dir, *model, *log_level, *slowdown;
    bool insecure_plaintext;
    int64_t threads, memory_bytes, kv_bytes;
} flags;

#define FIELD(member) offsetof(flags, member)

static const lh_option options[] = {
    {"name", LH_OPTION_TEXT, FIELD(name), "", "NAME", 0, 0, NULL,
     "Name of this worker in the fleet, 1 to 63 of A-Z a-z 0-9 . _ - (default: the host's name and the "
     "process id)"},
    {"site", LH_OPTION_TEXT, FIELD(site), "default", "NAME", 0, 0, NULL,
     "Site that this worker is on: machines that share a fast network"},
    {"gateway", LH_OPTION_TEXT, FIELD(gateway), "http://127.0.0.1:7100", "URL", 0, 0, NULL,
     "The gateway's fleet port, http://HOST:PORT or https://HOST:PORT"},
    {"listen", LH_OPTION_TEXT, FIELD(listen), "", "HOST:PORT", 0, 0, NULL,
     "Where steps are taken without encryption, for hops inside a site; port 0 takes any. Where neither this "
     "nor --listen-tls is given: 127.0.0.1:7101"},
    {"listen-tls", LH_OPTION_TEXT, FIELD(listen_tls), "", "HOST:PORT", 0, 0, NULL,
     "Where steps are taken over TLS 1.3 with client certificates, for hops between sites"},
    {"advertise", LH_OPTION_TEXT, FIELD(advertise), "", "HOST:PORT", 0, 0, NULL,
     "How others reach --listen, where that is not its own address"},
    {"advertise-tls", LH_OPTION_TEXT, FIELD(advertise_tls), "", "HOST:PORT", 0, 0, NULL,
     "How others reach --listen-tls, where that is not its own address"},
    {"tls-cert", LH_OPTION_TEXT, FIELD(tls_cert), "", "FILE", 0, 0, NULL,
     "This worker's certificate, PEM; its common name is the worker's or its site's"},
    {"tls-key", LH_OPTION_TEXT, FIELD(tls_key), "", "FILE", 0, 0, NULL, "The key of the certificate, PEM"},
    {"tls-ca", LH_OPTION_TEXT, FIELD(tls_ca), "", "FILE", 0, 0, NULL,
     "The authority that has signed the certificates of the fleet, PEM"},
    {"insecure-plaintext", LH_OPTION_FLAG, FIELD(insecure_plaintext), "0", NULL, 0, 0, NULL,
     "Allow --listen and http:// on addresses that are not this machine's own"},
    {"threads", LH_OPTION_NUMBER, FIELD(threads), "0", "COUNT", 0, LH_THREADS_MAX, NULL,
     "Compute threads; 0 is one for each core"},
    {"isa", LH_OPTION_TEXT, FIELD(isa), "auto", "NAME", 0, 0, NULL,
     "Instruction set of the kernels: auto, reference, avx2 or avx512"},
    {"memory-bytes", LH_OPTION_BYTES, FIELD(memory_bytes), "0", "BYTES", 0, (int64_t)1 << 50, NULL,
     "Memory for weights, told to the planner; 0 is three quarters of the machine's"},
    {"kv-bytes", LH_OPTION_BYTES, FIELD(kv_bytes), "512M", "BYTES", 1 << 20, (int64_t)1 << 50, NULL,
     "Memory for the KV cache"},
    {"cache-dir", LH_OPTION_TEXT, FIELD(cache_dir), "", "FOLDER", 0, 0, NULL,
     "Where fetched weights are kept (default: $XDG_CACHE_HOME/longhaul or ~/.cache/longhaul)"},
    {"model", LH_OPTION_TEXT, FIELD(model), "", "FILE", 0, 0, NULL,
     "A local GGUF file, used instead of fetching where it is the model that is served"},
    {"log-level", LH_OPTION_CHOICE, FIELD(log_level), "info", "LEVEL", 0, 0, "error|warn|info|debug",
     "Least important log lines that are written"},
    {"slowdown", LH_OPTION_TEXT, FIELD(slowdown), "1", "F[,G]", 0, 0, NULL,
     "For tests alone: plays a machine that is F times slower, by sleeping after each operation; SIGUSR1 "
     "switches "
     "to G and back"},
};

static const lh_option_table table = {.program = "longhaul-worker",
                                      .summary =
                                          "Computes some layers of a language model in a chain of workers",
                                      .options = options,
                                      .count = sizeof(options) / sizeof(options[0])};

typedef struct program {
    flags flags;
    char name[LH_WORKER_NAME_BYTES], gateway[LH_CONTROL_URL_BYTES], cache_dir[1024];
    char plain[LH_ADDRESS_BYTES],
        secure[LH_ADDRESS_BYTES]; /* as others reach them; "": not at all */
    lh_tls_options tls;
    bool has_tls;
    uv_loop_t loop;
    uv_signal_t terminate, interrupt, switch_slowdown;
    double slowdown[2]; /* now, and after the next switch */
    uv_timer_t patience;
    lh_weight_cache *cache;
    lh_thread_pool *pool;
    const lh_kernels *kernels;
    lh_server *server;
    lh_assignment_keeper *keeper;
    bool leaving, idle, told, stopping;
} program;

/* ---- Flags -------------------------------------------------------------------------------------- */

static bool is_given(const char *text) {
    return text != NULL && text[0] != '\0';
}

static lh_status choose_names(program *p, lh_error *error) {
    if (is_given(p->flags.name)) {
        snprintf(p->name, sizeof(p->name), "%s", p->flags.name);
    } else {
        char host[48] = "worker";
        gethostname(host, sizeof(host) - 1);
        snprintf(p->name, sizeof(p->name), "%s-%ld", host, (long)getpid());
    }
    if (!lh_control_name_is_valid(p->name) ||
        (is_given(p->flags.name) && strlen(p->flags.name) >= sizeof(p->name))) {
        return lh_fail(error, LH_ERR_INVALID, "--name: '%.80s' is not 1 to 63 of A-Z a-z 0-9 . _ -",
                       is_given(p->flags.name) ? p->flags.name : p->name);
    }
    if (!lh_control_name_is_valid(p->flags.site)) {
        return lh_fail(error, LH_ERR_INVALID, "--site: '%.80s' is not 1 to 63 of A-Z a-z 0-9 . _ -",
                       p->flags.site);
    }
    return LH_OK;
}

static bool is_loopback(const char *host) {
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0;
}

static bool is_wildcard(const char *host) {
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0 || strcmp(host, "*") == 0;
}

/* "http://host:port", perhaps with a slash behind it. */
static lh_status choose_gateway(program *p, lh_error *error) {
    const char *url = p->flags.gateway;
    bool secure = strncmp(url, "https://", 8) == 0;
    if (!secure && strncmp(url, "http://", 7) != 0) {
        return lh_fail(error, LH_ERR_INVALID, "--gateway: '%.120s' begins with neither http:// nor https://",
                       url);
    }
    snprintf(p->gateway, sizeof(p->gateway), "%s", url);
    size_t length = strlen(p->gateway);
    if (length > 0 && p->gateway[length - 1] == '/') {
        p->gateway[length - 1] = '\0';
    }
    lh_address address;
    lh_error cause;
    if (lh_address_parse(p->gateway + (secure ? 8 : 7), &address, &cause) != LH_OK || address.port == 0) {
        return lh_fail(error, LH_ERR_INVALID, "--gateway: '%.120s' is not SCHEME://HOST:PORT", url);
    }
    if (secure && !p->has_tls) {
        return lh_fail(error, LH_ERR_INVALID, "--gateway: https:// needs --tls-cert, --tls-key and --tls-ca");
    }
    if (!secure && !is_loopback(address.host) && !p->flags.insecure_plaintext) {
        return lh_fail(
            error, LH_ERR_INVALID,
            "--gateway: %.120s is not on this machine and http:// is not encrypted: use https://, or "
            "--insecure-plaintext where the network is trusted",
            url);
    }
    return LH_OK;
}

static lh_status choose_tls(program *p, lh_error *error) {
    p->tls = (lh_tls_options){
        .certificate_file = p->flags.tls_cert, .key_file = p->flags.tls_key, .ca_file = p->flags.tls_ca};
    int given = is_given(p->flags.tls_cert) + is_given(p->flags.tls_key) + is_given(p->flags.tls_ca);
    p->has_tls = given == 3;
    if (given != 0 && given != 3) {
        return lh_fail(error, LH_ERR_INVALID, "--tls-cert, --tls-key and --tls-ca go together");
    }
    if (is_given(p->flags.listen_tls) && !p->has_tls) {
        return lh_fail(error, LH_ERR_INVALID, "--listen-tls needs --tls-cert, --tls-key and --tls-ca");
    }
    return LH_OK;
}

static lh_status check_listeners(program *p, lh_error *error) {
    lh_address address;
    if (!is_given(p->flags.listen) && is_given(p->flags.listen_tls)) {
        return LH_OK;
    }
    if (!is_given(p->flags.listen)) {
        p->flags.listen = LISTEN_DEFAULT;
    }
    lh_status status = lh_address_parse(p->flags.listen, &address, error);
    if (status == LH_OK && !is_loopback(address.host) && !p->flags.insecure_plaintext) {
        status =
            lh_fail(error, LH_ERR_INVALID,
                    "--listen: %.120s can be reached from outside and is not encrypted: use --listen-tls, or "
                    "--insecure-plaintext where the network is trusted",
                    p->flags.listen);
    }
    return status;
}

/* How others reach a listener: as they are told, or at its own host and the port that it has. */
static lh_status choose_address(const char *flag, const char *listen, const char *advertised, int port,
                                char text[LH_ADDRESS_BYTES], lh_error *error) {
    lh_address address;
    text[0] = '\0';
    if (!is_given(listen)) {
        return LH_OK;
    }
    lh_status status = lh_address_parse(is_given(advertised) ? advertised : listen, &address, error);
    if (status != LH_OK) {
        return status;
    }
    if (is_wildcard(address.host)) {
        return lh_fail(error, LH_ERR_INVALID,
                       "%s: nobody can connect to '%.80s': say with it how others reach this machine", flag,
                       address.host);
    }
    bool bracketed = strchr(address.host, ':') != NULL;
    snprintf(text, LH_ADDRESS_BYTES, "%s%s%s:%d", bracketed ? "[" : "", address.host,
             bracketed ? "]" : "", is_given(advertised) && address.port != 0 ? address.port : port);
    return LH_OK;
}

static lh_status choose_cache_dir(program *p, lh_error *error) {
    const char *home = getenv("HOME"), *xdg = getenv("XDG_CACHE_HOME");
    int length;
    if (is_given(p->flags.cache_dir)) {
        length = snprintf(p->cache_dir, sizeof(p->cache_dir), "%s", p->flags.cache_dir);
    } else if (is_given(xdg)) {
        length = snprintf(p->cache_dir, sizeof(p->cache_dir), "%s/longhaul", xdg);
    } else if (is_given(home)) {
        length = snprintf(p->cache_dir, sizeof(p->cache_dir), "%s/.cache/longhaul", home);
    } else {
        return lh_fail(error, LH_ERR_INVALID, "--cache-dir is needed, since HOME is not set");
    }
    return length > 0 && (size_t)length < sizeof(p->cache_dir)
               ? LH_OK
               : lh_fail(error, LH_ERR_INVALID, "--cache-dir: the path is too long");
}

static uint32_t core_count(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (uint32_t)count : 1;
}

static uint64_t memory_share(void) {
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes / 4 * 3 : (uint64_t)1 << 30;
}

static lh_status check_flags(program *p, lh_error *error) {
    lh_log_level level = LH_LOG_INFO;
    lh_log_level_parse(p->flags.log_level, &level);
    lh_log_set_level(level);
    lh_status status = choose_names(p, error);
    status = status == LH_OK ? choose_tls(p, error) : status;
    status = status == LH_OK ? choose_gateway(p, error) : status;
    status = status == LH_OK ? check_listeners(p, error) : status;
    status = status == LH_OK ? lh_slowdown_parse(p->flags.slowdown, p->slowdown, error) : status;
    return status == LH_OK ? choose_cache_dir(p, error) : status;
}

/* ---- Leaving ------------------------------------------------------------------------------------ */

static void close_handle(void *handle) {
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

static void on_server_closed(void *context) {
    program *p = context;
    p->server = NULL;
    close_handle(&p->terminate);
    close_handle(&p->interrupt);
    close_handle(&p->switch_slowdown);
    close_handle(&p->patience);
}

static void on_keeper_closed(void *context) {
    program *p = context;
    p->keeper = NULL;
    lh_server_close(p->server, on_server_closed, p);
}

static void stop(program *p) {
    if (!p->stopping) {
        p->stopping = true;
        lh_assignment_close(p->keeper, on_keeper_closed, p);
    }
}

static void stop_when_idle_and_told(program *p) {
    if (p->idle && p->told) {
        stop(p);
    }
}

static void on_idle(void *context) {
    program *p = context;
    p->idle = true;
    stop_when_idle_and_told(p);
}

static void on_told(void *context) {
    program *p = context;
    p->told = true;
    stop_when_idle_and_told(p);
}

static void on_impatient(uv_timer_t *timer) {
    program *p = timer->data;
    lh_log(LH_LOG_WARN, "worker", "stopping with steps in progress");
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
    uv_timer_start(&p->patience, on_impatient, LEAVE_MS, 0);
    lh_assignment_leave(p->keeper, on_told, p);
    lh_server_drain(p->server, on_idle, p);
}

/* ---- Slowdown ----------------------------------------------------------------------------------- */

static void set_slowdown(program *p) {
    lh_slowdown_set(lh_thread_pool_slowdown(p->pool), p->slowdown[0]);
    if (p->slowdown[0] > 1) {
        lh_log(LH_LOG_WARN, "worker", "this plays a slower machine factor=%g", p->slowdown[0]);
    }
}

static void on_switch(uv_signal_t *handle, int number) {
    program *p = handle->data;
    (void)number;
    double factor = p->slowdown[0];
    p->slowdown[0] = p->slowdown[1];
    p->slowdown[1] = factor;
    set_slowdown(p);
}

/* ---- Start -------------------------------------------------------------------------------------- */

static lh_status open_server(program *p, lh_error *error) {
    lh_server_options server = {.loop = &p->loop,
                                .name = p->name,
                                .listen = p->flags.listen,
                                .listen_tls = p->flags.listen_tls,
                                .tls = p->has_tls ? &p->tls : NULL,
                                .limits = lh_h2_default_limits(),
                                .inbox_bytes = QUEUE_BYTES,
                                .outbox_bytes = QUEUE_BYTES};
    return lh_server_create(&server, &p->server, error);
}

static lh_status choose_addresses(program *p, lh_error *error) {
    lh_status status = choose_address("--advertise", p->flags.listen, p->flags.advertise,
                                      lh_server_port(p->server, false), p->plain, error);
    return status == LH_OK ? choose_address("--advertise-tls", p->flags.listen_tls, p->flags.advertise_tls,
                                            lh_server_port(p->server, true), p->secure, error)
                           : status;
}

static lh_status open_keeper(program *p, lh_error *error) {
    lh_assignment_options keeper = {
        .loop = &p->loop,
        .server = p->server,
        .name = p->name,
        .site = p->flags.site,
        .address_plain = is_given(p->plain) ? p->plain : NULL,
        .address_tls = is_given(p->secure) ? p->secure : NULL,
        .gateway_url = p->gateway,
        .memory_bytes = p->flags.memory_bytes > 0 ? (uint64_t)p->flags.memory_bytes : memory_share(),
        .job = {.tls = p->has_tls ? &p->tls : NULL,
                .cache = p->cache,
                .model_path = is_given(p->flags.model) ? p->flags.model : NULL,
                .kernels = p->kernels,
                .pool = p->pool,
                .kv_bytes = (size_t)p->flags.kv_bytes}};
    return lh_assignment_create(&keeper, &p->keeper, error);
}

static void catch_signals(program *p) {
    uv_timer_init(&p->loop, &p->patience);
    uv_signal_init(&p->loop, &p->terminate);
    uv_signal_init(&p->loop, &p->interrupt);
    uv_signal_init(&p->loop, &p->switch_slowdown);
    p->patience.data = p->terminate.data = p->interrupt.data = p->switch_slowdown.data = p;
    uv_signal_start(&p->terminate, on_signal, SIGTERM);
    uv_signal_start(&p->interrupt, on_signal, SIGINT);
    uv_signal_start(&p->switch_slowdown, on_switch, SIGUSR1);
    signal(SIGPIPE, SIG_IGN);
}

/* Opens everything and runs until it has left. */
static lh_status run(program *p, lh_error *error) {
    uint32_t threads = p->flags.threads > 0 ? (uint32_t)p->flags.threads : core_count();
    lh_status status = lh_kernels_select(p->flags.isa, &p->kernels, error);
    if (status != LH_OK) {
        return status;
    }
    status = lh_weight_cache_open(p->cache_dir, &p->cache, error);
    if (status != LH_OK) {
        return status;
    }
    status = lh_thread_pool_create(threads, &p->pool, error);
    if (status != LH_OK) {
        goto fail_after_cache;
    }
    if (uv_loop_init(&p->loop) != 0) {
        status = lh_fail(error, LH_ERR_IO, "the event loop cannot be opened");
        goto fail_after_pool;
    }
    catch_signals(p);
    set_slowdown(p);
    status = open_server(p, error);
    if (status != LH_OK) {
        on_server_closed(p);
        goto fail_after_loop;
    }
    status = choose_addresses(p, error);
    if (status == LH_OK) {
        status = open_keeper(p, error);
    }
    if (status != LH_OK) {
        lh_server_close(p->server, on_server_closed, p);
        goto fail_after_loop;
    }
    lh_log(LH_LOG_INFO, "worker",
           "started version=%s name=%s site=%s isa=%s threads=%u plain=%s tls=%s gateway=%s cache=%s",
           LONGHAUL_VERSION, p->name, p->flags.site, p->kernels->name, threads,
           is_given(p->plain) ? p->plain : "-", is_given(p->secure) ? p->secure : "-", p->gateway,
           p->cache_dir);

fail_after_loop:
    uv_run(&p->loop, UV_RUN_DEFAULT);
    uv_loop_close(&p->loop);
fail_after_pool:
    lh_thread_pool_destroy(p->pool);
fail_after_cache:
    lh_weight_cache_close(p->cache);
    return status;
}

int main(int argc, char **argv) {
    static program p;
    lh_error error;
    lh_option_action action;
    if (lh_options_parse(&table, argc, argv, &p.flags, stdout, &action, &error) != LH_OK) {
        fprintf(stderr, "longhaul-worker: %s\n", error.message);
        return 2;
    }
    if (action == LH_OPTIONS_EXIT) {
        return 0;
    }
    if (check_flags(&p, &error) != LH_OK || run(&p, &error) != LH_OK) {
        fprintf(stderr, "longhaul-worker: %s\n", error.message);
        return 1;
    }
    lh_log(LH_LOG_INFO, "worker", "stopped");
    return 0;
}
