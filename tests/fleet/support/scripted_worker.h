/* A worker on a thread and loop of its own, over the real HTTP/2 and step codec: it registers,
 * holds whatever stage it is given, and draws made-up tokens. For tests of the engine. */
#pragma once

#include "common/http2/server.h"

#include <stdint.h>

typedef struct scripted_worker scripted_worker;

/* fleet_port: the gateway's. */
scripted_worker *scripted_worker_start(int fleet_port);
void scripted_worker_stop(scripted_worker *worker);

/* The token that is drawn at a position of a sequence whose first token is `first`. */
uint32_t scripted_worker_token(uint32_t first, uint32_t position);
/* Steps are kept without an answer while this holds. Any thread. */
void scripted_worker_hold(scripted_worker *worker, bool hold);
/* Of each of the next so many reports one bit is flipped; how many have been refused. Any thread.
 */
void scripted_worker_garble(scripted_worker *worker, uint32_t reports);
uint32_t scripted_worker_refusals(const scripted_worker *worker);
/* Sequences that hold pages now; steps whose request was reset. Any thread. */
uint32_t scripted_worker_sequences(const scripted_worker *worker);
uint32_t scripted_worker_resets(const scripted_worker *worker);
