/* The worker's command line, and what it means on this machine. Thread: start-up only. */
#pragma once

#include "common/base/status.h"
#include "common/config/config.h"
#include "common/net/program_options.h"
#include "common/protocol/control/assignment_reply.h"
#include "common/sandbox/sandbox_rules.h"
#include "worker/defaults.h"
#include "worker/membership/fleet_member.h"

#include <stdbool.h>
#include <stdint.h>

/* Where a member of a fleet takes steps over TLS. */
#define LH_WORKER_MEMBER_PORT 7101
#define LH_STATE_SLOTS_MAX    64

/* Texts that are not given are "". Some are replaced by lh_worker_settings_complete, then point
 * into the struct. */
typedef struct lh_worker_settings {
    lh_config_options config;
    const char *name, *site, *gateway, *state_dir;
    const char *listen, *listen_tls, *advertise, *advertise_tls;
    const char *listen_members, *advertise_members; /* of a team (worker/team/team.h) */
    lh_program_options program;
    int64_t state_slots, threads, hop_connections, drain_timeout;
    const char *isa, *device, *cuda_library, *cublas_library;
    int64_t memory_bytes, kv_bytes;
    bool chooses_memory; /* memory_bytes was not given */
    bool relays, is_behind_relay;
    const char *cache_dir, *model, *slowdown;
    const char *metrics_listen; /* worker_metrics.h */

    /* Of `join URL TOKEN`, or of --join-file; "": without. */
    const char *join_url;
    const char *join_file;
    char own_join_url[LH_CONTROL_URL_BYTES];
    char join_token[2 * LH_JOIN_TOKEN_TEXT_BYTES];

    /* Of lh_worker_settings_adopt: the folder of its certificate, which it renews; NULL: none. */
    const char *member_dir;

    /* Of lh_worker_settings_complete. */
    char own_name[LH_WORKER_NAME_BYTES], own_site[LH_WORKER_NAME_BYTES];
    char gateway_url[LH_CONTROL_URL_BYTES], own_cache_dir[LH_CACHE_DIR_BYTES];
    char own_listen_tls[LH_ADDRESS_BYTES], own_advertise_tls[LH_ADDRESS_BYTES];
    double slowdown_factors[2]; /* now, and after the next switch */
} lh_worker_settings;

/* The table behind the flags, the configuration file, --help and the documents. */
extern const lh_option_table lh_worker_option_table;
/* The same flags, behind `join URL TOKEN`. */
extern const lh_option_table lh_worker_join_option_table;

/* Takes the words `join URL TOKEN` off the front, where the first one is there, so that flags
 * follow argv[0] again. The token is wiped there: every user of the machine can read a program's
 * arguments. False: it is another start. */
bool lh_worker_settings_take_join(lh_worker_settings *settings, int *argc, char ***argv);

/* Takes URL and token from --join-file, where there is such a file, something is in it, and no
 * `join` was before the flags. LH_ERR_INVALID: it is no such line, or others may read it;
 * LH_ERR_LIMIT, LH_ERR_IO. */
lh_status lh_worker_settings_read_join_file(lh_worker_settings *settings, lh_error *error);

/* Whether the flags leave it to the state folder who this worker is: there is no --tls-cert, nor a
 * gateway without TLS. */
bool lh_worker_settings_may_be_member(const lh_worker_settings *settings);
/* Of several workers with the same flags: `name`, where it is given, with the number of this one
 * behind it. */
void lh_worker_settings_number_name(lh_worker_settings *settings, const char *name,
                                    uint32_t number);
/* Takes from the member what was not given: name, site, gateway, TLS files, listener and how others
 * reach it. Before _complete; the member outlives the settings. LH_ERR_INVALID: another name or
 * site was given than the certificate's. */
lh_status lh_worker_settings_adopt(lh_worker_settings *settings, const lh_fleet_member *member,
                                   lh_error *error);

/* Checks what the table cannot say and fills in what was not given: name and site where there is no
 * certificate, listen, threads, memory_bytes, cache_dir; gateway loses a slash at its end. The
 * struct must stay where it is afterwards. LH_ERR_INVALID: the message names the flag and what to
 * do. */
lh_status lh_worker_settings_complete(lh_worker_settings *settings, lh_error *error);
/* Name and site as the certificate has them. LH_ERR_INVALID: a flag says something else. */
lh_status lh_worker_settings_take_identity(lh_worker_settings *settings,
                                           const lh_tls_identity *identity, lh_error *error);

typedef enum lh_worker_listener {
    LH_WORKER_LISTENER_PLAIN,
    LH_WORKER_LISTENER_TLS,
    LH_WORKER_LISTENER_MEMBERS
} lh_worker_listener;

/* How others reach a listener, which has taken `port`: as --advertise... says, or at the listener's
 * own host. "" where there is no such listener. LH_ERR_INVALID: at an address
 * that nobody can connect to (0.0.0.0). */
lh_status lh_worker_settings_advertise(const lh_worker_settings *settings,
                                       lh_worker_listener listener, int port,
                                       char address[LH_ADDRESS_BYTES], lh_error *error);

/* What a worker with these (complete) settings may touch after its start: a line for each setting
 * that names a path or a listener. */
void lh_worker_settings_allow(const lh_worker_settings *settings, lh_sandbox_rules *rules);
