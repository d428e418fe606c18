/* fork, exec, and a log in memory that says at which ports they listen. */
#include "gateway/cli/own_service.h"

#include "common/base/clock.h"
#include "gateway/cli/api_transfer.h"
#include "gateway/cli/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_US        20000
#define ASK_TIMEOUT_MS 5000L
/* A worker that is there, and does not hold the model, has been asked by then. */
#define NO_CHAIN_US   (INT64_C(20) * 1000000)
#define END_LOOKS     500 /* 10 s; then they are killed */
#define LOG_BYTES     16384
#define TOLD_BYTES    1500 /* of a log, where its program has ended */
#define ARGUMENTS_MAX 32
#define NUMBER_BYTES  24

typedef struct child {
    const char *name;
    pid_t pid; /* 0: it does not run */
    int log;   /* a file in memory; -1: none */
} child;

struct lh_own_service {
    child gateway, worker;
    char url[64], fleet_url[64];
};

/* ---- Starting one ---- */

/* Beside this program, or wherever the shell finds it. */
static void find_program(const char *name, char path[PATH_MAX]) {
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    size_t used = slash ? (size_t)(slash - path) + 1 : 0;
    snprintf(path + used, PATH_MAX - used, "%s", name);
    if (access(path, X_OK) != 0)
        snprintf(path, PATH_MAX, "%s", name);
}

/* What is set for a gateway or a worker that is to serve others is not meant for these. */
static void clear_own_variables(void) {
    static const char prefix[] = "LONGHAUL_";
    for (size_t i = 0; environ[i];) {
        char name[256];
        size_t length = strcspn(environ[i], "=");
        bool is_own = strncmp(environ[i], prefix, sizeof prefix - 1) == 0;
        snprintf(name, sizeof name, "%.*s", (int)length, environ[i]);
        if (!is_own || length >= sizeof name || unsetenv(name) != 0)
            i++;
    }
}

/* In the child; does not return. Ctrl-C is for the process that talks, so that this one leaves its
 * group; and it ends when its parent does. */
static _Noreturn void become(const char *path, char **argv, int log, pid_t parent) {
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGINT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    if (getppid() == parent && dup2(nothing, STDIN_FILENO) >= 0 && dup2(log, STDOUT_FILENO) >= 0 &&
        dup2(log, STDERR_FILENO) >= 0) {
        clear_own_variables();
        execvp(path, argv);
    }
    dprintf(STDERR_FILENO, "%s cannot be started: %s\n", argv[0], strerror(errno));
    _exit(127);
}

/* words: from the first flag on, NULL behind the last. */
static lh_status start_child(child *c, const char *name, const char *const *words,
                             lh_error *error) {
    char path[PATH_MAX], *argv[ARGUMENTS_MAX] = {(char *)(uintptr_t)name};
    for (size_t i = 0; words[i] && i + 2 < ARGUMENTS_MAX; i++)
        argv[i + 1] = (char *)(uintptr_t)words[i];
    find_program(name, path);
    c->name = name;
    c->log = memfd_create(name, MFD_CLOEXEC);
    if (c->log < 0)
        return lh_fail(error, LH_ERR_IO, "no memory for the log of %s: %s", name, strerror(errno));
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        become(path, argv, c->log, parent);
    if (pid < 0)
        return lh_fail(error, LH_ERR_IO, "%s cannot be started: %s", name, strerror(errno));
    c->pid = pid;
    return LH_OK;
}

/* ---- What they say ---- */

/* The last `bytes` of its log, terminated. */
static void read_log(const child *c, char text[LOG_BYTES], size_t bytes) {
    off_t end = lseek(c->log, 0, SEEK_END);
    off_t begin = end > (off_t)bytes - 1 ? end - (off_t)bytes + 1 : 0;
    ssize_t length = pread(c->log, text, bytes - 1, begin);
    text[length > 0 ? length : 0] = '\0';
}

/* Whether it has ended by itself. */
static lh_status check_child(child *c, lh_error *error) {
    char text[LOG_BYTES];
    int code;
    if (waitpid(c->pid, &code, WNOHANG) != c->pid)
        return LH_OK;
    c->pid = 0;
    read_log(c, text, TOLD_BYTES);
    fprintf(stderr, "%s%s", text, text[0] && text[strlen(text) - 1] != '\n' ? "\n" : "");
    if (WIFEXITED(code) && WEXITSTATUS(code) == 127)
        return lh_fail(error, LH_ERR_NOT_FOUND,
                       "%s is neither beside longhaul-gateway nor in PATH: install it", c->name);
    return lh_fail(error, LH_ERR_UNAVAILABLE, "%s has ended, and says above why", c->name);
}

static lh_status pause_a_little(lh_error *error) {
    if (!lh_interrupt_is_pending())
        usleep(LOOK_US);
    return lh_interrupt_is_pending() ? lh_fail(error, LH_ERR_CANCELLED, "stopped") : LH_OK;
}

static int number_behind(const char *text, const char *key) {
    const char *at = strstr(text, key);
    return at ? atoi(at + strlen(key)) : 0;
}

