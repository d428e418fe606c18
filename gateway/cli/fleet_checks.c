/* Each check adds what is to be done, or one finding that all of it is fine. */
#include "gateway/cli/fleet_checks.h"

#include "common/doctor/machine_checks.h"
#include "gateway/cli/bottleneck.h"
#include "gateway/cli/key_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reports take some milliseconds to come; beyond this a certificate that was just made is not good
 * yet elsewhere, and logs beside each other mislead. */
#define CLOCK_OFFSET_MS_MAX 2000
/* A link that is slower than the slowest stage by less than what measurements vary is no fault. */
#define LINK_SLACK 1.2
/* Reports come every second or sooner. */
#define REPORT_AGE_MS_MAX 10000

/* Beside clients: workers, weights, the model's file. */
#define GATEWAY_FILES_BESIDES 256
/* Places of peers, those without a handshake yet, and the weight cache. */
#define WORKER_FILES 512
/* Clients that connect at the same moment. */
#define WAITING_CLIENTS 512

#define LINK_NAME_BYTES (2 * LH_NAME_BYTES + 8)

static void name_link(const char *from, const char *to, char text[LINK_NAME_BYTES]) {
    snprintf(text, LINK_NAME_BYTES, "%s > %s", from, to);
}

/* Whether the check has found nothing to do since there were so many findings. */
static bool is_clean(const lh_findings *findings, size_t before) {
    return findings->count == before && !findings->is_short;
}

/* ---- The chain ---- */

static void check_gateway(const lh_fleet_document *d, lh_findings *f) {
    if (strcmp(d->state, "ready") == 0) {
        lh_findings_add(f, LH_VERDICT_FINE, "", "serves %s", d->model);
        return;
    }
    lh_finding *finding = lh_findings_add(f, LH_VERDICT_TO_DO, "", "%s: %s", d->state,
                                          d->reason[0] ? d->reason : "requests are refused");
    lh_finding_advise(finding, strcmp(d->state, "draining") == 0
                                   ? "it was told to end: start it again when it has"
                                   : "start the workers that are missing, or see below why those "
                                     "that are there cannot serve");
}

static void report_suspension(const lh_document_worker *w, lh_findings *f) {
    lh_finding_advise(
        lh_findings_add(
            f, LH_VERDICT_TO_DO, w->name, "%s%s: %s",
            w->gave_wrong_answer ? "its chain gave a wrong answer" : "its results were refused",
            w->is_needed ? ", and it is used since nothing serves without it" : "", w->misconduct),
        w->gave_wrong_answer
            ? "one worker of its chain is wrong, and which one is not known: test the memory of "
              "each "
              "(memtest86+, rasdaemon), and see that nobody else has their certificates; they are "
              "tried again by themselves"
            : "test its memory (memtest86+, rasdaemon) and see that nobody else has its "
              "certificate; it is tried again by itself");
}

/* Reports a worker that claims more speed than its steps show, beside any other fault of it. */
static void report_overclaim(const lh_document_worker *w, lh_findings *f) {
    if (w->overclaims > 1)
        lh_finding_advise(
            lh_findings_add(f, LH_VERDICT_TO_DO, w->name,
                            "is %.1f times as slow as it says, by the gateway's clock",
                            w->overclaims),
            "see what else runs on that machine, and that nobody else has its certificate; layers "
            "are dealt by what was measured");
}

