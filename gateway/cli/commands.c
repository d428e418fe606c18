/* One row for each. */
#include "gateway/cli/commands.h"

#include "gateway/cli/chat_command.h"
#include "gateway/cli/check_command.h"
#include "gateway/cli/doctor_command.h"
#include "gateway/cli/key_command.h"
#include "gateway/cli/member_command.h"
#include "gateway/cli/models_command.h"
#include "gateway/cli/plan_command.h"
#include "gateway/cli/pull_command.h"
#include "gateway/cli/run_command.h"
#include "gateway/cli/status_command.h"
#include "gateway/cli/token_command.h"
#include "gateway/cli/trace_command.h"

const lh_command lh_gateway_commands[LH_GATEWAY_COMMANDS] = {
    {"run", "serves a model on this machine alone, and talks with it", &lh_run_command_options,
     lh_run_command},
    {"chat", "talks with the model of a running gateway", &lh_chat_command_options,
     lh_chat_command},
    {"check", "whether a running gateway is well", &lh_check_command_options, lh_check_command},
    {"status", "the fleet: workers, links, and what holds it back", &lh_status_command_options,
     lh_status_command},
    {"doctor", "what is wrong with the fleet, and what to do", &lh_doctor_command_options,
     lh_doctor_command},
    {"trace", "where the time of a request went", &lh_trace_command_options, lh_trace_command},
    {"plan", "which machines would form the best chain", &lh_plan_command_options, lh_plan_command},
    {"key", "makes an API key", &lh_key_command_options, lh_key_command},
    {"token", "lets a machine join the fleet", &lh_token_command_options, lh_token_command},
    {"tokens", "lists the join tokens", &lh_tokens_command_options, lh_tokens_command},
    {"members", "lists the workers that have a certificate", &lh_members_command_options,
     lh_members_command},
    {"revoke", "ends a worker's certificates, or a join token", &lh_revoke_command_options,
     lh_revoke_command},
    {"rotate-ca", "has another CA follow the fleet's", &lh_rotate_command_options,
     lh_rotate_command},
    {"pull", "fetches a model", &lh_pull_command_options, lh_pull_command},
    {"models", "lists the models that are here", &lh_models_command_options, lh_models_command},
    {"rm", "removes a model that is here", &lh_rm_command_options, lh_rm_command},
};
