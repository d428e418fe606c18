/* The worker's flags. */
#include "worker/worker_settings.h"

#include "common/base/commands.h"
#include "common/base/private_file.h"
#include "common/gguf/part_name.h"
#include "common/net/address.h"
#include "common/sandbox/program_rules.h"
#include "worker/check_command.h"
#include "worker/compute/cuda/cuda_library.h"
#include "worker/compute/slowdown.h"
#include "worker/compute/thread_pool.h"
#include "worker/defaults.h"
#include "worker/doctor_command.h"
#include "worker/worker_metrics.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In the clear, so for this machine alone. */
#define LISTEN_DEFAULT  "127.0.0.1:7101"
#define GATEWAY_DEFAULT "http://127.0.0.1:7100"
#define SITE_DEFAULT    "default"
/* A URL and a token, with room for what a line to paste has before them. */
#define JOIN_FILE_BYTES 2048

#define AT(field) offsetof(lh_worker_settings, field)

static const lh_option options[] = {
    LH_OPTION_CONFIG_ROWS(lh_worker_settings, config),
    {"name", LH_OPTION_TEXT, AT(name), "", "NAME", 0, 0, NULL,
     "name of this worker in the fleet, 1 to 63 of A-Z a-z 0-9 . _ -; default: the certificate's, "
     "else the host's name and the process id"},
    {"site", LH_OPTION_TEXT, AT(site), "", "NAME", 0, 0, NULL,
     "site that this worker is on: machines that share a fast network; default: that of its "
     "certificate, else " SITE_DEFAULT},
    {"gateway", LH_OPTION_TEXT, AT(gateway), "", "URL", 0, 0, NULL,
     "the gateway's fleet port, http://HOST:PORT or https://HOST:PORT; default: the one whose "
     "fleet it has joined, else " GATEWAY_DEFAULT},
    {"state-dir", LH_OPTION_TEXT, AT(state_dir), "", "DIR", 0, 0, NULL,
     "where `longhaul-worker join` keeps key and certificate, one folder for each worker; default: "
     "$STATE_DIRECTORY, else /var/lib/longhaul/worker for root, else "
     "~/.local/state/longhaul/worker"},
    {"state-slots", LH_OPTION_NUMBER, AT(state_slots), "0", "N", 0, LH_STATE_SLOTS_MAX, NULL,
     "how many workers may share --state-dir, as replicas of one service on one volume do: each "
     "takes the first of its folders 1 to N that no other one uses, and has that number behind its "
     "--name; 0: the folder is one worker's"},
    {"join-file", LH_OPTION_TEXT, AT(join_file), "", "PATH", 0, 0, NULL,
     "file of the line that `longhaul-gateway token` prints, readable by its owner only: where "
     "this "
     "worker has not joined by it yet, it does; an empty one, or none, is as without this flag"},
    {"listen", LH_OPTION_TEXT, AT(listen), "", "HOST:PORT", 0, 0, NULL,
     "where steps are taken without encryption, for hops inside a site; port 0 takes any; "
     "default: " LISTEN_DEFAULT " where there is no --listen-tls"},
    {"listen-tls", LH_OPTION_TEXT, AT(listen_tls), "", "HOST:PORT", 0, 0, NULL,
     "where steps are taken over TLS 1.3 with client certificates, for hops between sites; default "
     "of one that has joined: port 7101 of all addresses"},
    {"listen-members", LH_OPTION_TEXT, AT(listen_members), "", "HOST:PORT", 0, 0, NULL,
     "where other workers of this site connect that compute a stage together with this one, where "
     "the gateway has --tensor-parallel; not encrypted; port 0 takes any; default: none, and each "
     "stage here is this worker's alone"},
    {"metrics-listen", LH_OPTION_TEXT, AT(metrics_listen), "", "HOST:PORT", 0, 0, NULL,
     "address of the operator's port: /metrics for Prometheus, and /livez; off: none. "
     "Default: " LH_WORKER_METRICS_LISTEN ", or none where that port is taken"},
    {"advertise", LH_OPTION_TEXT, AT(advertise), "", "HOST:PORT", 0, 0, NULL,
     "how others reach --listen, where that is not its own address"},
    {"advertise-tls", LH_OPTION_TEXT, AT(advertise_tls), "", "HOST:PORT", 0, 0, NULL,
     "how others reach --listen-tls, where that is not its own address; default of one that has "
     "joined: by the address with which it reaches the gateway"},
    {"advertise-members", LH_OPTION_TEXT, AT(advertise_members), "", "HOST:PORT", 0, 0, NULL,
     "how others of this site reach --listen-members, where that is not its own address"},
    LH_OPTION_TLS_CERT(
        lh_worker_settings, program,
        "PEM certificate of this worker, with the subjectAltName " LH_TLS_WORKER_URI),
    LH_OPTION_TLS_KEY(lh_worker_settings, program),
    LH_OPTION_TLS_CA(lh_worker_settings, program),
    LH_OPTION_INSECURE_PLAINTEXT(
        lh_worker_settings, program,
        "allow --listen and http:// on addresses that are not this machine's own"),
    {"threads", LH_OPTION_NUMBER, AT(threads), "0", "N", 0, LH_THREADS_MAX, NULL,
     "compute threads; 0: one for each core"},
    {"isa", LH_OPTION_TEXT, AT(isa), "auto", "NAME", 0, 0, NULL,
     "instruction set of the kernels: auto, reference, avx2, avx512, neon or dotprod"},
    {"device", LH_OPTION_TEXT, AT(device), "auto", "NAME", 0, 0, NULL,
     "what computes: cpu, cuda or cuda:N (a GPU, which must be there), or auto: the first GPU that "
     "can be used, else the processors"},
    {"cuda-library", LH_OPTION_TEXT, AT(cuda_library), "", "PATH", 0, 0, NULL,
     "the library with the kernels for GPUs; default: " LH_CUDA_LIBRARY
     " beside the program, in ../lib/longhaul, or where the system keeps libraries"},
    {"cublas-library", LH_OPTION_TEXT, AT(cublas_library), "", "PATH", 0, 0, NULL,
     "cuBLAS, which a GPU computes with where the gateway has --gpu-math fast; default: "
     "libcublas.so.13, or .12, where the system keeps libraries"},
    {"memory-bytes", LH_OPTION_BYTES, AT(memory_bytes), "0", "BYTES", 0, (int64_t)1 << 50, NULL,
     "memory for weights, told to the planner; 0: what is free when it starts, less --kv-bytes, at "
     "most three quarters of all that the machine, the container, or the GPU has"},
    {"kv-bytes", LH_OPTION_BYTES, AT(kv_bytes), "512M", "BYTES", 1 << 20, (int64_t)1 << 50, NULL,
     "memory for the KV cache"},
    {"cache-dir", LH_OPTION_TEXT, AT(cache_dir), "", "PATH", 0, 0, NULL,
     "folder where fetched weights are kept; default: $CACHE_DIRECTORY, as systemd sets it, else "
     "$XDG_CACHE_HOME/longhaul or ~/.cache/longhaul"},
    {"model", LH_OPTION_TEXT, AT(model), "", "PATH", 0, 0, NULL,
     "a local GGUF file, or any part of one in several, used instead of fetching where it is the "
     "model that is served"},
    LH_OPTION_CONGESTION_CONTROL(lh_worker_settings, program),
    LH_OPTION_HOP_PROBE_BUDGET(lh_worker_settings, program),
    {"relay", LH_OPTION_FLAG, AT(relays), NULL, NULL, 0, 0, NULL,
     "speak for those workers of this site that have --behind-relay: steps for them that come from "
     "other sites are passed on, shard by shard"},
    {"behind-relay", LH_OPTION_FLAG, AT(is_behind_relay), NULL, NULL, 0, 0, NULL,
     "other sites do not reach this worker: steps come from its own site, or through a worker of "
     "it "
     "that has --relay"},
    {"hop-connections", LH_OPTION_NUMBER, AT(hop_connections), "1", "N", 1, 16, NULL,
     "connections to the next worker: with more than 1 the activations of prompts go over the "
     "others in turn, for links on which one connection does not get its share"},
    {"drain-timeout", LH_OPTION_NUMBER, AT(drain_timeout), "30", "SECONDS", 0, 86400, NULL,
     "how long others have, after SIGTERM, to load what this worker holds and take its place; a "
     "second signal ends it at once"},
    LH_OPTION_SANDBOX(lh_worker_settings, program),
    LH_OPTION_LOG_LEVEL(lh_worker_settings, program),
    LH_OPTION_LOG_FORMAT(lh_worker_settings, program),
    {"slowdown", LH_OPTION_TEXT, AT(slowdown), "1", "F[,G]", 0, 0, NULL,
     "for tests alone: plays a machine that is F times slower, by sleeping after each operation; "
     "SIGUSR1 switches to G and back"},
};