static void check_workers(const lh_fleet_document *d, lh_findings *f) {
    size_t before = f->count, staged = 0;
    for (size_t i = 0; i < d->worker_count; i++) {
        const lh_document_worker *w = &d->workers[i];
        staged += strcmp(w->role, "stage") == 0;
        report_overclaim(w, f);
        if (w->is_suspended)
            report_suspension(w, f);
        else if (strcmp(w->state, "failed") == 0)
            lh_finding_advise(
                lh_findings_add(f, LH_VERDICT_TO_DO, w->name, "its stage failed: %s", w->error),
                "its log says more; it tries again by itself");
        else if (w->report_age_ms > REPORT_AGE_MS_MAX)
            lh_finding_advise(lh_findings_add(f, LH_VERDICT_TO_DO, w->name,
                                              "has not reported for %" PRId64 " s",
                                              w->report_age_ms / 1000),
                              "see whether it runs, and reaches the gateway's fleet port");
        else if (strcmp(w->role, "waiting") == 0 && w->reason[0])
            lh_finding_advise(
                lh_findings_add(f, LH_VERDICT_TO_DO, w->name, "is not used: %s", w->reason),
                "mend what that names; it is taken as soon as it can be");
    }
    if (d->worker_count == 0)
        lh_finding_advise(lh_findings_add(f, LH_VERDICT_TO_DO, "", "none has reported"),
                          "start one: longhaul-worker --gateway URL, or the line of "
                          "longhaul-gateway token; longhaul-worker doctor says what is in its way");
    else if (is_clean(f, before))
        lh_findings_add(f, LH_VERDICT_FINE, "", "%zu have a stage, %zu are spare", staged,
                        d->worker_count - staged);
}

static void check_hops(const lh_fleet_document *d, lh_findings *f) {
    static const char advice[] = "let the first reach the second at that address: firewall, port "
                                 "forwarding, or another --advertise or --advertise-tls";
    size_t before = f->count, hops = 0;
    char name[LINK_NAME_BYTES];
    for (size_t c = 0; c < d->chain_count; c++)
        for (size_t i = 0; i < d->chains[c].link_count; i++) {
            const lh_document_link *link = &d->chains[c].links[i];
            hops++;
            name_link(link->from, link->to, name);
            if (!link->is_connected)
                lh_finding_advise(lh_findings_add(f, LH_VERDICT_TO_DO, name, "%s",
                                                  link->error[0] ? link->error : "not connected"),
                                  advice);
        }
    for (size_t i = 0; i < d->worker_count; i++) {
        const lh_document_worker *w = &d->workers[i];
        name_link(w->name, w->trial.to, name);
        if (strcmp(w->trial.state, "failed") == 0)
            lh_finding_advise(lh_findings_add(f, LH_VERDICT_TO_DO, name, "tried at %.100s: %.200s",
                                              w->trial.address, w->trial.error),
                              advice);
    }
    if (is_clean(f, before) && hops > 0)
        lh_findings_add(f, LH_VERDICT_FINE, "", "%zu connected", hops);
    else if (is_clean(f, before))
        lh_findings_add(f, LH_VERDICT_UNKNOWN, "", "there is no chain yet");
}

/* ---- What links and machines must do ---- */

static void advise_link(lh_finding *finding, const lh_document_link *link, double wanted) {
    const char *smaller = strcmp(link->wire, "f32") == 0   ? "--wire f16 halves its bytes; "
                          : strcmp(link->wire, "f16") == 0 ? "--wire auto --wire-allow-q8 halves "
                                                             "its bytes; "
                                                           : "";
    lh_finding_advise(finding,
                      "%sa link of %.0f Mbit/s would keep up; fewer stages (--stages) need fewer "
                      "links",
                      smaller, wanted * 8);
}

static void check_link_speed(const lh_fleet_document *d, lh_findings *f) {
    size_t before = f->count, measured = 0;
    double most = 0;
    for (size_t c = 0; c < d->chain_count; c++) {
        const lh_document_chain *chain = &d->chains[c];
        const lh_bottleneck b = lh_bottleneck_find(chain);
        measured += b.kind != LH_BOTTLENECK_UNKNOWN;
        for (size_t i = 0; b.kind != LH_BOTTLENECK_UNKNOWN && i < chain->link_count; i++) {
            const lh_document_link *link = &chain->links[i];
            double busy_ms = lh_bottleneck_link_ms(link);
            char name[LINK_NAME_BYTES];
            most = b.stage_ms > 0 && busy_ms / b.stage_ms > most ? busy_ms / b.stage_ms : most;
            if (!link->wire[0] || link->rate_is_bound || busy_ms <= LINK_SLACK * b.stage_ms)
                continue;
            name_link(link->from, link->to, name);
            advise_link(lh_findings_add(f, LH_VERDICT_TO_DO, name,
                                        "prompts wait for it: %.1f ms for %d rows at %.1f Mbit/s, "
                                        "and %.1f at the busiest stage",
                                        busy_ms, LH_BOTTLENECK_ROWS, link->rate * 8, b.stage_ms),
                        link, link->rate * busy_ms / b.stage_ms);
        }
    }
    if (is_clean(f, before) && measured > 0)
        lh_findings_add(f, LH_VERDICT_FINE, "",
                        "the busiest takes %.0f %% of the busiest stage's time", 100 * most);
    else if (is_clean(f, before))
        lh_findings_add(f, LH_VERDICT_UNKNOWN, "", "not measured yet%s%s",
                        d->chain_count && d->chains[0].lacks[0] ? ": " : "",
                        d->chain_count ? d->chains[0].lacks : "");
}

