/* An array that grows. */
#include "common/doctor/findings.h"

#include "common/base/growing_array.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void lh_findings_reset(lh_findings *findings) {
    free(findings->list);
    *findings = (lh_findings){0};
}

void lh_findings_begin(lh_findings *findings, const char *check) {
    findings->check = check;
}

lh_finding *lh_findings_add(lh_findings *findings, lh_verdict verdict, const char *subject,
                            const char *found, ...) {
    lh_finding *finding = &findings->lost;
    va_list arguments;
    if (lh_growing_array_reserve(&findings->list, &findings->capacity, findings->count + 1,
                                 sizeof *findings->list))
        finding = &findings->list[findings->count++];
    else
        findings->is_short = true;
    *finding = (lh_finding){.check = findings->check, .verdict = verdict};
    snprintf(finding->subject, sizeof finding->subject, "%s", subject);
    va_start(arguments, found);
    vsnprintf(finding->found, sizeof finding->found, found, arguments);
    va_end(arguments);
    return finding;
}

void lh_finding_advise(lh_finding *finding, const char *to_do, ...) {
    va_list arguments;
    va_start(arguments, to_do);
    vsnprintf(finding->to_do, sizeof finding->to_do, to_do, arguments);
    va_end(arguments);
}

size_t lh_findings_count(const lh_findings *findings, lh_verdict verdict) {
    size_t count = 0;
    for (size_t i = 0; i < findings->count; i++)
        count += findings->list[i].verdict == verdict;
    return count;
}

const char *lh_verdict_name(lh_verdict verdict) {
    static const char *const names[] = {"fine", "unknown", "to_do"};
    return names[verdict];
}

const char *lh_finding_size(int64_t bytes, char text[LH_FINDING_SIZE_BYTES]) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes / 1024;
    size_t unit = 0;
    if (bytes < 1024) {
        snprintf(text, LH_FINDING_SIZE_BYTES, "%" PRId64 " bytes", bytes);
        return text;
    }
    for (; size >= 1000 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        size /= 1024;
    snprintf(text, LH_FINDING_SIZE_BYTES, "%.1f %s", size, units[unit]);
    return text;
}
