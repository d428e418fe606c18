/* What a scrape of a gateway with 64 workers takes, over HTTP on loopback, and what the engine's
 * thread works for it each second and for each token:
 *
 *   metrics_scrape [SCRAPES]
 *
 * The fleet is the real registry, planner, scheduler and renderer with made-up reports; the page is
 * put together as the gateway's is. */
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/metrics/process_metrics.h"
#include "common/metrics/published_text.h"
#include "common/operator/operator_port.h"
#include "gateway/engine/fleet_metrics.h"
#include "gateway/openai/request_metrics.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 64u
#define RENDERS 100
#define TOKENS  1000000

typedef struct bench {
    lh_router *router;
    lh_request_metrics requests;
    lh_published_text *published;
} bench;

static void check(bool is_well, const char *what) {
    if (is_well)
        return;
    fprintf(stderr, "metrics_scrape: %s\n", what);
    exit(1);
}

static void ignore_event(void *context, uint64_t handle, const lh_sequence_event *event) {
    (void)context;
    (void)handle;
    (void)event;
}

static lh_worker_report report_of(uint32_t number) {
    lh_worker_report report = {
        .instance = 1,
        .threads = 4,
        .memory_bytes = 100,
        .version = LONGHAUL_VERSION,
        .isa = "avx512",
        .next = {.present = true,
                 .connected = true,
                 .round_trip_us = 20123,
                 .bytes_per_us = 12.3456,
                 .bytes_sent = 123456789012},
        .compute = {.point_count = 2, .points = {{1, 2345.6}, {512, 345678.9}}},
        .kv = {.present = true, .pages_total = 1000, .page_positions = 16}};
    snprintf(report.name, sizeof report.name, "worker-%02u", number);
    snprintf(report.site, sizeof report.site, "site-%02u", number);
    snprintf(report.tls_address, sizeof report.tls_address, "192.0.2.%u:7101", number);
    return report;
}

/* All report, twice, so that a chain of all is planned. */
static void form(bench *b) {
    static lh_model_profile model = {
        .layers = WORKERS, .width = 4096, .vocabulary = 1000, .context = 4096};
    for (uint32_t i = 0; i < WORKERS; i++)
        model.layer_bytes[i] = model.row_bytes[i] = 90;
    const lh_fleet_options fleet = {.model = &model,
                                    .chain_name = "main",
                                    .model_digest = "",
                                    .kv_type = "f32",
                                    .origin = {.site = "site-00", .has_tls = true},
                                    .workers_expected = WORKERS,
                                    .context = 4096,
                                    .rows_max = 512,
                                    .plan_delay_us = 1000,
                                    .renew_us = 500000,
                                    .lease_us = 3000000,
                                    .probation_us = 1000000,
                                    .first_epoch = 1};
    const lh_scheduler_options scheduler = {.chain_name = "main",
                                            .sequences_max = 32,
                                            .queue_max = 256,
                                            .rows_max = 512,
                                            .width = 4096,
                                            .vocabulary = 1000,
                                            .step_timeout_us = 30000000,
                                            .prefix_cache = true};
    const lh_scheduler_sink sink = {NULL, ignore_event};
    lh_fleet_answer answer;
    check(lh_router_create(1, &fleet, &scheduler, &sink, 0, &b->router, NULL) == LH_OK,
          "no router");
    for (int64_t turn = 0; turn < 3; turn++)
        for (uint32_t i = 0; i < WORKERS; i++) {
            const lh_worker_report report = report_of(i);
            check(lh_router_put(b->router, &report, turn * 500000, &answer, NULL) == LH_OK,
                  "a worker is refused");
        }
}

static void publish(bench *b) {
    const lh_fleet_view view = {.state = "ready"};
    lh_exposition exposition = {0};
    lh_text_buffer text;
    lh_fleet_metrics_render(b->router, &view, 1500000, 1795442400.5, &exposition);
    check(lh_exposition_take(&exposition, &text, NULL) == LH_OK, "out of memory");
    lh_published_text_put(b->published, &text);
}

