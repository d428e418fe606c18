/* Who may ask a worker for what, by the certificate that he has shown and the worker's place in its
 * chain:
 *
 *   steps and shards   the one before this worker in its chain, as its assignment says, alone;
 *                      where they are to come through a relay, the relay alone, and it has to name
 *                      that one as their sender
 *   trials, probes     any member: who will be before this worker in the next chain is not told to
 *                      it, and a trial changes nothing and has bounds of its own
 *   the status         the gateway
 *   health             any member
 *
 * Without TLS nobody is known: then it says who may reach the port, a relay need not know the
 * sender either, and the status is for this machine alone. A pure function. Thread: any. */
#pragma once

#include "worker/serve/chain_place.h"
#include "worker/serve/request.h"

/* Before a byte of the body is read. LH_ERR_UNAVAILABLE: he may not, and the message says who may.
 */
lh_status lh_authorize(const lh_chain_place *place, const lh_h2_request *http,
                       const lh_worker_request *request, lh_error *error);
