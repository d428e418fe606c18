/* The worker's operator port: /metrics, which tells of its stage, its KV cache and its next hop,
 * and /livez. The loop publishes the figures once a second, the port's own thread hands out what
 * was published last: a scrape waits for no step, and no step for a scrape. Thread: the loop's. */
#pragma once

#include "common/metrics/exposition.h"
#include "common/operator/operator_port.h"
#include "common/protocol/worker_report.h"
#include "worker/mesh/mesh.h"
#include "worker/serve/server.h"

#include <uv.h>

/* Where --metrics-listen is not given. */
#define LH_WORKER_METRICS_LISTEN "127.0.0.1:7103"

typedef struct lh_worker_metrics lh_worker_metrics;

typedef struct lh_worker_figures {
    lh_worker_report report;
    lh_server_status server;
    lh_mesh_totals gathers; /* with other members of its stage; zeros: it computes alone */
} lh_worker_figures;

typedef struct lh_worker_metrics_options {
    uv_loop_t *loop;
    const char *listen; /* lh_operator_port_options */
    const char *name;   /* of the worker */
    /* Fills in what there is to tell now. The loop's thread. */
    void (*read)(void *context, lh_worker_figures *figures);
    void *context;
} lh_worker_metrics_options;

/* What the options point to outlives the metrics. Statuses of lh_operator_port_open,
 * LH_ERR_NO_MEMORY. */
lh_status lh_worker_metrics_open(const lh_worker_metrics_options *options,
                                 lh_worker_metrics **metrics, lh_error *error);
/* Nothing is read any more; it is gone when the loop has closed its handle. NULL is allowed. */
void lh_worker_metrics_close(lh_worker_metrics *metrics);
/* 0: there is no such port. */
uint16_t lh_worker_metrics_port(const lh_worker_metrics *metrics);

/* The families that are published. */
void lh_worker_metrics_render(const char *name, const lh_worker_figures *figures,
                              lh_exposition *exposition);
