/* State folder, slot and token.
 *
 * Replicas of one service on a container engine start with the same flags on the same volume. Each
 * needs a name and a key of its own, and whoever takes a container's place should be who that one
 * was. So with --state-slots N they take folders of their own in --state-dir, numbered from 1 on:
 * each the first that no other one has locked. */
#include "worker/fleet_entry.h"

#include "common/base/state_folder.h"

#include <stdio.h>
#include <string.h>

static lh_status check_join(const lh_worker_settings *settings, lh_error *error) {
    if (settings->join_token[0] == '\0')
        return lh_fail(error, LH_ERR_INVALID,
                       "join: two words follow, https://HOST:PORT and a token: paste the line that "
                       "`longhaul-gateway token` has printed");
    if (!lh_worker_settings_may_be_member(settings))
        return lh_fail(error, LH_ERR_INVALID,
                       "join: this machine gets a certificate, and its connections are encrypted: "
                       "leave out --tls-cert, --tls-key, --tls-ca and a --gateway of http://");
    const lh_joining_order order = {settings->join_url, settings->join_token, settings->name};
    return lh_joining_order_check(&order, error);
}

static lh_status enter_folder(lh_worker_settings *settings, const char *folder, bool is_joining,
                              lh_fleet_member **member, lh_error *error) {
    const lh_joining_order order = {settings->join_url, settings->join_token, settings->name};
    lh_status status = lh_fleet_member_open(folder, is_joining ? &order : NULL, member, error);
    return status == LH_OK ? lh_worker_settings_adopt(settings, *member, error) : status;
}

static lh_status enter_slot(lh_worker_settings *settings, const char *folder, bool is_joining,
                            lh_fleet_member **member, lh_error *error) {
    const char *name = settings->name;
    for (uint32_t slot = 1; slot <= (uint32_t)settings->state_slots; slot++) {
        char number[16], path[LH_STATE_PATH_BYTES];
        snprintf(number, sizeof number, "%u", slot);
        lh_status status = lh_state_folder_path(folder, number, path, error);
        if (status != LH_OK)
            return status;
        if (!is_joining && !lh_membership_store_is_joined(path))
            continue;
        lh_worker_settings_number_name(settings, name, slot);
        status = enter_folder(settings, path, is_joining, member, error);
        if (status != LH_ERR_BUSY)
            return status;
    }
    return lh_fail(error, LH_ERR_BUSY,
                   is_joining ? "--state-slots %lld: other workers use all of them in %.200s"
                              : "--state-slots %lld: no worker that has joined in %.200s is idle",
                   (long long)settings->state_slots, folder);
}

static lh_status enter(lh_worker_settings *settings, bool is_joining, lh_fleet_member **member,
                       lh_error *error) {
    char folder[LH_STATE_PATH_BYTES];
    lh_status status = is_joining ? check_join(settings, error) : LH_OK;
    if (status != LH_OK || !lh_worker_settings_may_be_member(settings))
        return status;
    bool is_named = is_joining || settings->state_dir[0] != '\0';
    status = lh_state_folder_choose(settings->state_dir, "worker", folder, error);
    if (status != LH_OK)
        return is_named ? status : LH_OK;
    if (settings->state_slots > 0)
        return enter_slot(settings, folder, is_joining, member, error);
    if (is_joining || lh_membership_store_is_joined(folder))
        return enter_folder(settings, folder, is_joining, member, error);
    return is_named ? lh_fail(error, LH_ERR_INVALID,
                              "--state-dir %.160s: no worker has joined there yet: "
                              "longhaul-worker join, with the line of `longhaul-gateway token`",
                              folder)
                    : LH_OK;
}

lh_status lh_fleet_entry_open(lh_worker_settings *settings, bool is_joining,
                              lh_fleet_member **member, lh_error *error) {
    lh_status status = lh_worker_settings_read_join_file(settings, error);
    is_joining |= settings->join_url[0] != '\0';
    if (status == LH_OK)
        status = enter(settings, is_joining, member, error);
    explicit_bzero(settings->join_token, sizeof settings->join_token);
    return status;
}

lh_status lh_fleet_entry_look(lh_worker_settings *settings, lh_fleet_member **member,
                              lh_error *error) {
    return enter(settings, false, member, error);
}
