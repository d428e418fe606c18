/* Drives one chain: does over its first hop what the chain controller wants done, tells the
 * controller what comes of it, and records the steps of traced requests. Thread: the loop's. */
#pragma once

#include "common/http2/limits.h"
#include "common/net/tls_channel.h"
#include "gateway/engine/chain_controller.h"
#include "gateway/trace/trace_store.h"

#include <uv.h>

typedef struct lh_chain_driver lh_chain_driver;

typedef struct lh_chain_driver_options {
    uv_loop_t *loop;
    const char *name; /* of the chain */
    lh_chain_controller *controller;
    const lh_tls_options *tls; /* NULL: none */
    lh_h2_limits limits;
    lh_trace_store *traces; /* NULL: nothing is traced */
    uint32_t sequences_max; /* on the chain */
    /* From the loop, never inside a call: the controller has been told something, so it may want
     * something done. */
    void (*on_news)(void *context);
    void *context;
} lh_chain_driver_options;

/* What the options point to outlives the driver. LH_ERR_NO_MEMORY. */
lh_status lh_chain_driver_create(const lh_chain_driver_options *options, lh_chain_driver **driver,
                                 lh_error *error);
/* No further on_news comes. on_closed comes from the loop; the driver is gone then. */
void lh_chain_driver_close(lh_chain_driver *driver, void (*on_closed)(void *), void *context);

/* The controller's next action. */
void lh_chain_driver_act(lh_chain_driver *driver, const lh_action *action);
/* As lh_chain_controller_results. LH_ERR_INVALID: with TLS, a peer that is not the chain's last
 * worker. */
lh_status lh_chain_driver_results(lh_chain_driver *driver, const lh_tls_identity *peer,
                                  uint32_t epoch, uint64_t step, const lh_step_result *results,
                                  uint32_t count, lh_error *error);
/* As lh_chain_controller_refuse_results; nothing comes of it with TLS, where the peer is not the
 * chain's last worker. */
void lh_chain_driver_refuse_results(lh_chain_driver *driver, const lh_tls_identity *peer,
                                    uint32_t epoch, uint64_t step, const char *message);
/* What is measured of the first hop; not present where there is none. */
lh_hop_profile lh_chain_driver_first_hop(const lh_chain_driver *driver);
/* Tells the controller of it. */
void lh_chain_driver_measure(lh_chain_driver *driver);
