/* The worker's flags. */
#include "worker/worker_settings.h"

#include "common/net/address.h"
#include "worker/compute/slowdown.h"
#include "worker/compute/thread_pool.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In the clear, so for this machine alone. */
#define LISTEN_DEFAULT "127.0.0.1:7101"

#define AT(field) offsetof(lh_worker_settings, field)

static const lh_option options[] = {
    {"name", LH_OPTION_TEXT, AT(name), "", "NAME", 0, 0, NULL,
     "name of this worker in the fleet, 1 to 63 of A-Z a-z 0-9 . _ -; default: the host's name and "
     "the process id"},
    {"site", LH_OPTION_TEXT, AT(site), "default", "NAME", 0, 0, NULL,
     "site that this worker is on: machines that share a fast network"},
    {"gateway", LH_OPTION_TEXT, AT(gateway), "http://127.0.0.1:7100", "URL", 0, 0, NULL,
     "the gateway's fleet port, http://HOST:PORT or https://HOST:PORT"},
    {"listen", LH_OPTION_TEXT, AT(listen), "", "HOST:PORT", 0, 0, NULL,
     "where steps are taken without encryption, for hops inside a site; port 0 takes any; "
     "default: " LISTEN_DEFAULT " where there is no --listen-tls"},
    {"listen-tls", LH_OPTION_TEXT, AT(listen_tls), "", "HOST:PORT", 0, 0, NULL,
     "where steps are taken over TLS 1.3 with client certificates, for hops between sites"},
    {"advertise", LH_OPTION_TEXT, AT(advertise), "", "HOST:PORT", 0, 0, NULL,
     "how others reach --listen, where that is not its own address"},
    {"advertise-tls", LH_OPTION_TEXT, AT(advertise_tls), "", "HOST:PORT", 0, 0, NULL,
     "how others reach --listen-tls, where that is not its own address"},
    LH_OPTION_TLS_CERT(
        lh_worker_settings, program,
        "PEM certificate of this worker; its common name is the worker's or its site's"),
    LH_OPTION_TLS_KEY(lh_worker_settings, program),
    LH_OPTION_TLS_CA(lh_worker_settings, program),
    LH_OPTION_INSECURE_PLAINTEXT(
        lh_worker_settings, program,
        "allow --listen and http:// on addresses that are not this machine's own"),
    {"threads", LH_OPTION_NUMBER, AT(threads), "0", "N", 0, LH_THREADS_MAX, NULL,
     "compute threads; 0: one for each core"},
    {"isa", LH_OPTION_TEXT, AT(isa), "auto", "NAME", 0, 0, NULL,
     "instruction set of the kernels: auto, reference, avx2, avx512, neon or dotprod"},
    {"memory-bytes", LH_OPTION_BYTES, AT(memory_bytes), "0", "BYTES", 0, (int64_t)1 << 50, NULL,
     "memory for weights, told to the planner; 0: three quarters of the machine's"},
    {"kv-bytes", LH_OPTION_BYTES, AT(kv_bytes), "512M", "BYTES", 1 << 20, (int64_t)1 << 50, NULL,
     "memory for the KV cache"},
    {"cache-dir", LH_OPTION_TEXT, AT(cache_dir), "", "PATH", 0, 0, NULL,
     "folder where fetched weights are kept; default: $XDG_CACHE_HOME/longhaul or "
     "~/.cache/longhaul"},
    {"model", LH_OPTION_TEXT, AT(model), "", "PATH", 0, 0, NULL,
     "a local GGUF file, used instead of fetching where it is the model that is served"},
    LH_OPTION_CONGESTION_CONTROL(lh_worker_settings, program),
    LH_OPTION_HOP_PROBE_BUDGET(lh_worker_settings, program),
    {"hop-connections", LH_OPTION_NUMBER, AT(hop_connections), "1", "N", 1, 16, NULL,
     "connections to the next worker: with more than 1 the activations of prompts go over the "
     "others in turn, for links on which one connection does not get its share"},
    {"drain-timeout", LH_OPTION_NUMBER, AT(drain_timeout), "30", "SECONDS", 0, 86400, NULL,
     "how long others have, after SIGTERM, to load what this worker holds and take its place; a "
     "second signal ends it at once"},
    LH_OPTION_LOG_LEVEL(lh_worker_settings, program),
    {"slowdown", LH_OPTION_TEXT, AT(slowdown), "1", "F[,G]", 0, 0, NULL,
     "for tests alone: plays a machine that is F times slower, by sleeping after each operation; "
     "SIGUSR1 switches to G and back"},
};