static void check_stage_speed(const lh_fleet_document *d, lh_findings *f) {
    size_t before = f->count, known = 0;
    double most = 0;
    for (size_t c = 0; c < d->chain_count; c++)
        for (size_t i = 0; i < d->chains[c].stage_count; i++) {
            const lh_document_stage *stage = &d->chains[c].stages[i];
            known += stage->calibrated_times > 0;
            most = stage->calibrated_times > most ? stage->calibrated_times : most;
            if (stage->calibrated_times < LH_DOCUMENT_SLOWED_TIMES)
                continue;
            lh_finding_advise(lh_findings_add(f, LH_VERDICT_TO_DO, stage->worker,
                                              "its steps take %.1f times as long as when its stage "
                                              "was loaded: something else uses the machine, or "
                                              "slows it down",
                                              stage->calibrated_times),
                              "see what runs there (top), its temperature and its limits of "
                              "processor time; prompts are cut by what it takes now, and as "
                              "before three steps after that is over");
        }
    if (is_clean(f, before) && known > 0)
        lh_findings_add(f, LH_VERDICT_FINE, "",
                        "at most %.1f times what steps took when stages were loaded", most);
    else if (is_clean(f, before))
        lh_findings_add(f, LH_VERDICT_UNKNOWN, "", "not measured yet");
}

static void check_model_memory(const lh_fleet_document *d, lh_findings *f) {
    char needs[LH_FINDING_SIZE_BYTES], offered[LH_FINDING_SIZE_BYTES];
    int64_t sum = 0, largest = 0;
    for (size_t i = 0; i < d->worker_count; i++) {
        int64_t bytes = d->workers[i].is_leaving ? 0 : d->workers[i].memory_bytes;
        sum += bytes;
        largest = bytes > largest ? bytes : largest;
    }
    lh_finding_size(d->model_bytes, needs);
    lh_finding_size(sum, offered);
    if (sum < d->model_bytes)
        lh_finding_advise(lh_findings_add(f, LH_VERDICT_TO_DO, "",
                                          "the model needs %s for its weights, and the workers "
                                          "offer %s together",
                                          needs, offered),
                          "let more workers join, raise their --memory-bytes, or take a smaller "
                          "quantization of the model");
    else
        lh_findings_add(f, LH_VERDICT_FINE, "", "%s needed, %s offered; %s", needs, offered,
                        sum - largest >= d->model_bytes
                            ? "any one worker may fail"
                            : "not enough once the largest worker fails");
}

/* The stage with the fewest pages says how many positions its chain has. NULL: there is none. */
static const lh_document_worker *find_shortest(const lh_fleet_document *d) {
    const lh_document_stage *shortest = NULL;
    const lh_document_chain *chain = d->chain_count ? &d->chains[0] : NULL;
    for (size_t i = 0; chain && i < chain->stage_count; i++)
        if (!shortest || chain->stages[i].pages_total < shortest->pages_total)
            shortest = &chain->stages[i];
    for (size_t i = 0; shortest && i < d->worker_count; i++)
        if (strcmp(d->workers[i].name, shortest->worker) == 0)
            return &d->workers[i];
    return NULL;
}

