/* The gateway's operator port: /metrics, put together from those whose figures they are (the API's
 * requests, the engine's fleet, the process), and /health, /readyz and /livez. Each source is asked
 * for what it has, and knows nothing of the others. Thread: open and close by one thread. */
#pragma once

#include "common/operator/operator_port.h"
#include "gateway/openai/api.h"

typedef struct lh_operator_pages lh_operator_pages;

typedef struct lh_operator_pages_options {
    const char *listen, *usual; /* lh_operator_port_options */
    /* All outlive the pages. */
    lh_engine *engine;
    const lh_openai_api *api;
    const lh_served_model *model;
} lh_operator_pages_options;

/* Statuses of lh_operator_port_open, LH_ERR_NO_MEMORY. */
lh_status lh_operator_pages_open(const lh_operator_pages_options *options,
                                 lh_operator_pages **pages, lh_error *error);
/* NULL is allowed. */
void lh_operator_pages_close(lh_operator_pages *pages);
/* 0: there is no such port. */
uint16_t lh_operator_pages_port(const lh_operator_pages *pages);
