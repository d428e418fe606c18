/* A gateway and a worker on this machine alone, as children of this process, for as long as it
 * wants them: they end with it, however it ends. They listen at free ports of loopback, keep
 * nothing on the disk, and hear no Ctrl-C. Thread: the program's only one. */
#pragma once

#include "common/base/status.h"

#include <stdint.h>

typedef struct lh_own_service_options {
    const char *model; /* path of the GGUF file */
    int64_t threads;   /* the worker's; 0: one for each core */
    int64_t kv_bytes;
} lh_own_service_options;

typedef struct lh_own_service lh_own_service;

/* Starts both and waits until the model is served, or Ctrl-C is pressed (interrupt.h):
 * LH_ERR_CANCELLED. LH_ERR_NOT_FOUND: there is no longhaul-worker; LH_ERR_UNAVAILABLE: one of them
 * has ended, and has said why on standard error, or the worker cannot hold the model; LH_ERR_IO,
 * LH_ERR_NO_MEMORY. */
lh_status lh_own_service_start(const lh_own_service_options *options, lh_own_service **service,
                               lh_error *error);
/* Of the API; as long as the service. */
const char *lh_own_service_url(const lh_own_service *service);
/* Ends both, and waits for that. NULL is allowed. */
void lh_own_service_stop(lh_own_service *service);