/* That less than all is served is no fault: who wants more is told what would do it. */
static void check_context(const lh_fleet_document *d, lh_findings *f) {
    const lh_document_worker *shortest = find_shortest(d);
    if (d->context_served <= 0 || d->context <= 0) {
        lh_findings_add(f, LH_VERDICT_UNKNOWN, "", "there is no chain yet");
    } else if (d->context_served >= d->context || !shortest) {
        lh_findings_add(f, LH_VERDICT_FINE, "", "%" PRId64 " positions, all that are asked for",
                        d->context_served);
    } else {
        double share = (double)d->context / (double)d->context_served;
        int64_t kv_bytes = (int64_t)((double)shortest->kv_bytes * share);
        const char *type = strcmp(d->kv_type, "f32") != 0 ? ""
                           : share <= 2                   ? ", or --kv-type f16 at the gateway"
                           : share <= 3.5                 ? ", or --kv-type q8 at the gateway"
                                                          : "";
        lh_findings_add(f, LH_VERDICT_FINE, "",
                        "%" PRId64 " positions of %" PRId64 ", for which worker %s has room; "
                        "--kv-bytes %" PRId64 "M at each worker%s serves all",
                        d->context_served, d->context, shortest->name, (kv_bytes >> 20) + 1, type);
    }
}

/* ---- Programs ---- */

static void check_versions(const lh_fleet_document *d, lh_findings *f) {
    size_t before = f->count;
    if (!d->gateway.version[0]) {
        lh_findings_add(f, LH_VERDICT_UNKNOWN, "", "the gateway does not say its own");
        return;
    }
    for (size_t i = 0; i < d->worker_count; i++)
        if (strcmp(d->workers[i].version, d->gateway.version) != 0)
            lh_finding_advise(lh_findings_add(f, LH_VERDICT_TO_DO, d->workers[i].name,
                                              "version %s, and the gateway has %s",
                                              d->workers[i].version, d->gateway.version),
                              "install the same on both; workers one after the other, each when "
                              "the one before has ended");
    if (is_clean(f, before))
        lh_findings_add(f, LH_VERDICT_FINE, "", "%s everywhere", d->gateway.version);
}

static void check_clocks(const lh_fleet_document *d, lh_findings *f) {
    size_t before = f->count, known = 0;
    int64_t most = 0;
    for (size_t i = 0; i < d->worker_count; i++) {
        const lh_document_worker *w = &d->workers[i];
        int64_t offset = w->clock_offset_ms < 0 ? -w->clock_offset_ms : w->clock_offset_ms;
        known += w->has_clock;
        most = w->has_clock && offset > most ? offset : most;
        if (w->has_clock && offset > CLOCK_OFFSET_MS_MAX)
            lh_finding_advise(lh_findings_add(f, LH_VERDICT_TO_DO, w->name,
                                              "%.1f s %s the gateway's", (double)offset / 1000,
                                              w->clock_offset_ms < 0 ? "behind" : "ahead of"),
                              "set both by the network (chrony, systemd-timesyncd): certificates "
                              "begin and end by these clocks");
    }
    if (is_clean(f, before) && known > 0)
        lh_findings_add(f, LH_VERDICT_FINE, "",
                        "within %" PRId64 " ms of the gateway's, at %zu "
                        "worker%s",
                        most, known, known == 1 ? "" : "s");
    else if (is_clean(f, before))
        lh_findings_add(f, LH_VERDICT_UNKNOWN, "", "no worker tells its own");
}

static void check_instructions(const lh_fleet_document *d, lh_findings *f) {
    size_t before = f->count;
    char list[128] = "";
    for (size_t i = 0; i < d->worker_count; i++) {
        const lh_document_worker *w = &d->workers[i];
        size_t used = strlen(list);
        if (strcmp(w->isa, "reference") == 0)
            lh_finding_advise(lh_findings_add(f, LH_VERDICT_TO_DO, w->name,
                                              "computes in plain C, without vectors"),
                              "leave --isa out; without AVX2 or Arm's NEON the machine is some ten "
                              "times slower than others");
        if (!strstr(list, w->isa) && used + 40 < sizeof list)
            snprintf(list + used, sizeof list - used, "%s%.32s", used ? ", " : "", w->isa);
    }
    if (is_clean(f, before) && list[0])
        lh_findings_add(f, LH_VERDICT_FINE, "", "%s", list);
    else if (is_clean(f, before))
        lh_findings_add(f, LH_VERDICT_UNKNOWN, "", "there are no workers");
}

