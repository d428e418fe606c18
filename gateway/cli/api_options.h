/* The options of commands that ask a running gateway's API. Thread: start-up only. */
#pragma once

#include "common/base/options.h"

#define LH_OPTION_API_URL(settings, field)                                                         \
    {"url",                                                                                        \
     LH_OPTION_TEXT,                                                                               \
     offsetof(settings, field),                                                                    \
     "http://127.0.0.1:8080",                                                                      \
     "URL",                                                                                        \
     0,                                                                                            \
     0,                                                                                            \
     NULL,                                                                                         \
     "address of the gateway's public API"}

#define LH_OPTION_ADMIN_KEY_FILE(settings, field)                                                  \
    {"api-key-file",                                                                               \
     LH_OPTION_TEXT,                                                                               \
     offsetof(settings, field),                                                                    \
     "",                                                                                           \
     "PATH",                                                                                       \
     0,                                                                                            \
     0,                                                                                            \
     NULL,                                                                                         \
     "file with a key of the API that has `admin`, readable by its owner only; default: no key "   \
     "is "                                                                                         \
     "shown"}