const lh_option_table lh_worker_join_option_table = {
    .program = "longhaul-worker join",
    .arguments = "https://HOST:PORT TOKEN",
    .summary = "Joins a fleet with a token of `longhaul-gateway token`, once: gets a certificate, "
               "keeps it, and serves. Later `longhaul-worker` alone is enough",
    .example = "longhaul-worker join https://192.0.2.1:7100 lh1....",
    .options = options,
    .count = sizeof(options) / sizeof(options[0]),
};

static const lh_command commands[] = {
    {"join", "makes this machine a member of a fleet, and serves", &lh_worker_join_option_table,
     NULL},
    {"doctor", "what is wrong with this machine, and what to do", &lh_worker_doctor_command_options,
     lh_worker_doctor_command},
    {"check", "asks the worker of this machine whether it is there", &lh_check_command_options,
     lh_check_command},
};

const lh_option_table lh_worker_option_table = {
    .program = "longhaul-worker",
    .summary =
        "Computes some layers of a language model in a chain of workers. `longhaul-worker join "
        "URL TOKEN`, as `longhaul-gateway token` prints it, makes this machine a member of a "
        "fleet first",
    .options = options,
    .count = sizeof(options) / sizeof(options[0]),
    .commands = commands,
    .command_count = sizeof(commands) / sizeof(commands[0]),
};

