/* What somebody who looks for faults has found: for each check and each thing that it looked at
 * whether that is fine, or what to do. Thread: one at a time. */
#pragma once

#include "common/base/status.h"
#include "common/base/text_buffer.h"

#include <stddef.h>
#include <stdint.h>

typedef enum lh_verdict {
    LH_VERDICT_FINE,
    LH_VERDICT_UNKNOWN, /* nobody could say; no fault */
    LH_VERDICT_TO_DO
} lh_verdict;

/* The texts are cut where they are longer. */
typedef struct lh_finding {
    const char *check; /* static: "clocks" */
    lh_verdict verdict;
    char subject[96]; /* whose: "worker-2"; "": of the whole */
    char found[320];  /* what is so */
    char to_do[320];  /* "" but where the verdict is TO_DO */
} lh_finding;

/* An empty list is {0}. */
typedef struct lh_findings {
    lh_finding *list; /* [count], malloc'd */
    size_t count, capacity;
    const char *check; /* of those that are added next */
    bool is_short;     /* of memory: a finding is missing */
    lh_finding lost;   /* where such a one was written to */
} lh_findings;

void lh_findings_reset(lh_findings *findings);
/* Those that are added from now on are of this check, a static text. */
void lh_findings_begin(lh_findings *findings, const char *check);
/* Adds one of the check, and gives it; it is there until the next is added. */
lh_finding *lh_findings_add(lh_findings *findings, lh_verdict verdict, const char *subject,
                            const char *found, ...) __attribute__((format(printf, 4, 5)));
/* Says what is to be done about it. */
void lh_finding_advise(lh_finding *finding, const char *to_do, ...)
    __attribute__((format(printf, 2, 3)));

size_t lh_findings_count(const lh_findings *findings, lh_verdict verdict);

/* "fine", "unknown", "to_do". */
const char *lh_verdict_name(lh_verdict verdict);

/* A size for people: "812.0 MiB". Returns text. */
#define LH_FINDING_SIZE_BYTES 32
const char *lh_finding_size(int64_t bytes, char text[LH_FINDING_SIZE_BYTES]);
