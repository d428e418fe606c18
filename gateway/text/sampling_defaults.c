/* One table of the fields, and who may say what they are. */
#include "gateway/text/sampling_defaults.h"

#include "common/base/log.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_BYTES 64u /* all names */

static const lh_sampling_range ranges[LH_SAMPLING_FIELDS] = {
    [LH_SAMPLING_TEMPERATURE] = {"temperature", 0, 2, true, false},
    [LH_SAMPLING_TOP_P] = {"top_p", 0, 1, false, false},
    /* 0 and vLLM's -1 switch it off */
    [LH_SAMPLING_TOP_K] = {"top_k", -1, INT32_MAX, true, true},
    [LH_SAMPLING_MIN_P] = {"min_p", 0, 1, true, false},
    [LH_SAMPLING_REPETITION_PENALTY] = {"repetition_penalty", 0.1, 10, true, false},
};

/* llama.cpp's, which its converter fills from a model's generation_config.json. Those that it has
 * besides say nothing that a request could say here. */
static const char *const keys[LH_SAMPLING_FIELDS] = {
    [LH_SAMPLING_TEMPERATURE] = "general.sampling.temp",
    [LH_SAMPLING_TOP_P] = "general.sampling.top_p",
    [LH_SAMPLING_TOP_K] = "general.sampling.top_k",
    [LH_SAMPLING_MIN_P] = "general.sampling.min_p",
    [LH_SAMPLING_REPETITION_PENALTY] = "general.sampling.penalty_repeat",
};

const lh_sampling_defaults lh_sampling_api_defaults = {
    .values = {[LH_SAMPLING_TEMPERATURE] = 1,
               [LH_SAMPLING_TOP_P] = 1,
               [LH_SAMPLING_REPETITION_PENALTY] = 1},
};

const lh_sampling_range *lh_sampling_range_of(lh_sampling_field field) {
    assert(field < LH_SAMPLING_FIELDS);
    return &ranges[field];
}

static lh_status check(lh_sampling_field field, double value, lh_error *error) {
    const lh_sampling_range *range = &ranges[field];
    bool is_in = value > range->low || (range->low_included && value == range->low);
    if (!is_in || !(value <= range->high))
        return lh_fail(error, LH_ERR_INVALID, "%g is not %s %g and at most %g", value,
                       range->low_included ? "at least" : "above", range->low, range->high);
    if (range->is_integer && floor(value) != value)
        return lh_fail(error, LH_ERR_INVALID, "%g is not an integer", value);
    return LH_OK;
}

/* A file's 0.95 is a float, 0.949999988: shown as it was written, and the same float. */
static double round_to_text(double value) {
    char text[32];
    snprintf(text, sizeof text, "%.6g", value);
    double rounded = strtod(text, NULL);
    return (float)rounded == (float)value ? rounded : value;
}

void lh_sampling_defaults_read(lh_sampling_defaults *defaults, const lh_gguf *gguf) {
    for (int field = 0; field < LH_SAMPLING_FIELDS; field++) {
        lh_error error;
        double value;
        lh_status status = lh_gguf_get_number(gguf, keys[field], &value, &error);
        if (status == LH_OK)
            status = check((lh_sampling_field)field, value, &error);
        if (status == LH_OK) {
            defaults->values[field] = round_to_text(value);
            defaults->sources[field] = LH_SAMPLING_BY_MODEL;
        } else if (status != LH_ERR_NOT_FOUND) {
            lh_log(LH_LOG_WARN, "gateway",
                   "a default of sampling in the model's file is ignored key=%s reason=\"%s\"",
                   keys[field], error.message);
        }
    }
}

lh_status lh_sampling_defaults_set(lh_sampling_defaults *defaults, lh_sampling_field field,
                                   const char *number, lh_error *error) {
    size_t length = strlen(number);
    char *end;
    double value = strtod(number, &end);
    if (length == 0 || strspn(number, "+-.0123456789eE") != length || *end)
        return lh_fail(error, LH_ERR_INVALID, "\"%.40s\" is not a number", number);
    lh_status status = check(field, value, error);
    if (status == LH_OK) {
        defaults->values[field] = value;
        defaults->sources[field] = LH_SAMPLING_BY_OPERATOR;
    }
    return status;
}

/* The names of the fields that one has said, separated by commas. */
static void list(const lh_sampling_defaults *defaults, lh_sampling_source source,
                 char text[LIST_BYTES]) {
    size_t used = 0;
    text[0] = '\0';
    for (int field = 0; field < LH_SAMPLING_FIELDS; field++)
        if (defaults->sources[field] == source)
            used += (size_t)snprintf(text + used, LIST_BYTES - used, "%s%s", used ? "," : "",
                                     ranges[field].name);
}

void lh_sampling_defaults_log(const lh_sampling_defaults *defaults) {
    char by_flags[LIST_BYTES], by_model[LIST_BYTES];
    const double *values = defaults->values;
    list(defaults, LH_SAMPLING_BY_OPERATOR, by_flags);
    list(defaults, LH_SAMPLING_BY_MODEL, by_model);
    lh_log(LH_LOG_INFO, "gateway",
           "sampling where a request does not say temperature=%g top_p=%g top_k=%g min_p=%g "
           "repetition_penalty=%g by_flags=%s by_model=%s",
           values[LH_SAMPLING_TEMPERATURE], values[LH_SAMPLING_TOP_P], values[LH_SAMPLING_TOP_K],
           values[LH_SAMPLING_MIN_P], values[LH_SAMPLING_REPETITION_PENALTY], by_flags, by_model);
}
