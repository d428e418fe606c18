/* Lines from each site to each other one, and whoever steers them over stdin. */
#include "link/sites.h"

#include "common/base/status.h"
#include "link/line_words.h"
#include "link/punctuality.h"
#include "link/tun_device.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define NETWORK 0x0ac90000u /* 10.201.0.0 */
/* Packets of one site that are read before others are looked at. */
#define READ_AT_ONCE 32
/* Deliveries are at least so far apart: at a high rate several packets share a wake-up. */
#define QUANTUM_NS 200000
typedef struct emulator {
    uint32_t sites;
    int devices[LH_LINK_SITES_MAX];
    lh_line lines[LH_LINK_SITES_MAX][LH_LINK_SITES_MAX]; /* [from][to] */
    uint64_t flips[LH_LINK_SITES_MAX]
                  [LH_LINK_SITES_MAX]; /* dice of the bit that is to be flipped; 0: none */
    uint64_t flipped;
    int64_t delivered_ns; /* last */
    uint64_t refused;     /* packets that the kernel did not take */
    char text[1024];      /* of stdin, up to a line's end */
    size_t text_length;
    bool ending;
} emulator;

/* ---- Packets ---- */

typedef struct pushing {
    emulator *emulator;
    uint32_t from, to;
    int64_t now_ns;
} pushing;

static void push(void *context, lh_packet *p) {
    const pushing *way = context;
    emulator *e = way->emulator;
    uint64_t *dice = &e->flips[way->from][way->to];
    if (*dice != 0 && lh_tun_flip_bit(p, *dice)) {
        *dice = 0;
        e->flipped++;
    }
    lh_line_push(&e->lines[way->from][way->to], p, way->now_ns);
}

static void take_in(emulator *e, uint32_t from) {
    static uint8_t bytes[LH_TUN_PACKET_BYTES_MAX];
    for (int i = 0; i < READ_AT_ONCE; i++) {
        ptrdiff_t length = lh_tun_read(e->devices[from], bytes);
        if (length < 0)
            e->ending = true; /* the namespace is gone */
        if (length <= 0)
            return;
        uint32_t to = lh_tun_destination(bytes, (size_t)length) - NETWORK - 1;
        if (to < e->sites && to != from) {
            pushing way = {e, from, to, lh_link_clock_ns()};
            lh_tun_cut(bytes, (size_t)length, lh_line_grain(&e->lines[from][to]), push, &way);
        }
    }
}

static void deliver(emulator *e) {
    for (uint32_t from = 0; from < e->sites; from++) {
        for (uint32_t to = 0; to < e->sites; to++) {
            lh_packet *p;
            while ((p = lh_line_pop(&e->lines[from][to], lh_link_clock_ns())) != NULL) {
                e->refused += !lh_tun_write(e->devices[to], p);
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
            int64_t here = lh_line_next_ns(&e->lines[from][to]);
            next = here < next ? here : next;
        }
    }
    int64_t earliest = e->delivered_ns + QUANTUM_NS;
    return next < earliest ? earliest : next;
}

/* ---- Control ---- */

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
    lh_line *l = &e->lines[from][to];
    lh_line_settings settings = l->settings;
    const char *wrong = lh_line_words_read(&settings, words);
    if (!wrong)
        lh_line_set(l, &settings, lh_link_clock_ns());
    return wrong;
}

static const char *stall_line(emulator *e, uint32_t from, uint32_t to, char *words) {
    double ms;
    if (!lh_line_number_read(words, &ms))
        return words;
    lh_line_stall(&e->lines[from][to], ms, lh_link_clock_ns());
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
            const lh_line *l = &e->lines[from][to];
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
    struct pollfd polled[LH_LINK_SITES_MAX + 1];
    for (uint32_t i = 0; i < e->sites; i++)
        polled[i] = (struct pollfd){.fd = e->devices[i], .events = POLLIN};
    polled[e->sites] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    while (!e->ending) {
        deliver(e);
        int64_t wait_ns = next_ns(e), now_ns = lh_link_clock_ns();
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

lh_status lh_link_sites(int count, char **namespaces, lh_error *error) {
    static emulator e; /* some hundred KiB of lines */
    lh_status status = LH_OK;
    e.sites = (uint32_t)count;
    for (uint32_t i = 0; i < e.sites && status == LH_OK; i++) {
        e.devices[i] = lh_tun_open(namespaces[i], "wan");
        if (e.devices[i] < 0)
            status = lh_fail(error, LH_ERR_IO, "the network namespace %.100s: %s", namespaces[i],
                             strerror(errno));
        for (uint32_t j = 0; j < e.sites; j++)
            lh_line_init(&e.lines[i][j], i * LH_LINK_SITES_MAX + j);
    }
    if (status != LH_OK)
        return status;       /* and the program ends */
    signal(SIGINT, SIG_IGN); /* a terminal's: whoever holds stdin decides */
    printf("{\"realtime\":%s}\n", lh_link_become_punctual() ? "true" : "false");
    fflush(stdout);
    run(&e);
    for (uint32_t i = 0; i < e.sites; i++) {
        for (uint32_t j = 0; j < e.sites; j++)
            lh_line_clear(&e.lines[i][j]);
        close(e.devices[i]);
    }
    return LH_OK;
}
