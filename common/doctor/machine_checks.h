/* What can be wrong with machines, whatever program of ours they run: a table of checks, each of
 * which looks at one machine's facts and at what is needed of it. Pure. Thread: any. */
#pragma once

#include "common/base/host_facts.h"
#include "common/doctor/findings.h"

/* What the program needs of its machine; 0: nothing, or nobody knows. */
typedef struct lh_machine {
    const char *name; /* "gateway", "worker-2"; "": this one alone */
    lh_host_facts facts;
    int64_t may_take_bytes; /* memory, by its flags */
    int64_t takes_bytes;    /* memory, as things are */
    int64_t disk_needed_bytes;
    /* A link of it: what is under way on it when it is full. */
    int64_t sends_bytes, receives_bytes;
    int64_t round_trip_us; /* the longest of its links */
    int64_t open_files_needed, waiting_needed;
    const char *disk_flag;   /* which folder is meant: "--cache-dir" */
    const char *own_renewal; /* how its certificate is renewed, for an advice */
    int64_t now_s;           /* Unix time */
} lh_machine;

/* For each check either what is to be done, machine by machine, or one finding that it is fine, or
 * that nobody knows. */
void lh_machine_checks_run(const lh_machine *machines, size_t count, lh_findings *findings);
