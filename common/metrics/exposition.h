/* Prometheus' text exposition format, version 0.0.4 (prometheus.io/docs/instrumenting/
 * exposition_formats): families of samples, written one after the other by those whose figures they
 * are. Names are the program's own and checked by assertions; what stands in a label may come from
 * elsewhere, so it is bounded, escaped, and made UTF-8.
 *
 *     lh_exposition_family(e, "longhaul_steps_total", LH_METRIC_COUNTER, "Steps sent.");
 *     lh_exposition_count(e, LH_METRIC_LABELS({"chain", name}), figures.steps);
 *
 * Memory that runs short makes it fail as a whole, which lh_exposition_take says at the end.
 * Thread: the owner's. */
#pragma once

#include "common/base/text_buffer.h"
#include "common/metrics/histogram.h"

#include <stdbool.h>

#define LH_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

#define LH_METRIC_FAMILIES_MAX 160u
/* Of a label's value; what is longer is cut. */
#define LH_METRIC_VALUE_BYTES 128u

typedef enum lh_metric_type {
    LH_METRIC_COUNTER,
    LH_METRIC_GAUGE,
    LH_METRIC_HISTOGRAM
} lh_metric_type;

typedef struct lh_metric_label {
    const char *name, *value; /* NULL ends a list */
} lh_metric_label;

/* A list of labels, for the length of a call. */
#define LH_METRIC_LABELS(...) ((const lh_metric_label[]){__VA_ARGS__, {NULL, NULL}})

typedef struct lh_exposition {
    lh_text_buffer text;
    bool has_failed;     /* for want of memory */
    lh_metric_type type; /* of the family that is open */
    uint32_t family_count;
    const char *families[LH_METRIC_FAMILIES_MAX];
} lh_exposition;

/* An empty one is {0}. Begins a family: name and help are static, each name comes once, and that of
 * a counter ends in _total. */
void lh_exposition_family(lh_exposition *exposition, const char *name, lh_metric_type type,
                          const char *help);
/* A sample of the family; labels: NULL, none. */
void lh_exposition_value(lh_exposition *exposition, const lh_metric_label *labels, double value);
/* The same of a whole number, exactly. */
void lh_exposition_count(lh_exposition *exposition, const lh_metric_label *labels, uint64_t count);
/* All samples of a histogram. */
void lh_exposition_histogram(lh_exposition *exposition, const lh_metric_label *labels,
                             const lh_histogram *histogram);
/* What another exposition has taken before: families that come nowhere else. */
void lh_exposition_append(lh_exposition *exposition, const char *text, size_t length);
/* Moves the text, which the caller resets; the exposition is empty afterwards. LH_ERR_NO_MEMORY:
 * *text is empty. */
lh_status lh_exposition_take(lh_exposition *exposition, lh_text_buffer *text, lh_error *error);
