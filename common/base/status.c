/* Names and texts of the status codes. */
#include "common/base/status.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *name;
    const char *text;
} table[] = {
#define X(name, text) {#name, text},
    LH_STATUS_TABLE(X)
#undef X
};

#define TABLE_LENGTH (sizeof table / sizeof table[0])

const char *lh_status_text(lh_status status) {
    return (unsigned)status < TABLE_LENGTH ? table[status].text : "unknown status";
}

const char *lh_status_name(lh_status status) {
    return (unsigned)status < TABLE_LENGTH ? table[status].name : "LH_ERR_UNKNOWN";
}

/* Replaces control characters: a message may quote input that would otherwise drive a terminal. */
static void make_printable(char *message) {
    for (; *message; message++)
        if (((unsigned char)*message < ' ' && *message != '\n') || *message == 0x7f)
            *message = '?';
}

lh_status lh_fail(lh_error *error, lh_status status, const char *format, ...) {
    if (error) {
        error->status = status;
        va_list args;
        va_start(args, format);
        vsnprintf(error->message, sizeof error->message, format, args);
        va_end(args);
        make_printable(error->message);
    }
    return status;
}