static lh_status await_ports(lh_own_service *s, lh_error *error) {
    char text[LOG_BYTES];
    for (;;) {
        read_log(&s->gateway, text, sizeof text);
        const char *line = strstr(text, " fingerprint=fp_"); /* behind the model's name, any text */
        if (line && strchr(line, '\n')) {
            snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d",
                     number_behind(line, " api_port="));
            snprintf(s->fleet_url, sizeof s->fleet_url, "http://127.0.0.1:%d",
                     number_behind(line, " fleet_port="));
            return LH_OK;
        }
        lh_status status = check_child(&s->gateway, error);
        if (status == LH_OK)
            status = pause_a_little(error);
        if (status != LH_OK)
            return status;
    }
}

/* ---- Until it serves ---- */

typedef struct health {
    char text[1024];
    size_t length;
} health;

static bool keep(void *context, const char *bytes, size_t length) {
    health *h = context;
    size_t room = sizeof h->text - 1 - h->length;
    size_t kept = length < room ? length : room;
    memcpy(h->text + h->length, bytes, kept);
    h->text[h->length += kept] = '\0';
    return true;
}

/* The HTTP status; 0: no answer. */
static long ask_health(const lh_own_service *s, health *h) {
    const lh_api_request request = {.url = s->url,
                                    .path = "/readyz",
                                    .word = "",
                                    .key = "",
                                    .timeout_ms = ASK_TIMEOUT_MS,
                                    .on_bytes = keep,
                                    .context = h};
    long http_status = 0;
    *h = (health){.length = 0};
    return lh_api_transfer(&request, &http_status, NULL) == LH_OK ? http_status : 0;
}

static lh_status refuse_model(const health *h, lh_error *error) {
    const char *why = strstr(h->text, "\"message\":\"");
    why = why ? why + strlen("\"message\":\"") : "the worker does not hold it";
    return lh_fail(error, LH_ERR_UNAVAILABLE, "the model is not served: %.*s",
                   (int)strcspn(why, "\""), why);
}

static lh_status await_model(lh_own_service *s, lh_error *error) {
    health h;
    int64_t without_us = 0; /* since when the worker is there, and no chain */
    for (long http_status; (http_status = ask_health(s, &h)) != 200;) {
        bool is_without = http_status == 503 && strstr(h.text, "no_chain");
        if (!is_without)
            without_us = 0;
        else if (!without_us)
            without_us = lh_clock_us();
        else if (lh_clock_us() - without_us > NO_CHAIN_US)
            return refuse_model(&h, error);
        lh_status status = check_child(&s->gateway, error);
        if (status == LH_OK)
            status = check_child(&s->worker, error);
        if (status == LH_OK)
            status = pause_a_little(error);
        if (status != LH_OK)
            return status;
    }
    return LH_OK;
}

static lh_status start_both(lh_own_service *s, const lh_own_service_options *options,
                            lh_error *error) {
    char threads[NUMBER_BYTES], kv_bytes[NUMBER_BYTES];
    snprintf(threads, sizeof threads, "%" PRId64, options->threads);
    snprintf(kv_bytes, sizeof kv_bytes, "%" PRId64, options->kv_bytes);
    const char *const of_gateway[] = {"--model",
                                      options->model,
                                      "--listen",
                                      "127.0.0.1:0",
                                      "--fleet-listen",
                                      "127.0.0.1:0",
                                      "--metrics-listen",
                                      "off",
                                      "--workers",
                                      "1",
                                      "--plan-delay-ms",
                                      "100",
                                      "--drain-timeout",
                                      "0",
                                      NULL};
    lh_status status = start_child(&s->gateway, "longhaul-gateway", of_gateway, error);
    if (status == LH_OK)
        status = await_ports(s, error);
    const char *const of_worker[] = {
        "--gateway", s->fleet_url,   "--name",     "here",        "--site",           "here",
        "--model",   options->model, "--listen",   "127.0.0.1:0", "--metrics-listen", "off",
        "--threads", threads,        "--kv-bytes", kv_bytes,      "--drain-timeout",  "0",
        NULL};
    if (status == LH_OK)
        status = start_child(&s->worker, "longhaul-worker", of_worker, error);
    return status == LH_OK ? await_model(s, error) : status;
}

lh_status lh_own_service_start(const lh_own_service_options *options, lh_own_service **service,
                               lh_error *error) {
    lh_own_service *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a gateway of one's own");
    made->gateway.log = made->worker.log = -1;
    lh_status status = start_both(made, options, error);
    if (status == LH_OK)
        *service = made;
    else
        lh_own_service_stop(made);
    return status;
}

const char *lh_own_service_url(const lh_own_service *service) {
    return service->url;
}

/* ---- The end ---- */

static bool has_ended(child *c) {
    if (c->pid && waitpid(c->pid, NULL, WNOHANG) != 0)
        c->pid = 0;
    return !c->pid;
}

static void end_child(child *c) {
    for (int looks = 0; looks < END_LOOKS && !has_ended(c); looks++)
        usleep(LOOK_US);
    if (c->pid) {
        kill(c->pid, SIGKILL);
        waitpid(c->pid, NULL, 0);
    }
    if (c->log >= 0)
        close(c->log);
}

void lh_own_service_stop(lh_own_service *service) {
    if (!service)
        return;
    if (service->gateway.pid)
        kill(service->gateway.pid, SIGTERM);
    if (service->worker.pid)
        kill(service->worker.pid, SIGTERM);
    end_child(&service->gateway);
    end_child(&service->worker);
    free(service);
}
