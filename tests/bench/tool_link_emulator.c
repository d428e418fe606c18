/* Emulated links between network namespaces, in user space on TUN devices, since tc netem is not
 * everywhere. The kernel's own TCP runs end to end.
 *
 *     link_emulator NAMESPACE...
 *
 * gives each namespace (of /run/netns) a device "wan"; site i has the address 10.201.0.{i + 1},
 * which the caller sets. From each site to each other leads a line of its own, without bound until
 * it is set. Lines on stdin, each answered with a line of JSON:
 *
 *     set FROM TO rate=MBIT delay=MS jitter=MS loss=PERCENT queue=MS     what is not named stays
 *     stall FROM TO MS                                                   nothing leaves for so long
 *     flip FROM TO DICE                                                  a bit of the next TCP
 *     packet with a payload: number DICE, counted around; 0: none after all stats
 *
 * FROM and TO count from 0; "*" is all of them. It ends with its stdin. It needs root, and
 * real-time priority to be on time; where it cannot have that it says so in its first line. */
#include "tests/bench/support/line.h"
#include "tests/bench/support/tun_device.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SITES_MAX 16u
#define NETWORK   0x0ac90000u /* 10.201.0.0 */
/* Packets of one site that are read before others are looked at. */
#define READ_AT_ONCE 32
/* Deliveries are at least so far apart: at a high rate several packets share a wake-up. */
#define QUANTUM_NS 200000
/* Above what is measured, below the kernel's own threads. */
#define PRIORITY 10

typedef struct emulator {
    uint32_t sites;
    int devices[SITES_MAX];
    line lines[SITES_MAX][SITES_MAX];     /* [from][to] */
    uint64_t flips[SITES_MAX][SITES_MAX]; /* dice of the bit that is to be flipped; 0: none */
    uint64_t flipped;
    int64_t delivered_ns; /* last */
    uint64_t refused;     /* packets that the kernel did not take */
    char text[1024];      /* of stdin, up to a line's end */
    size_t text_length;
    bool ending;
} emulator;

static int64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- Packets ---- */

typedef struct pushing {
    emulator *emulator;
    uint32_t from, to;
    int64_t now_ns;
} pushing;

static void push(void *context, packet *p) {
    const pushing *way = context;
    emulator *e = way->emulator;
    uint64_t *dice = &e->flips[way->from][way->to];
    if (*dice != 0 && tun_flip_bit(p, *dice)) {
        *dice = 0;
        e->flipped++;
    }
    line_push(&e->lines[way->from][way->to], p, way->now_ns);
}

static void take_in(emulator *e, uint32_t from) {
    static uint8_t bytes[TUN_PACKET_BYTES_MAX];
    for (int i = 0; i < READ_AT_ONCE; i++) {
        ptrdiff_t length = tun_read(e->devices[from], bytes);
        if (length < 0)
            e->ending = true; /* the namespace is gone */
        if (length <= 0)
            return;
        uint32_t to = tun_destination(bytes, (size_t)length) - NETWORK - 1;
        if (to < e->sites && to != from) {
            pushing way = {e, from, to, clock_ns()};
            tun_cut(bytes, (size_t)length, line_grain(&e->lines[from][to]), push, &way);
        }
    }
}

static void deliver(emulator *e) {
    for (uint32_t from = 0; from < e->sites; from++) {
        for (uint32_t to = 0; to < e->sites; to++) {
            packet *p;
            while ((p = line_pop(&e->lines[from][to], clock_ns())) != NULL) {
                e->refused += !tun_write(e->devices[to], p);
                e->delivered_ns = p->due_ns;
                free(p);
            }
        }
    }
}

static int64_t next_ns(const emulator *e) {
    int64_t next = INT64_MAX;
    for (uint32_t from = 0; from < e->sites; from++) {
        for (uint32_t to = 0; to < e->sites; to++) {
            int64_t here = line_next_ns(&e->lines[from][to]);
            next = here < next ? here : next;
        }
    }
    int64_t earliest = e->delivered_ns + QUANTUM_NS;
    return next < earliest ? earliest : next;
}