static void check_key_files(const lh_fleet_document *d, lh_findings *f) {
    const char *const paths[] = {d->gateway.state_dir, d->gateway.api_key_file, d->gateway.tls_key};
    lh_key_files_check(paths, sizeof paths / sizeof paths[0], f);
}

/* ---- The machines ---- */

/* What the machine has to keep under way on its links. */
static void add_links(const lh_fleet_document *d, lh_machine *machine) {
    for (size_t c = 0; c < d->chain_count; c++)
        for (size_t i = 0; i < d->chains[c].link_count; i++) {
            const lh_document_link *link = &d->chains[c].links[i];
            int64_t bytes = (int64_t)(link->bytes_per_us * (double)link->round_trip_us);
            if (strcmp(link->from, machine->name) == 0) {
                machine->sends_bytes = bytes > machine->sends_bytes ? bytes : machine->sends_bytes;
                if (link->round_trip_us > machine->round_trip_us)
                    machine->round_trip_us = link->round_trip_us;
            }
            if (strcmp(link->to, machine->name) == 0 && bytes > machine->receives_bytes)
                machine->receives_bytes = bytes;
        }
}

static lh_machine describe_gateway(const lh_fleet_document *d, int64_t now_s) {
    return (lh_machine){.name = "gateway",
                        .facts = d->gateway.host,
                        .open_files_needed = d->gateway.connections_max + GATEWAY_FILES_BESIDES,
                        .waiting_needed = WAITING_CLIENTS,
                        .disk_flag = "--state-dir",
                        .own_renewal = "its own CA's renews itself, so its log says why not; "
                                       "another CA's: new files, then kill -HUP",
                        .now_s = now_s};
}

static lh_machine describe_worker(const lh_document_worker *w, int64_t now_s) {
    bool is_ready = strcmp(w->state, "ready") == 0;
    return (lh_machine){.name = w->name,
                        .facts = w->host,
                        .may_take_bytes = w->memory_bytes + w->kv_bytes,
                        .takes_bytes = w->total_bytes > 0 ? w->total_bytes + w->kv_bytes : 0,
                        .disk_needed_bytes = is_ready ? 0 : w->total_bytes,
                        .open_files_needed = WORKER_FILES,
                        .disk_flag = "--cache-dir",
                        .own_renewal = "it renews itself when it has joined with a token, so its "
                                       "log says why not; another CA's: new files, then kill -HUP",
                        .now_s = now_s};
}

static lh_status check_machines(const lh_fleet_document *d, int64_t now_s, lh_findings *f) {
    lh_machine *machines = calloc(d->worker_count + 1, sizeof *machines);
    if (!machines)
        return LH_ERR_NO_MEMORY;
    machines[0] = describe_gateway(d, now_s);
    for (size_t i = 0; i < d->worker_count; i++)
        machines[i + 1] = describe_worker(&d->workers[i], now_s);
    for (size_t i = 0; i <= d->worker_count; i++)
        add_links(d, &machines[i]);
    lh_machine_checks_run(machines, d->worker_count + 1, f);
    free(machines);
    return LH_OK;
}

/* ---- The table ---- */

lh_status lh_fleet_checks_run(const lh_fleet_document *document, int64_t now_s,
                              lh_findings *findings) {
    static const struct {
        const char *name;
        void (*look)(const lh_fleet_document *document, lh_findings *findings);
    } checks[] = {
        {"gateway", check_gateway},
        {"workers", check_workers},
        {"versions", check_versions},
        {"clocks", check_clocks},
        {"hops", check_hops},
        {"link speed", check_link_speed},
        {"stage speed", check_stage_speed},
        {"model memory", check_model_memory},
        {"context", check_context},
        {"instructions", check_instructions},
        {"key files", check_key_files},
    };
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        lh_findings_begin(findings, checks[i].name);
        checks[i].look(document, findings);
    }
    lh_status status = check_machines(document, now_s, findings);
    return findings->is_short ? LH_ERR_NO_MEMORY : status;
}
