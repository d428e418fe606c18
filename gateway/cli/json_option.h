/* The option of commands whose list is for programs, too. Thread: start-up only. */
#pragma once

#include "common/base/options.h"

#define LH_OPTION_JSON(type, field)                                                                \
    {.name = "json",                                                                               \
     .kind = LH_OPTION_FLAG,                                                                       \
     .offset = offsetof(type, field),                                                              \
     .default_text = "0",                                                                          \
     .help = "one JSON object instead"}