/* ---- Control ---- */

static const char *change(line_settings *settings, char *words) {
    static const char *const names[] = {"rate", "delay", "jitter", "loss", "queue"};
    double *const values[] = {&settings->rate_mbit, &settings->delay_ms, &settings->jitter_ms,
                              &settings->loss_percent, &settings->queue_ms};
    for (char *rest = words, *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
        char *value = strchr(word, '='), *end = NULL;
        double number = value ? strtod(value + 1, &end) : -1;
        size_t i = 0;
        while (i < 5 && (!value || strlen(names[i]) != (size_t)(value - word) ||
                         strncmp(names[i], word, strlen(names[i])) != 0)) {
            i++;
        }
        if (i == 5 || end == value + 1 || *end != '\0' || !(number >= 0 && number < 1e9))
            return word;
        *values[i] = number;
    }
    return NULL;
}

/* The sites that "*" or a number names: [*first, *last). */
static bool read_sites(const emulator *e, const char *word, uint32_t *first, uint32_t *last) {
    char *end;
    unsigned long number = strtoul(word, &end, 10);
    bool all = strcmp(word, "*") == 0;
    *first = all ? 0 : (uint32_t)number;
    *last = all ? e->sites : (uint32_t)number + 1;
    return all || (*end == '\0' && end != word && number < e->sites);
}

typedef const char *line_action(emulator *e, uint32_t from, uint32_t to, char *words);

static const char *set_line(emulator *e, uint32_t from, uint32_t to, char *words) {
    line *l = &e->lines[from][to];
    line_settings settings = l->settings;
    const char *wrong = change(&settings, words);
    if (!wrong)
        line_set(l, &settings, clock_ns());
    return wrong;
}

static const char *stall_line(emulator *e, uint32_t from, uint32_t to, char *words) {
    char *end;
    double ms = strtod(words, &end);
    if (end == words || *end != '\0' || !(ms >= 0 && ms < 1e9))
        return words;
    line_stall(&e->lines[from][to], ms, clock_ns());
    return NULL;
}

static const char *flip_bit(emulator *e, uint32_t from, uint32_t to, char *words) {
    char *end;
    unsigned long long dice = strtoull(words, &end, 10);
    if (end == words || *end != '\0')
        return words;
    e->flips[from][to] = dice;
    return NULL;
}

static void for_lines(emulator *e, char *words, line_action *action) {
    uint32_t first[2], last[2];
    char *rest = words, *from = strtok_r(rest, " ", &rest), *to = strtok_r(rest, " ", &rest);
    if (!from || !to || !read_sites(e, from, &first[0], &last[0]) ||
        !read_sites(e, to, &first[1], &last[1])) {
        puts("{\"error\":\"which sites?\"}");
        return;
    }
    for (uint32_t i = first[0]; i < last[0]; i++) {
        for (uint32_t j = first[1]; j < last[1]; j++) {
            char copy[sizeof e->text];
            snprintf(copy, sizeof copy, "%s", rest);
            if (action(e, i, j, copy)) {
                puts("{\"error\":\"that is no setting\"}");
                return;
            }
        }
    }
    puts("{}");
}

static void print_stats(const emulator *e) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"processor_s\":%.3f,\"refused\":%" PRIu64 ",\"flipped\":%" PRIu64 ",\"lines\":[",
           (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6,
           e->refused, e->flipped);
    const char *comma = "";
    for (uint32_t from = 0; from < e->sites; from++) {
        for (uint32_t to = 0; to < e->sites; to++) {
            const line *l = &e->lines[from][to];
            if (from != to) {
                printf("%s{\"from\":%u,\"to\":%u,\"rate\":%g,\"delay\":%g,\"packets\":%" PRIu64
                       ",\"bytes\":%" PRIu64 ",\"queue_drops\":%" PRIu64 ",\"lost\":%" PRIu64
                       ",\"queue_bytes\":%" PRIu64 ",\"late_max_us\":%" PRId64 "}",
                       comma, from, to, l->settings.rate_mbit, l->settings.delay_ms,
                       l->sent_packets, l->sent_bytes, l->queue_drops, l->lost_packets,
                       l->queue_bytes, l->late_max_us);
                comma = ",";
            }
        }
    }
    puts("]}");
}

