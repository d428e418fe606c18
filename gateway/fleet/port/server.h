/* The fleet port: the HTTP/2 server of the control plane (common/protocol/CONTROL.md), of the
 * ring's last hop (common/protocol/PROTOCOL.md) and of the model's weights.
 *
 *   PUT  /fleet/workers/{name}              a worker's report; the answer is its assignment
 *   POST /chains/{chain}/steps/{step}       tokens from the last worker
 *   POST /chains/{chain}/trials/0           a step of the trial of such a hop
 *   GET  /fleet/models/{sha256}/weights     the file, by ranges
 *   GET  /fleet/models/{sha256}/tensors     the tensors' digests
 *
 * and what member_routes.h has.
 *
 * It decides nothing: reports and results go to its owner. Thread: the loop's. */
#pragma once

#include "common/http2/server.h"
#include "common/protocol/step.h"
#include "gateway/fleet/fleet.h"
#include "gateway/fleet/port/control_json.h"
#include "gateway/membership/membership.h"

typedef struct lh_fleet_server lh_fleet_server;

typedef struct lh_fleet_server_owner {
    void *context;
    /* LH_ERR_LIMIT: no room for another worker. */
    lh_status (*on_report)(void *context, const lh_worker_report *report, lh_fleet_answer *answer,
                           lh_error *error);
    /* As lh_scheduler_results. peer: who brings them. */
    lh_status (*on_results)(void *context, const char *chain, const lh_tls_identity *peer,
                            uint32_t epoch, uint64_t step, const lh_step_result *results,
                            uint32_t count, lh_error *error);
    /* What came in the place of results cannot be read. epoch: 0 where not even that could be. */
    void (*on_unreadable)(void *context, const char *chain, const lh_tls_identity *peer,
                          uint32_t epoch, uint64_t step, const char *message);
    /* A worker's certificates have been revoked. Where there is no membership: never. */
    void (*on_revoked)(void *context, const char *worker);
} lh_fleet_server_owner;

/* model: name and file; the paths are the server's own (lh_fleet_server_model). Both outlive the
 * server. Errors: those of lh_h2_server_create. */
lh_status lh_fleet_server_create(uv_loop_t *loop, const char *listen, const lh_tls_options *tls,
                                 const lh_h2_limits *limits, const char *model_name,
                                 const lh_model_file *model_file,
                                 const lh_fleet_server_owner *owner, lh_fleet_server **server,
                                 lh_error *error);
/* Adds what members ask of it (member_routes.h); once, before the loop runs, where there is TLS.
 * tls is that of the server; membership NULL: the gateway has no CA of its own. Both outlive the
 * server. Errors: those of lh_member_routes_create. */
lh_status lh_fleet_server_open_members(lh_fleet_server *server, uv_loop_t *loop,
                                       const lh_tls_options *tls, const lh_h2_limits *limits,
                                       lh_membership *membership, lh_error *error);
int lh_fleet_server_port(const lh_fleet_server *server);
/* Those who have certificates of the gateway's own CA, until the loop's next turn; NULL: it has
 * none. */
const lh_member_list *lh_fleet_server_members(const lh_fleet_server *server);
const lh_fleet_model *lh_fleet_server_model(const lh_fleet_server *server);
/* on_closed may be NULL; the server is gone when it is called. */
void lh_fleet_server_close(lh_fleet_server *server, void (*on_closed)(void *), void *context);