static bool is_given(const char *text) {
    return text[0] != '\0';
}

static void invent_name(lh_worker_settings *s) {
    char host[48] = "worker";
    gethostname(host, sizeof(host) - 1);
    snprintf(s->own_name, sizeof(s->own_name), "%s-%ld", host, (long)getpid());
    s->name = s->own_name;
}

static lh_status check_name(const char *flag, const char *name, lh_error *error) {
    return lh_name_is_valid(name)
               ? LH_OK
               : lh_fail(error, LH_ERR_INVALID, "--%s: '%.80s' is not 1 to 63 of A-Z a-z 0-9 . _ -",
                         flag, name);
}

/* What is left open, a certificate says later. */
static lh_status complete_names(lh_worker_settings *s, lh_error *error) {
    bool has_certificate = lh_program_options_have_tls(&s->program);
    if (!is_given(s->name) && !has_certificate)
        invent_name(s);
    if (!is_given(s->site) && !has_certificate)
        s->site = SITE_DEFAULT;
    lh_status status = is_given(s->name) ? check_name("name", s->name, error) : LH_OK;
    return status == LH_OK && is_given(s->site) ? check_name("site", s->site, error) : status;
}

static lh_status check_against(const char *flag, const char *given, const char *certified,
                               lh_error *error) {
    return !is_given(given) || strcmp(given, certified) == 0
               ? LH_OK
               : lh_fail(error, LH_ERR_INVALID,
                         "--%s: '%.63s' is not what the certificate of --tls-cert says, which is "
                         "'%.63s': leave the flag out, or have a certificate issued for it",
                         flag, given, certified);
}