static void obey(emulator *e, char *words) {
    if (strcmp(words, "stats") == 0)
        print_stats(e);
    else if (strncmp(words, "set ", 4) == 0)
        for_lines(e, words + 4, set_line);
    else if (strncmp(words, "stall ", 6) == 0)
        for_lines(e, words + 6, stall_line);
    else if (strncmp(words, "flip ", 5) == 0)
        for_lines(e, words + 5, flip_bit);
    else
        puts("{\"error\":\"set, stall, flip or stats\"}");
    fflush(stdout);
}

static void read_control(emulator *e) {
    ssize_t length =
        read(STDIN_FILENO, e->text + e->text_length, sizeof e->text - 1 - e->text_length);
    if (length <= 0) {
        e->ending = length == 0 || errno != EINTR;
        return;
    }
    e->text_length += (size_t)length;
    e->text[e->text_length] = '\0';
    char *begin = e->text, *end;
    while ((end = strchr(begin, '\n')) != NULL) {
        *end = '\0';
        obey(e, begin);
        begin = end + 1;
    }
    e->text_length -= (size_t)(begin - e->text);
    memmove(e->text, begin, e->text_length + 1);
    if (e->text_length == sizeof e->text - 1)
        e->text_length = 0; /* a line that long is none of ours */
}

/* ---- Life ---- */

static void run(emulator *e) {
    struct pollfd polled[SITES_MAX + 1];
    for (uint32_t i = 0; i < e->sites; i++)
        polled[i] = (struct pollfd){.fd = e->devices[i], .events = POLLIN};
    polled[e->sites] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    while (!e->ending) {
        deliver(e);
        int64_t wait_ns = next_ns(e), now_ns = clock_ns();
        struct timespec timeout = {0};
        if (wait_ns > now_ns && wait_ns != INT64_MAX) {
            timeout =
                (struct timespec){(wait_ns - now_ns) / 1000000000, (wait_ns - now_ns) % 1000000000};
        }
        if (ppoll(polled, e->sites + 1, wait_ns == INT64_MAX ? NULL : &timeout, NULL) <= 0)
            continue;
        for (uint32_t i = 0; i < e->sites; i++)
            if (polled[i].revents != 0)
                take_in(e, i);
        if (polled[e->sites].revents != 0)
            read_control(e);
    }
}

static bool become_punctual(void) {
    struct sched_param priority = {.sched_priority = PRIORITY};
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    mlockall(MCL_CURRENT | MCL_FUTURE);
    return sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
}

int main(int argc, char **argv) {
    static emulator e;
    if (argc < 3 || argc - 1 > (int)SITES_MAX) {
        fprintf(stderr, "usage: link_emulator NAMESPACE NAMESPACE... (at most %u)\n", SITES_MAX);
        return 2;
    }
    signal(SIGINT, SIG_IGN); /* a terminal's: whoever holds stdin decides */
    e.sites = (uint32_t)(argc - 1);
    for (uint32_t i = 0; i < e.sites; i++) {
        e.devices[i] = tun_open(argv[i + 1], "wan");
        if (e.devices[i] < 0) {
            fprintf(stderr, "link_emulator: %s: %s\n", argv[i + 1], strerror(errno));
            return 1;
        }
        for (uint32_t j = 0; j < e.sites; j++)
            line_init(&e.lines[i][j], i * SITES_MAX + j);
    }
    printf("{\"realtime\":%s}\n", become_punctual() ? "true" : "false");
    fflush(stdout);
    run(&e);
    for (uint32_t i = 0; i < e.sites; i++) {
        for (uint32_t j = 0; j < e.sites; j++)
            line_clear(&e.lines[i][j]);
        close(e.devices[i]);
    }
    return 0;
}
