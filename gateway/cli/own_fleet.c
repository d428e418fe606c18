/* Folder and names. */
#include "gateway/cli/own_fleet.h"

#include "common/base/log.h"
#include "common/base/state_folder.h"
#include "common/net/own_address.h"
#include "gateway/cli/duration.h"
#include "gateway/membership/host_name.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* By which other tools may reach it. */
typedef struct own_hosts {
    lh_address listen;
    char name[LH_HOST_NAME_BYTES], address[LH_ADDRESS_TEXT_BYTES];
} own_hosts;

static void add_host(lh_membership_options *options, const char *host) {
    if (host[0] && strcmp(host, "0.0.0.0") != 0 && strcmp(host, "::") != 0)
        options->hosts[options->host_count++] = host;
}

static void list_hosts(own_hosts *hosts, lh_membership_options *options) {
    if (gethostname(hosts->name, sizeof hosts->name) != 0)
        hosts->name[0] = '\0';
    hosts->name[sizeof hosts->name - 1] = '\0';
    if (!lh_own_address(hosts->address))
        hosts->address[0] = '\0';
    add_host(options, "localhost");
    add_host(options, "127.0.0.1");
    add_host(options, "::1");
    add_host(options, hosts->name);
    add_host(options, hosts->address);
    add_host(options, hosts->listen.host);
}

/* The files are there then. */
static lh_status write_files(lh_membership *membership, lh_error *error) {
    lh_membership_view view;
    const lh_upkeep_moment moment = {.now_s = time(NULL)};
    lh_status status = lh_upkeep_refresh(lh_membership_upkeep(membership), &moment, &view, error);
    if (status == LH_OK)
        lh_membership_view_reset(&view);
    return status;
}

lh_status lh_own_fleet_open(lh_gateway_settings *settings, lh_membership **membership,
                            lh_error *error) {
    char folder[LH_STATE_PATH_BYTES];
    own_hosts hosts = {0};
    lh_membership_options options = {.folder = folder};
    lh_status status = lh_state_folder_choose(settings->state_dir, "gateway", folder, error);
    if (status == LH_OK)
        status = lh_gateway_settings_certificate_life(settings, &options.certificate_life_s, error);
    if (status == LH_OK)
        status = lh_address_parse(settings->fleet_listen, &hosts.listen, error);
    if (status != LH_OK)
        return status;
    list_hosts(&hosts, &options);
    lh_membership *opened;
    status = lh_membership_open(&options, time(NULL), &opened, error);
    if (status != LH_OK)
        return status;
    status = write_files(opened, error);
    if (status != LH_OK) {
        lh_membership_close(opened);
        return status;
    }
    *membership = opened;
    settings->program.tls = lh_membership_tls(*membership);
    lh_log(LH_LOG_INFO, "gateway",
           "the fleet has its own CA: longhaul-gateway token lets workers join state_dir=%s",
           folder);
    return LH_OK;
}

lh_status lh_own_fleet_note_port(const lh_gateway_settings *settings, lh_membership *membership,
                                 int port, lh_error *error) {
    char text[LH_FLEET_LISTEN_BYTES];
    lh_address address;
    lh_status status = lh_address_parse(settings->fleet_listen, &address, error);
    if (status != LH_OK)
        return status;
    bool is_v6 = strchr(address.host, ':');
    snprintf(text, sizeof text, "%s%s%s:%d", is_v6 ? "[" : "", address.host, is_v6 ? "]" : "",
             port);
    return lh_membership_note_listen(membership, text, error);
}

void lh_own_fleet_allow(const lh_gateway_settings *settings, lh_sandbox_rules *rules) {
    char folder[LH_STATE_PATH_BYTES];
    if (lh_state_folder_choose(settings->state_dir, "gateway", folder, NULL) == LH_OK)
        lh_sandbox_rules_allow_write(rules, folder);
}