static unsigned render_page(void *context, lh_text_buffer *body) {
    const bench *b = context;
    lh_exposition exposition = {0};
    lh_build_metrics_render(&exposition, "gateway");
    lh_request_metrics_render(&b->requests, &exposition);
    lh_published_text_append_to(b->published, &exposition);
    lh_process_metrics_render(&exposition);
    return lh_exposition_take(&exposition, body, NULL) == LH_OK ? 200 : 500;
}

/* The bytes of the answer. */
static size_t scrape(uint16_t port) {
    static const char request[] =
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    static char answer[1 << 20];
    size_t length = 0;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    check(connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "cannot connect");
    check(send(fd, request, sizeof request - 1, 0) == sizeof request - 1, "cannot send");
    for (ssize_t got; (got = recv(fd, answer + length, sizeof answer - length, 0)) > 0;)
        length += (size_t)got;
    close(fd);
    check(strncmp(answer, "HTTP/1.1 200 ", 13) == 0, "the answer is not 200");
    return length;
}

/* Of this process, whoever else the machine works for. */
static double processor_us(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
}

/* What the engine's thread does of it for each token, the time of day included: nanoseconds. */
static double token_ns(bench *b) {
    double begun_us = processor_us();
    for (int i = 0; i < TOKENS; i++)
        lh_request_metrics_note_next_token(&b->requests, 20000 + (lh_clock_us() & 1023));
    return (processor_us() - begun_us) * 1000 / TOKENS;
}

static int by_size(const void *a, const void *b) {
    const int64_t *first = a, *second = b;
    return (*first > *second) - (*first < *second);
}

int main(int argc, char **argv) {
    static bench b;
    int count = argc > 1 ? atoi(argv[1]) : 1000;
    check(count > 0, "SCRAPES is above 0");
    lh_log_set_level(LH_LOG_ERROR);
    lh_request_metrics_init(&b.requests);
    check(lh_published_text_create(&b.published, NULL) == LH_OK, "out of memory");
    form(&b);
    double begun_us = processor_us();
    for (int i = 0; i < RENDERS; i++)
        publish(&b);
    double render_us = (processor_us() - begun_us) / RENDERS;
    const lh_operator_page page = {"/metrics", LH_METRICS_CONTENT_TYPE, render_page, &b};
    const lh_operator_port_options options = {
        .listen = "127.0.0.1:0", .usual = "", .allowed_hosts = "", .pages = &page, .page_count = 1};
    lh_operator_port *port;
    check(lh_operator_port_open(&options, &port, NULL) == LH_OK, "no port");
    int64_t *took_us = calloc((size_t)count, sizeof *took_us);
    check(took_us, "out of memory");
    size_t bytes = 0;
    begun_us = processor_us();
    for (int i = 0; i < count; i++) {
        int64_t before_us = lh_clock_us();
        bytes = scrape(lh_operator_port_number(port));
        took_us[i] = lh_clock_us() - before_us;
    }
    double scrape_us = (processor_us() - begun_us) / count;
    qsort(took_us, (size_t)count, sizeof *took_us, by_size);
    printf(
        "%u workers, a chain of %u stages: %zu bytes; the engine's thread works %.2f ms a "
        "second\nscrapes of %d: median %.2f ms, 99 %% %.2f ms, longest %.2f ms; %.2f ms of "
        "processor "
        "time each, at both ends\n",
        WORKERS,
        lh_fleet_chain(lh_chain_controller_fleet(lh_router_controller(b.router, 0)))->stage_count,
        bytes, render_us / 1000, count, (double)took_us[count / 2] / 1000,
        (double)took_us[count * 99 / 100] / 1000, (double)took_us[count - 1] / 1000,
        scrape_us / 1000);
    printf("a token: %.0f ns\n", token_ns(&b));
    lh_operator_port_close(port);
    lh_published_text_destroy(b.published);
    lh_router_destroy(b.router);
    free(took_us);
    return 0;
}