const lh_option_table lh_worker_option_table = {
    .program = "longhaul-worker",
    .summary = "Computes some layers of a language model in a chain of workers",
    .options = options,
    .count = sizeof(options) / sizeof(options[0]),
};

static bool is_given(const char *text) {
    return text[0] != '\0';
}

static lh_status complete_names(lh_worker_settings *s, lh_error *error) {
    if (!is_given(s->name)) {
        char host[48] = "worker";
        gethostname(host, sizeof(host) - 1);
        snprintf(s->own_name, sizeof(s->own_name), "%s-%ld", host, (long)getpid());
        s->name = s->own_name;
    }
    bool is_named = lh_name_is_valid(s->name);
    if (is_named && lh_name_is_valid(s->site))
        return LH_OK;
    return lh_fail(error, LH_ERR_INVALID, "--%s: '%.80s' is not 1 to 63 of A-Z a-z 0-9 . _ -",
                   is_named ? "site" : "name", is_named ? s->site : s->name);
}

/* "http://host:port", perhaps with a slash behind it. */
static lh_status complete_gateway(lh_worker_settings *s, lh_error *error) {
    const char *given = s->gateway;
    bool secure = strncmp(given, "https://", 8) == 0;
    if (!secure && strncmp(given, "http://", 7) != 0) {
        return lh_fail(error, LH_ERR_INVALID,
                       "--gateway: '%.120s' begins with neither http:// nor https://", given);
    }
    size_t length = strlen(given);
    length -= given[length - 1] == '/';
    lh_address address;
    lh_error cause;
    if (length < sizeof(s->gateway_url)) {
        memcpy(s->gateway_url, given, length);
        s->gateway_url[length] = '\0';
        s->gateway = s->gateway_url;
    }
    if (s->gateway != s->gateway_url ||
        lh_address_parse(s->gateway + (secure ? 8 : 7), &address, &cause) != LH_OK ||
        address.port == 0) {
        return lh_fail(error, LH_ERR_INVALID, "--gateway: '%.120s' is not SCHEME://HOST:PORT",
                       given);
    }
    if (secure && !lh_program_options_have_tls(&s->program)) {
        return lh_fail(error, LH_ERR_INVALID,
                       "--gateway: https:// needs --tls-cert, --tls-key and --tls-ca");
    }
    if (!secure && !lh_address_is_loopback(&address) && !s->program.insecure_plaintext) {
        return lh_fail(error, LH_ERR_INVALID,
                       "--gateway: %.120s is not on this machine and http:// is not encrypted: use "
                       "https://, or --insecure-plaintext where the network is trusted",
                       given);
    }
    return LH_OK;
}

static lh_status complete_listeners(lh_worker_settings *s, lh_error *error) {
    lh_address address;
    if (is_given(s->listen_tls) && !lh_program_options_have_tls(&s->program)) {
        return lh_fail(error, LH_ERR_INVALID,
                       "--listen-tls needs --tls-cert, --tls-key and --tls-ca");
    }
    if (!is_given(s->listen) && is_given(s->listen_tls))
        return LH_OK;
    if (!is_given(s->listen))
        s->listen = LISTEN_DEFAULT;
    lh_status status = lh_address_parse(s->listen, &address, error);
    if (status == LH_OK && !lh_address_is_loopback(&address) && !s->program.insecure_plaintext) {
        status = lh_fail(error, LH_ERR_INVALID,
                         "--listen: %.120s can be reached from outside and is not encrypted: use "
                         "--listen-tls, or --insecure-plaintext where the network is trusted",
                         s->listen);
    }
    return status;
}

