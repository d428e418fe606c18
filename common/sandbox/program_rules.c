/* One line for each option. */
#include "common/sandbox/program_rules.h"

#include "common/net/address.h"

#include <string.h>

void lh_program_rules_begin(const lh_program_options *options, lh_sandbox_rules *rules) {
    rules->is_off = strcmp(options->sandbox, "off") == 0;
    rules->keeps_network_admin = options->congestion_control[0];
    rules->logs_denials = strcmp(options->log_level, "debug") == 0;
}

void lh_program_rules_allow_tls(const lh_program_options *options, lh_sandbox_rules *rules) {
    lh_sandbox_rules_allow_read_replaced(rules, options->tls.certificate_file);
    lh_sandbox_rules_allow_read_replaced(rules, options->tls.key_file);
    lh_sandbox_rules_allow_read_replaced(rules, options->tls.ca_file);
}

void lh_program_rules_allow_listener(const char *listen, lh_sandbox_rules *rules) {
    lh_address address;
    if (listen && listen[0] && lh_address_parse(listen, &address, NULL) == LH_OK)
        lh_sandbox_rules_allow_listen(rules, address.port);
}