lh_status lh_worker_settings_take_identity(lh_worker_settings *settings,
                                           const lh_tls_identity *identity, lh_error *error) {
    lh_status status = check_against("name", settings->name, identity->name, error);
    if (status == LH_OK)
        status = check_against("site", settings->site, identity->site, error);
    memcpy(settings->own_name, identity->name, sizeof(settings->own_name));
    memcpy(settings->own_site, identity->site, sizeof(settings->own_site));
    settings->name = settings->own_name;
    settings->site = settings->own_site;
    return status;
}

/* "http://host:port", perhaps with a slash behind it. */
static lh_status complete_gateway(lh_worker_settings *s, lh_error *error) {
    if (!is_given(s->gateway))
        s->gateway = GATEWAY_DEFAULT;
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
                       "--gateway: https:// needs a certificate: let this machine join "
                       "(longhaul-worker join, with the line of `longhaul-gateway token`), or give "
                       "--tls-cert, --tls-key and --tls-ca");
    }
    if (!secure && !lh_address_is_loopback(&address) && !s->program.insecure_plaintext) {
        return lh_fail(error, LH_ERR_INVALID,
                       "--gateway: %.120s is not on this machine and http:// is not encrypted: use "
                       "https://, or --insecure-plaintext where the network is trusted",
                       given);
    }
    return LH_OK;
}

/* secure: the flag that takes its place where others are on the way; "": none does. */
static lh_status check_plain(const lh_worker_settings *s, const char *flag, const char *listen,
                             const char *secure, lh_error *error) {
    lh_address address;
    lh_status status = lh_address_parse(listen, &address, error);
    if (status == LH_OK && !lh_address_is_loopback(&address) && !s->program.insecure_plaintext) {
        status = lh_fail(error, LH_ERR_INVALID,
                         "%s: %.120s can be reached from outside and is not encrypted: use "
                         "%s--insecure-plaintext where the network is trusted",
                         flag, listen, secure);
    }
    return status;
}

static lh_status complete_listeners(lh_worker_settings *s, lh_error *error) {
    if (is_given(s->listen_tls) && !lh_program_options_have_tls(&s->program)) {
        return lh_fail(error, LH_ERR_INVALID,
                       "--listen-tls needs --tls-cert, --tls-key and --tls-ca");
    }
    if (!is_given(s->listen) && is_given(s->listen_tls))
        return LH_OK;
    if (!is_given(s->listen))
        s->listen = LISTEN_DEFAULT;
    return check_plain(s, "--listen", s->listen, "--listen-tls, or ", error);
}

static lh_status check_listen_members(const lh_worker_settings *s, lh_error *error) {
    return is_given(s->listen_members)
               ? check_plain(s, "--listen-members", s->listen_members, "", error)
               : LH_OK;
}

static lh_status complete_cache_dir(lh_worker_settings *s, lh_error *error) {
    lh_status status =
        is_given(s->cache_dir) ? LH_OK : lh_default_cache_dir(s->own_cache_dir, error);
    if (status == LH_OK && !is_given(s->cache_dir))
        s->cache_dir = s->own_cache_dir;
    return status;
}

static lh_status complete_slowdown(lh_worker_settings *s, lh_error *error) {
    lh_error cause;
    lh_status status = lh_slowdown_parse(s->slowdown, s->slowdown_factors, &cause);
    return status == LH_OK ? LH_OK : lh_fail(error, status, "--slowdown: %.200s", cause.message);
}

static lh_status check_relaying(const lh_worker_settings *s, lh_error *error) {
    return s->relays && s->is_behind_relay
               ? lh_fail(error, LH_ERR_INVALID,
                         "--relay: one that other sites do not reach (--behind-relay) cannot speak "
                         "for others")
               : LH_OK;
}

static uint32_t core_count(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? (uint32_t)count : 1;
}