static lh_status complete_cache_dir(lh_worker_settings *s, lh_error *error) {
    const char *home = getenv("HOME"), *xdg = getenv("XDG_CACHE_HOME");
    if (is_given(s->cache_dir))
        return LH_OK;
    int length;
    if (xdg && is_given(xdg))
        length = snprintf(s->own_cache_dir, sizeof(s->own_cache_dir), "%s/longhaul", xdg);
    else if (home && is_given(home))
        length = snprintf(s->own_cache_dir, sizeof(s->own_cache_dir), "%s/.cache/longhaul", home);
    else
        return lh_fail(error, LH_ERR_INVALID, "--cache-dir is needed, since HOME is not set");
    if (length < 0 || (size_t)length >= sizeof(s->own_cache_dir)) {
        return lh_fail(error, LH_ERR_INVALID,
                       "--cache-dir is needed, since the home folder's path is too long");
    }
    s->cache_dir = s->own_cache_dir;
    return LH_OK;
}

static lh_status complete_slowdown(lh_worker_settings *s, lh_error *error) {
    lh_error cause;
    lh_status status = lh_slowdown_parse(s->slowdown, s->slowdown_factors, &cause);
    return status == LH_OK ? LH_OK : lh_fail(error, status, "--slowdown: %.200s", cause.message);
}

static uint32_t core_count(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (uint32_t)count : 1;
}

/* Three quarters, for the KV cache, other programs and the page cache want some as well. */
static int64_t memory_share(void) {
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (int64_t)pages * bytes / 4 * 3 : (int64_t)1 << 30;
}

lh_status lh_worker_settings_complete(lh_worker_settings *settings, lh_error *error) {
    lh_status status = complete_names(settings, error);
    status = status == LH_OK ? lh_program_options_check(&settings->program, error) : status;
    status = status == LH_OK ? complete_gateway(settings, error) : status;
    status = status == LH_OK ? complete_listeners(settings, error) : status;
    status = status == LH_OK ? complete_cache_dir(settings, error) : status;
    status = status == LH_OK ? complete_slowdown(settings, error) : status;
    if (settings->threads == 0)
        settings->threads = core_count();
    if (settings->memory_bytes == 0)
        settings->memory_bytes = memory_share();
    return status;
}

/* ---- What others are told ---- */

static bool is_wildcard(const char *host) {
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0 || strcmp(host, "*") == 0;
}

lh_status lh_worker_settings_advertise(const lh_worker_settings *settings, bool tls, int port,
                                       char text[LH_ADDRESS_BYTES], lh_error *error) {
    const char *listen = tls ? settings->listen_tls : settings->listen;
    const char *told = tls ? settings->advertise_tls : settings->advertise;
    lh_address address;
    text[0] = '\0';
    if (!is_given(listen))
        return LH_OK;
    lh_status status = lh_address_parse(is_given(told) ? told : listen, &address, error);
    if (status != LH_OK)
        return status;
    if (is_wildcard(address.host)) {
        return lh_fail(
            error, LH_ERR_INVALID,
            "%s: nobody can connect to '%.80s': say with it how others reach this machine",
            tls ? "--advertise-tls" : "--advertise", address.host);
    }
    bool bracketed = strchr(address.host, ':');
    snprintf(text, LH_ADDRESS_BYTES, "%s%s%s:%d", bracketed ? "[" : "", address.host,
             bracketed ? "]" : "", is_given(told) && address.port != 0 ? address.port : port);
    return LH_OK;
}
