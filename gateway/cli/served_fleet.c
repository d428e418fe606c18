/* The records say where its gateway listens, and a handshake whether it does, with TLS. */
#include "gateway/cli/served_fleet.h"

#include "common/base/state_folder.h"
#include "gateway/cli/api_transfer.h"
#include "gateway/membership/membership.h"

#include <stdio.h>
#include <string.h>

#define ADDRESS_BYTES (LH_FLEET_LISTEN_BYTES + 16)

/* How a machine reaches a port of its own. */
static void make_local(const char *listen, char text[ADDRESS_BYTES]) {
    static const char any_v4[] = "0.0.0.0:", any_v6[] = "[::]:";
    if (strncmp(listen, any_v4, sizeof any_v4 - 1) == 0)
        snprintf(text, ADDRESS_BYTES, "127.0.0.1:%s", listen + sizeof any_v4 - 1);
    else if (strncmp(listen, any_v6, sizeof any_v6 - 1) == 0)
        snprintf(text, ADDRESS_BYTES, "[::1]:%s", listen + sizeof any_v6 - 1);
    else
        snprintf(text, ADDRESS_BYTES, "%s", listen);
}

static lh_status ask(const char *folder, const char *listen, lh_error *error) {
    char own[LH_STATE_PATH_BYTES], address[ADDRESS_BYTES];
    lh_error cause;
    make_local(listen, address);
    lh_status status = lh_state_folder_path(folder, LH_OWN_CERTIFICATE_FILE, own, error);
    if (status != LH_OK)
        return status;
    status = lh_api_handshake(address, own, &cause);
    if (status == LH_ERR_PROTOCOL)
        return lh_fail(error, LH_ERR_UNSUPPORTED,
                       "what listens at %.100s has no CA, so that nobody can join it: start the "
                       "gateway with --fleet-listen 0.0.0.0:7100, or with --state-dir %.100s",
                       address, folder);
    return status == LH_OK ? LH_OK : lh_fail(error, status, "%s", cause.message);
}

lh_status lh_served_fleet_check(const char *folder, lh_error *error) {
    lh_records records;
    char listen[LH_FLEET_LISTEN_BYTES];
    lh_status status = lh_records_read(folder, &records, error);
    if (status != LH_OK)
        return status;
    bool is_there = records.authorities.count > 0 && records.fleet_listen[0];
    snprintf(listen, sizeof listen, "%s", records.fleet_listen);
    lh_records_reset(&records);
    if (is_there)
        return ask(folder, listen, error);
    return lh_fail(error, LH_ERR_NOT_FOUND,
                   "no gateway serves a fleet with a CA from %.100s: start it first, with "
                   "--fleet-listen 0.0.0.0:7100 (on loopback it has no CA, and workers need no "
                   "token: longhaul-worker alone), or say its --state-dir",
                   folder);
}
