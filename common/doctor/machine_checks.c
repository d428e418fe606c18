/* One small function for each thing that can be wrong. */
#include "common/doctor/machine_checks.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MIB       ((int64_t)1 << 20)
#define DAY_S     86400
#define SOON_DAYS 14

/* Below that even a link of 100 Mbit/s and 40 ms is held up. */
#define BUFFER_BYTES_MIN (1 * MIB)
/* Enough for logs, records and a certificate, whatever else is kept there. */
#define DISK_BYTES_MIN (256 * MIB)
/* A connection that has rested begins with ten segments again: what fits into those does not
 * matter, nor does a round trip as short as this. */
#define RESTART_BYTES      14600
#define ROUND_TRIP_US_LONG 5000

static lh_verdict fine(lh_finding *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static lh_verdict to_do(lh_finding *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static lh_verdict fine(lh_finding *f, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(f->found, sizeof f->found, format, arguments);
    va_end(arguments);
    return LH_VERDICT_FINE;
}

static lh_verdict to_do(lh_finding *f, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(f->found, sizeof f->found, format, arguments);
    va_end(arguments);
    return LH_VERDICT_TO_DO;
}

static int64_t fact(const lh_machine *m, lh_host_fact which) {
    return lh_host_facts_get(&m->facts, which);
}

/* ---- The checks ---- */

static lh_verdict check_memory(const lh_machine *m, lh_finding *f) {
    int64_t all = fact(m, LH_HOST_MEMORY_BYTES), left = fact(m, LH_HOST_MEMORY_FREE_BYTES);
    char has[LH_FINDING_SIZE_BYTES], takes[LH_FINDING_SIZE_BYTES];
    if (all < 0)
        return LH_VERDICT_UNKNOWN;
    if (m->may_take_bytes > all) {
        lh_finding_advise(f, "give it less with --memory-bytes and --kv-bytes, which count "
                             "together, or it will swap, or be ended by the kernel");
        return to_do(f, "may take %s, and the machine has %s",
                     lh_finding_size(m->may_take_bytes, takes), lh_finding_size(all, has));
    }
    if (left >= 0 && m->takes_bytes > left) {
        lh_finding_advise(f, "end what else is there, or give it less with --memory-bytes and "
                             "--kv-bytes, so that other workers take some of its layers");
        return to_do(f, "takes %s, and %s were free when it started",
                     lh_finding_size(m->takes_bytes, takes), lh_finding_size(left, has));
    }
    return fine(f, "%s", lh_finding_size(all, has));
}

static lh_verdict check_disk(const lh_machine *m, lh_finding *f) {
    int64_t left = fact(m, LH_HOST_DISK_FREE_BYTES);
    int64_t needed = m->disk_needed_bytes > DISK_BYTES_MIN ? m->disk_needed_bytes : DISK_BYTES_MIN;
    char has[LH_FINDING_SIZE_BYTES], wants[LH_FINDING_SIZE_BYTES];
    if (left < 0)
        return LH_VERDICT_UNKNOWN;
    lh_finding_size(left, has);
    if (left >= needed)
        return fine(f, "%s free", has);
    lh_finding_advise(f, "make room there, or name another disk with %s", m->disk_flag);
    return to_do(f, "%s are free below %s, and %s may be needed", has, m->disk_flag,
                 lh_finding_size(needed, wants));
}

static lh_verdict check_buffer(lh_finding *f, const char *setting, int64_t has_bytes,
                               int64_t needed) {
    char has[LH_FINDING_SIZE_BYTES], wants[LH_FINDING_SIZE_BYTES];
    /* Half of it is the kernel's own accounts. */
    needed = needed * 2 > BUFFER_BYTES_MIN ? needed * 2 : BUFFER_BYTES_MIN;
    if (has_bytes >= needed)
        return LH_VERDICT_FINE;
    lh_finding_advise(f,
                      "as root: sysctl -w net.ipv4.%s=\"4096 131072 %" PRId64
                      "\", and the same in /etc/sysctl.d, for the next start",
                      setting, needed);
    return to_do(f, "net.ipv4.%s ends at %s, and its links want %s", setting,
                 lh_finding_size(has_bytes, has), lh_finding_size(needed, wants));
}

static lh_verdict check_buffers(const lh_machine *m, lh_finding *f) {
    int64_t out = fact(m, LH_HOST_TCP_WMEM_MAX), in = fact(m, LH_HOST_TCP_RMEM_MAX);
    char sends[LH_FINDING_SIZE_BYTES], receives[LH_FINDING_SIZE_BYTES];
    if (out < 0 || in < 0)
        return LH_VERDICT_UNKNOWN;
    if (check_buffer(f, "tcp_wmem", out, m->sends_bytes) == LH_VERDICT_TO_DO ||
        check_buffer(f, "tcp_rmem", in, m->receives_bytes) == LH_VERDICT_TO_DO)
        return LH_VERDICT_TO_DO;
    return fine(f, "%s out, %s in", lh_finding_size(out, sends), lh_finding_size(in, receives));
}

static lh_verdict check_idle(const lh_machine *m, lh_finding *f) {
    int64_t shrinks = fact(m, LH_HOST_SLOW_START_AFTER_IDLE);
    if (shrinks < 0)
        return LH_VERDICT_UNKNOWN;
    if (shrinks == 0)
        return fine(f, "windows stay open");
    if (m->round_trip_us < ROUND_TRIP_US_LONG || m->sends_bytes <= RESTART_BYTES)
        return fine(f, "short links");
    lh_finding_advise(f, "as root: sysctl -w net.ipv4.tcp_slow_start_after_idle=0, and the same in "
                         "/etc/sysctl.d; or --congestion-control bbr");
    return to_do(f,
                 "net.ipv4.tcp_slow_start_after_idle=1: a link of %.0f ms that has rested is slow "
                 "again for some round trips",
                 (double)m->round_trip_us / 1000);
}

static lh_verdict check_open_files(const lh_machine *m, lh_finding *f) {
    int64_t limit = fact(m, LH_HOST_OPEN_FILES);
    if (limit < 0)
        return LH_VERDICT_UNKNOWN;
    if (limit >= m->open_files_needed)
        return fine(f, "%" PRId64, limit);
    lh_finding_advise(f,
                      "raise it where it is started: LimitNOFILE=%" PRId64
                      " in a unit, ulimits in Compose, ulimit -n in a shell",
                      m->open_files_needed);
    return to_do(f, "may have %" PRId64 " files and connections open, and may need %" PRId64, limit,
                 m->open_files_needed);
}

static lh_verdict check_waiting(const lh_machine *m, lh_finding *f) {
    int64_t limit = fact(m, LH_HOST_SOMAXCONN);
    if (limit < 0)
        return LH_VERDICT_UNKNOWN;
    if (limit >= m->waiting_needed)
        return fine(f, "%" PRId64, limit);
    lh_finding_advise(f,
                      "as root: sysctl -w net.core.somaxconn=4096, and the same in /etc/sysctl.d");
    return to_do(f,
                 "net.core.somaxconn=%" PRId64 ": of clients that connect at the same moment, "
                 "those beyond wait for a second",
                 limit);
}

static lh_verdict check_sandbox(const lh_machine *m, lh_finding *f) {
    int64_t calls = fact(m, LH_HOST_SECCOMP), paths = fact(m, LH_HOST_LANDLOCK);
    if (calls < 0 || paths < 0)
        return LH_VERDICT_UNKNOWN;
    if (calls && paths)
        return fine(f, "seccomp and Landlock");
    lh_finding_advise(f, "its log has a line that begins with \"sandbox\" and says why; "
                         "docs/OPERATING.md, \"The sandbox\", says what helps");
    return to_do(f, "%s off: a fault in the program can do more than it should",
                 calls   ? "Landlock is"
                 : paths ? "seccomp is"
                         : "seccomp and Landlock are");
}

/* A program whose certificate is renewed by itself does so when a third is left. */
static lh_verdict check_certificate(const lh_machine *m, lh_finding *f) {
    int64_t ends = fact(m, LH_HOST_CERTIFICATE_ENDS_S);
    int64_t begins = fact(m, LH_HOST_CERTIFICATE_BEGINS_S);
    if (ends < 0 || begins < 0)
        return LH_VERDICT_UNKNOWN;
    int64_t left = ends - m->now_s, soon = (ends - begins) / 6;
    double days = (double)left / DAY_S;
    if (m->now_s < begins) {
        lh_finding_advise(f, "set the machines' clocks (chrony, systemd-timesyncd)");
        return to_do(f, "is good only in %.1f hours", (double)(begins - m->now_s) / 3600);
    }
    if (left > (soon < SOON_DAYS * DAY_S ? soon : SOON_DAYS * DAY_S))
        return days < 2 ? fine(f, "%.1f hours left", days * 24) : fine(f, "%.0f days left", days);
    lh_finding_advise(f, "%s", m->own_renewal);
    return left <= 0 ? to_do(f, "ended %.1f hours ago", -days * 24)
                     : to_do(f, "ends in %.1f hours", days * 24);
}

/* ---- The table ---- */

typedef struct machine_check {
    const char *name;
    lh_verdict (*look)(const lh_machine *machine, lh_finding *finding);
    const char *unknown; /* where no machine knows */
} machine_check;

static const machine_check checks[] = {
    {"memory", check_memory, "nobody knows how much the machines have"},
    {"disk", check_disk, "no program keeps anything, or none knows what is free"},
    {"tcp buffers", check_buffers, "nobody could read net.ipv4.tcp_wmem and tcp_rmem"},
    {"idle links", check_idle, "nobody could read net.ipv4.tcp_slow_start_after_idle"},
    {"open files", check_open_files, "nobody knows the limit"},
    {"connections", check_waiting, "nobody could read net.core.somaxconn"},
    {"sandbox", check_sandbox, "nobody knows what is in force"},
    {"certificates", check_certificate, "there are none: nothing is encrypted"},
};

/* What is fine, in one line: each machine's words, or those of all of them once. */
typedef struct fine_list {
    char text[256], first[80];
    size_t count, left_out;
    bool is_one; /* all say the same */
} fine_list;

static void add_to_list(fine_list *list, const lh_machine *machine, const char *found) {
    size_t used = strlen(list->text);
    if (list->count++ == 0) {
        snprintf(list->first, sizeof list->first, "%.79s", found);
        list->is_one = true;
    }
    list->is_one = list->is_one && strncmp(list->first, found, sizeof list->first - 1) == 0;
    if (used + sizeof list->first + 64 + 4 > sizeof list->text)
        list->left_out++;
    else
        snprintf(list->text + used, sizeof list->text - used, "%s%.63s%s%.79s", used ? "; " : "",
                 machine->name, machine->name[0] ? " " : "", found);
}

static void add_fine(lh_findings *findings, const fine_list *list) {
    if (list->is_one && list->count > 1)
        lh_findings_add(findings, LH_VERDICT_FINE, "", "%s, all %zu", list->first, list->count);
    else if (list->left_out > 0)
        lh_findings_add(findings, LH_VERDICT_FINE, "", "%s; and %zu more", list->text,
                        list->left_out);
    else
        lh_findings_add(findings, LH_VERDICT_FINE, "", "%s", list->text);
}

static void run(const machine_check *check, const lh_machine *machines, size_t count,
                lh_findings *findings) {
    fine_list list = {0};
    size_t bad = 0;
    lh_findings_begin(findings, check->name);
    for (size_t i = 0; i < count; i++) {
        lh_finding made = {0};
        lh_verdict verdict = check->look(&machines[i], &made);
        bad += verdict == LH_VERDICT_TO_DO;
        if (verdict == LH_VERDICT_TO_DO)
            lh_finding_advise(
                lh_findings_add(findings, verdict, machines[i].name, "%s", made.found), "%s",
                made.to_do);
        if (verdict == LH_VERDICT_FINE)
            add_to_list(&list, &machines[i], made.found);
    }
    if (list.count > 0)
        add_fine(findings, &list);
    else if (bad == 0)
        lh_findings_add(findings, LH_VERDICT_UNKNOWN, "", "%s", check->unknown);
}

void lh_machine_checks_run(const lh_machine *machines, size_t count, lh_findings *findings) {
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        run(&checks[i], machines, count, findings);
}
