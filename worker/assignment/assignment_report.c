/* A worker's report of itself. */
#include "worker/assignment/assignment_state.h"

#include <stdio.h>
#include <string.h>

static void report_assignment(const lh_assignment_keeper *keeper, lh_worker_report *report) {
    if (!keeper->has_wanted && keeper->state == LH_KEEPER_EMPTY) {
        return;
    }
    const lh_control_assignment *about = keeper->has_wanted ? &keeper->wanted : &keeper->held;
    report->assignment.generation = about->generation;
    if (keeper->failure.status != LH_OK) {
        report->assignment.state = LH_WORKER_FAILED;
        lh_worker_report_copy_error(report->assignment.error, keeper->failure.message);
    } else if (keeper->state == LH_KEEPER_HELD && keeper->routed) {
        report->assignment.state = LH_WORKER_READY;
        report->assignment.generation = keeper->held.generation;
        report->assignment.done_bytes = report->assignment.total_bytes = lh_stage_weight_bytes(keeper->stage);
    } else if (keeper->state == LH_KEEPER_BUILDING) {
        lh_assignment_progress progress;
        lh_assignment_job_read_progress(keeper->job, &progress);
        report->assignment.state = progress.loading ? LH_WORKER_LOADING : LH_WORKER_FETCHING;
        report->assignment.done_bytes = progress.done_bytes;
        report->assignment.total_bytes = progress.total_bytes;
    } else {
        report->assignment.state = LH_WORKER_LOADING;
    }
}

static void report_loaded(const lh_assignment_keeper *keeper, lh_worker_report *report) {
    if (keeper->stage == NULL) {
        return;
    }
    report->loaded.present = true;
    report->loaded.first_layer = keeper->held.first_layer;
    report->loaded.last_layer = keeper->held.last_layer;
    memcpy(report->loaded.model, keeper->held.model.header_sha256, sizeof(report->loaded.model));
}

static void report_kv(const lh_assignment_keeper *keeper, uint32_t epoch, lh_worker_report *report) {
    if (keeper->stage == NULL) {
        return;
    }
    const lh_kv_cache *kv = lh_stage_kv(keeper->stage);
    report->kv.present = true;
    report->kv.pages_total = lh_kv_cache_pages_total(kv);
    report->kv.pages_free = lh_kv_cache_pages_free(kv);
    report->kv.page_positions = LH_KV_PAGE_POSITIONS;
    report->kv.page_bytes = lh_kv_cache_page_bytes(kv);
    report->kv.sequences = (uint32_t)lh_kv_cache_sequences(kv);
    report->kv.epoch = epoch;
}

static void copy_text(char *to, size_t capacity, const char *text) {
    snprintf(to, capacity, "%s", text != NULL ? text : "");
}

void lh_assignment_fill_report(void *context, lh_worker_report *report) {
    const lh_assignment_keeper *keeper = context;
    const lh_assignment_options *options = &keeper->options;
    *report = (lh_worker_report){.instance = keeper->instance,
                                 .threads = lh_thread_pool_size(options->job.pool),
                                 .memory_bytes = options->memory_bytes,
                                 .speed = options->speed,
                                 .kv_bytes = options->job.kv_bytes,
                                 .slowdown = lh_slowdown_factor(lh_thread_pool_slowdown(options->job.pool)),
                                 .leaving = keeper->leaving};
    copy_text(report->name, sizeof(report->name), options->name);
    copy_text(report->site, sizeof(report->site), options->site);
    copy_text(report->version, sizeof(report->version), LONGHAUL_VERSION);
    copy_text(report->isa, sizeof(report->isa), options->job.kernels->name);
    copy_text(report->plain_address, sizeof(report->plain_address), options->address_plain);
    copy_text(report->tls_address, sizeof(report->tls_address), options->address_tls);
    lh_server_status status;
    lh_server_read_status(options->server, &status);
    report->steps.active = status.steps_active;
    report->steps.done = status.steps_done;
    report->steps.failed = status.steps_failed;
    report->compute = status.compute;
    report->next = status.next;
    report_assignment(keeper, report);
    report_loaded(keeper, report);
    report_kv(keeper, status.kv_epoch, report);
    lh_reserve_report(keeper->reserve, report);
}
