/* The commands of longhaul-gateway. */
#pragma once

#include "common/base/commands.h"

#define LH_GATEWAY_COMMANDS 16

extern const lh_command lh_gateway_commands[LH_GATEWAY_COMMANDS];
