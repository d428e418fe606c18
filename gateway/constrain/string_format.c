/* A table. Each pattern's texts are finite in number, so that none goes on for ever. */
#include "gateway/constrain/string_format.h"

#include <stddef.h>
#include <string.h>

/* RFC 3339, section 5.6, with the days that a month has; years from 0001, no leap seconds. */
#define YEAR      "(?:[1-9]\\d{3}|0[1-9]\\d{2}|00[1-9]\\d|000[1-9])"
#define LEAP_YEAR "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|"                                  \
    "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|" LEAP_YEAR "-02-29)"
#define CLOCK "(?:[01]\\d|2[0-3]):[0-5]\\d"
#define TIME  CLOCK ":[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-]" CLOCK ")"

#define HEX   "[0-9A-Fa-f]"
#define BYTE  "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4  BYTE "(?:\\." BYTE "){3}"
#define GROUP HEX "{1,4}"
/* RFC 4291, section 2.2: eight groups, of which "::" stands for one or more. */
#define IPV6                                                                                       \
    "(?:(?:" GROUP ":){7}" GROUP "|(?:" GROUP ":){1,7}:|(?:" GROUP ":){1,6}:" GROUP "|(?:" GROUP   \
    ":){1,5}(?::" GROUP "){1,2}|(?:" GROUP ":){1,4}(?::" GROUP "){1,3}|(?:" GROUP                  \
    ":){1,3}(?::" GROUP "){1,4}|(?:" GROUP ":){1,2}(?::" GROUP "){1,5}|" GROUP ":(?::" GROUP       \
    "){1,6}|:(?::" GROUP "){1,7}|::)"
/* RFC 1123, section 2.1. */
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
/* RFC 5321, section 4.1.2: a local part without quotes, at most 64 long. */
#define ATOM  "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
#define EMAIL ATOM "{1,20}(?:\\." ATOM "{1,20}){0,2}@" LABEL "(?:\\." LABEL "){1,3}"
/* RFC 3986, with "//". */
#define URI_CHARACTER(more) "(?:[A-Za-z0-9._~!$&'()*+,;=:@" more "-]|%" HEX HEX ")"
#define URI                                                                                        \
    "[A-Za-z][A-Za-z0-9+.-]{0,30}://" LABEL "(?:\\." LABEL                                         \
    "){0,7}(?::\\d{1,5})?(?:/" URI_CHARACTER("/") "{0,1000})?(?:\\?" URI_CHARACTER(                \
        "/?") "{0,1000})?(?:#" URI_CHARACTER("/?") "{0,200})?"
/* RFC 3339, appendix A. */
#define COUNT "\\d{1,9}"
#define DURATION                                                                                   \
    "P(?:(?:" COUNT "Y(?:" COUNT "M(?:" COUNT "D)?)?|" COUNT "M(?:" COUNT "D)?|" COUNT             \
    "D)(?:T(?:" COUNT "H(?:" COUNT "M(?:" COUNT "S)?)?|" COUNT "M(?:" COUNT "S)?|" COUNT           \
    "S))?|T(?:" COUNT "H(?:" COUNT "M(?:" COUNT "S)?)?|" COUNT "M(?:" COUNT "S)?|" COUNT           \
    "S)|" COUNT "W)"

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    {"duration", DURATION},
    {"uuid", HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}"},
    {"email", EMAIL},
    {"hostname", LABEL "(?:\\." LABEL "){0,3}"},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"uri", URI},
    {"idn-email", NULL},
    {"idn-hostname", NULL},
    {"uri-reference", NULL},
    {"iri", NULL},
    {"iri-reference", NULL},
    {"uri-template", NULL},
    {"json-pointer", NULL},
    {"relative-json-pointer", NULL},
    {"regex", NULL},
};

#define FORMATS (sizeof formats / sizeof *formats)

static size_t find(const char *format) {
    size_t i = 0;
    while (i < FORMATS && strcmp(formats[i].name, format) != 0)
        i++;
    return i;
}

const char *lh_string_format_pattern(const char *format) {
    size_t i = find(format);
    return i < FORMATS ? formats[i].pattern : NULL;
}

bool lh_string_format_is_standard(const char *format) {
    return find(format) < FORMATS;
}
