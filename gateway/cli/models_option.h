/* What the gateway and the commands beside it have in common to find models. Thread: start-up only.
 */
#pragma once

#include "common/base/options.h"

#define LH_OPTION_MODELS_DIR(type, field)                                                          \
    {.name = "models-dir",                                                                         \
     .kind = LH_OPTION_TEXT,                                                                       \
     .offset = offsetof(type, field),                                                              \
     .default_text = "",                                                                           \
     .placeholder = "DIR",                                                                         \
     .help = "folder of the models that longhaul-gateway pull fetches; default: "                  \
             "/var/lib/longhaul/models for systemd's services, and for root where that is there; " \
             "else ~/.local/share/longhaul/models"}
