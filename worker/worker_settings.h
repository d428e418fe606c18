/* The worker's command line, and what it means on this machine. Thread: start-up only. */
#pragma once

#include "common/base/status.h"
#include "common/net/program_options.h"
#include "worker/control/control_json.h"

#include <stdbool.h>
#include <stdint.h>

/* Texts that are not given are "". Some are replaced by lh_worker_settings_complete, then point
 * into the struct. */
typedef struct lh_worker_settings {
    const char *name, *site, *gateway;
    const char *listen, *listen_tls, *advertise, *advertise_tls;
    lh_program_options program;
    int64_t threads, hop_connections, drain_timeout;
    const char *isa;
    int64_t memory_bytes, kv_bytes;
    const char *cache_dir, *model, *slowdown;

    /* Of lh_worker_settings_complete. */
    char own_name[LH_WORKER_NAME_BYTES], gateway_url[LH_CONTROL_URL_BYTES], own_cache_dir[1024];
    double slowdown_factors[2]; /* now, and after the next switch */
} lh_worker_settings;

/* The table behind the flags, --help and docs/FLAGS.md. */
extern const lh_option_table lh_worker_option_table;

/* Checks what the table cannot say and fills in what was not given: name, listen, threads,
 * memory_bytes, cache_dir; gateway loses a slash at its end. The struct must stay where it is
 * afterwards. LH_ERR_INVALID: the message names the flag and what to do. */
lh_status lh_worker_settings_complete(lh_worker_settings *settings, lh_error *error);

/* How others reach the plain or the TLS listener, which has taken `port`: as --advertise says, or
 * at the listener's own host. "" where there is no such listener. LH_ERR_INVALID: at an address
 * that nobody can connect to (0.0.0.0). */
lh_status lh_worker_settings_advertise(const lh_worker_settings *settings, bool tls, int port,
                                       char address[LH_ADDRESS_BYTES], lh_error *error);