lh_status lh_worker_settings_complete(lh_worker_settings *settings, lh_error *error) {
    lh_status status = complete_names(settings, error);
    status = status == LH_OK ? lh_program_options_check(&settings->program, error) : status;
    status = status == LH_OK ? complete_gateway(settings, error) : status;
    status = status == LH_OK ? complete_listeners(settings, error) : status;
    status = status == LH_OK ? check_listen_members(settings, error) : status;
    status = status == LH_OK ? lh_operator_port_check(settings->metrics_listen, error) : status;
    status = status == LH_OK ? complete_cache_dir(settings, error) : status;
    status = status == LH_OK ? complete_slowdown(settings, error) : status;
    status = status == LH_OK ? check_relaying(settings, error) : status;
    if (settings->threads == 0)
        settings->threads = core_count();
    settings->chooses_memory = settings->memory_bytes == 0;
    if (settings->chooses_memory)
        settings->memory_bytes = lh_default_memory_bytes(settings->kv_bytes);
    return status;
}

/* ---- Members of a fleet ---- */

bool lh_worker_settings_take_join(lh_worker_settings *s, int *argc, char ***argv) {
    s->join_url = "";
    if (*argc < 2 || strcmp((*argv)[1], "join") != 0)
        return false;
    int words = 1;
    while (words < 3 && words + 1 < *argc && strncmp((*argv)[words + 1], "--", 2) != 0)
        words++;
    if (words > 1)
        s->join_url = (*argv)[2];
    if (words > 2) {
        char *token = (*argv)[3];
        snprintf(s->join_token, sizeof s->join_token, "%s", token);
        memset(token, '*', strlen(token));
    }
    *argc -= words;
    *argv += words;
    return true;
}

/* What stands before URL and token in the line to paste may be left out. */
static lh_status read_join_words(lh_worker_settings *s, char *line, lh_error *error) {
    static const char blanks[] = " \t\r\n";
    char *rest = NULL, *word = strtok_r(line, blanks, &rest);
    while (word && strncmp(word, "https://", 8) != 0)
        word = strtok_r(NULL, blanks, &rest);
    char *token = word ? strtok_r(NULL, blanks, &rest) : NULL;
    if (!token || strtok_r(NULL, blanks, &rest) || strlen(word) >= sizeof s->own_join_url ||
        strlen(token) >= sizeof s->join_token)
        return lh_fail(
            error, LH_ERR_INVALID,
            "--join-file %.200s: https://HOST:PORT and a token are wanted: the line that "
            "`longhaul-gateway token` has printed, and nothing else",
            s->join_file);
    strcpy(s->own_join_url, word);
    strcpy(s->join_token, token);
    s->join_url = s->own_join_url;
    return LH_OK;
}

lh_status lh_worker_settings_read_join_file(lh_worker_settings *s, lh_error *error) {
    char line[JOIN_FILE_BYTES];
    size_t length = 0;
    lh_status status = LH_OK;
    if (is_given(s->join_url) || !is_given(s->join_file) || access(s->join_file, F_OK) != 0)
        return LH_OK;
    status = lh_private_file_read(s->join_file, line, sizeof line - 1, &length, error);
    if (status != LH_OK)
        return status;
    line[length] = '\0';
    if (strspn(line, " \t\r\n") < length)
        status = read_join_words(s, line, error);
    explicit_bzero(line, sizeof line);
    return status;
}

void lh_worker_settings_number_name(lh_worker_settings *s, const char *name, uint32_t number) {
    if (!is_given(name))
        return;
    snprintf(s->own_name, sizeof s->own_name, "%.*s-%u", (int)sizeof s->own_name - 4, name, number);
    s->name = s->own_name;
}

bool lh_worker_settings_may_be_member(const lh_worker_settings *settings) {
    return !lh_program_options_have_tls(&settings->program) &&
           strncmp(settings->gateway, "http://", 7) != 0;
}

/* The certificate says who this worker is: another name would be refused by all others. */
static lh_status adopt_name(const char *flag, const char **given, const char *certified,
                            lh_error *error) {
    if (is_given(*given) && strcmp(*given, certified) != 0)
        return lh_fail(error, LH_ERR_INVALID,
                       "--%s %.64s: this machine has joined as %s %.64s: leave the flag out, or "
                       "join with another --state-dir",
                       flag, *given, flag, certified);
    *given = certified;
    return LH_OK;
}

static bool is_wildcard(const char *host) {
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0 || strcmp(host, "*") == 0;
}

/* An address of its own is told as it is, all of them as the one that faces the gateway. */
static void adopt_listeners(lh_worker_settings *s, const char *host) {
    bool is_v6 = strchr(host, ':');
    lh_address address;
    lh_error ignored;
    if (!is_given(s->listen_tls)) {
        snprintf(s->own_listen_tls, sizeof s->own_listen_tls, "%s:%d", is_v6 ? "[::]" : "0.0.0.0",
                 LH_WORKER_MEMBER_PORT);
        s->listen_tls = s->own_listen_tls;
    }
    if (is_given(s->advertise_tls) ||
        lh_address_parse(s->listen_tls, &address, &ignored) != LH_OK || !is_wildcard(address.host))
        return;
    snprintf(s->own_advertise_tls, sizeof s->own_advertise_tls, "%s%s%s:0", is_v6 ? "[" : "", host,
             is_v6 ? "]" : "");
    s->advertise_tls = s->own_advertise_tls;
}

lh_status lh_worker_settings_adopt(lh_worker_settings *settings, const lh_fleet_member *member,
                                   lh_error *error) {
    const lh_own_membership *membership = lh_fleet_member_membership(member);
    const lh_membership_store *store = lh_fleet_member_store(member);
    lh_status status = adopt_name("name", &settings->name, membership->name, error);
    if (status == LH_OK)
        status = adopt_name("site", &settings->site, membership->site, error);
    if (!is_given(settings->gateway))
        settings->gateway = membership->gateway_url;
    settings->member_dir = lh_membership_store_path(store);
    settings->program.tls.certificate_file = lh_membership_store_certificate_file(store);
    settings->program.tls.key_file = lh_membership_store_key_file(store);
    settings->program.tls.ca_file = lh_membership_store_trust_file(store);
    adopt_listeners(settings, lh_fleet_member_host(member));
    return status;
}

/* ---- What others are told ---- */

lh_status lh_worker_settings_advertise(const lh_worker_settings *settings,
                                       lh_worker_listener listener, int port,
                                       char text[LH_ADDRESS_BYTES], lh_error *error) {
    static const char *const flags[] = {"--advertise", "--advertise-tls", "--advertise-members"};
    const char *const listened[] = {settings->listen, settings->listen_tls,
                                    settings->listen_members};
    const char *const advertised[] = {settings->advertise, settings->advertise_tls,
                                      settings->advertise_members};
    const char *listen = listened[listener], *told = advertised[listener];
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
            flags[listener], address.host);
    }
    bool bracketed = strchr(address.host, ':');
    snprintf(text, LH_ADDRESS_BYTES, "%s%s%s:%d", bracketed ? "[" : "", address.host,
             bracketed ? "]" : "", is_given(told) && address.port != 0 ? address.port : port);
    return LH_OK;
}

/* ---- What the program may touch ---- */

static void allow_part(void *rules, const char *path) {
    lh_sandbox_rules_allow_read(rules, path);
}

void lh_worker_settings_allow(const lh_worker_settings *settings, lh_sandbox_rules *rules) {
    lh_program_rules_begin(&settings->program, rules);
    if (settings->member_dir)
        lh_sandbox_rules_allow_write(rules, settings->member_dir);
    else
        lh_program_rules_allow_tls(&settings->program, rules);
    lh_gguf_visit_parts(settings->model, allow_part, rules);
    lh_sandbox_rules_allow_write(rules, settings->cache_dir);
    lh_program_rules_allow_listener(settings->listen, rules);
    lh_program_rules_allow_listener(settings->listen_tls, rules);
    lh_program_rules_allow_listener(settings->listen_members, rules);
    lh_program_rules_allow_listener(
        lh_operator_port_address(settings->metrics_listen, LH_WORKER_METRICS_LISTEN), rules);
}
