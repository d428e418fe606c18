/* A reply's fields from the chain's, and the list of a model's tensors. */
#include "gateway/fleet/port/control_json.h"

#include "common/base/digest.h"
#include "common/gguf/tensor_blocks.h"
#include "common/protocol/control/assignment_reply.h"
#include "gateway/cost/pipeline_depth.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Replies ---- */

#define COPY(to, from) snprintf((to), sizeof(to), "%s", (from))

static lh_control_model model_of(const lh_fleet_model *model) {
    lh_control_model its = {.file_bytes = lh_model_file_size(model->file),
                            .header_bytes = lh_model_file_header_bytes(model->file)};
    COPY(its.name, model->name);
    COPY(its.header_sha256, lh_model_file_header_sha256(model->file));
    COPY(its.weights_url, model->weights_path);
    COPY(its.tensors_url, model->tensors_path);
    return its;
}

/* Without members where the stage is one worker's. */
static lh_control_team team_of(const lh_assignment *a) {
    const lh_chain_team *team = &a->stage.team;
    lh_control_team its = {.own = a->member, .epoch = team->epoch};
    if (team->follower_count == 0)
        return its;
    its.count = team->follower_count + 1;
    memcpy(its.secret, team->secret, sizeof its.secret);
    for (uint32_t i = 0; i < its.count; i++) {
        lh_control_member *member = &its.members[i];
        member->weight = team->weights[i];
        COPY(member->name, i == 0 ? a->stage.name : team->followers[i - 1].name);
        COPY(member->address, a->member_addresses[i]);
    }
    return its;
}

/* Without its next hop. */
static void fill_stage(lh_control_assignment *its, const lh_assignment *a,
                       const lh_fleet_options *options, const lh_fleet_model *model) {
    *its = (lh_control_assignment){.generation = a->epoch,
                                   .epoch = a->epoch,
                                   .kv_epoch = a->stage.kv_epoch,
                                   .model = model_of(model),
                                   .first_layer = a->stage.first_layer,
                                   .last_layer = a->stage.last_layer,
                                   .layers = options->model->layers,
                                   .context = options->context,
                                   .rows_max = options->rows_max,
                                   .steps_max = LH_WORKER_BUFFERS,
                                   .team = team_of(a),
                                   .wire = a->stage.wire};
    COPY(its->chain, a->chain);
    COPY(its->activations, options->has_q16 ? "q16" : "q8");
    COPY(its->gpu_math, options->has_fast_math ? "fast" : "exact");
    COPY(its->kv_type, options->kv_type);
}

static void fill_assignment(lh_control_assignment *its, const lh_fleet_answer *answer,
                            const lh_fleet_model *model) {
    const lh_assignment *a = &answer->assignment;
    fill_stage(its, a, answer->options, model);
    its->next = a->next;
    COPY(its->previous_name, a->previous ? a->previous : "");
    COPY(its->previous_relay, a->stage.way.via);
}

static lh_control_trial trial_of(const lh_fleet_answer *answer) {
    const lh_assignment *a = &answer->trial;
    lh_control_trial trial = {
        .width = answer->options->model->width, .wire = a->stage.wire, .next = a->next};
    COPY(trial.chain, a->chain);
    return trial;
}

static void fill_relayed(lh_assignment_reply *reply, const lh_fleet_answer *answer) {
    reply->relayed_count = answer->relayed_count;
    for (uint32_t i = 0; i < answer->relayed_count; i++)
        reply->relayed[i] = answer->relayed[i];
}

char *lh_control_json_render_answer(const lh_fleet_answer *answer, const lh_fleet_model *model) {
    lh_assignment_reply reply = {.renew_ms = answer->renew_us / 1000,
                                 .lease_ms = answer->lease_us / 1000,
                                 .is_planned = answer->is_planned,
                                 .is_urgent = answer->is_urgent,
                                 .has_assignment = answer->has_assignment,
                                 .has_prepare = answer->has_prepare,
                                 .has_trial = answer->has_trial,
                                 .has_survey = answer->has_survey,
                                 .has_leave = answer->is_leaving,
                                 .may_go = answer->may_go};
    if (reply.has_assignment)
        fill_assignment(&reply.assignment, answer, model);
    if (reply.has_prepare)
        fill_stage(&reply.prepare, &answer->prepare, answer->options, model);
    reply.prepare.weights_only = !answer->prepare_holds;
    reply.prepare.bytes_per_s_max = answer->prepare_bytes_per_s;
    if (reply.has_trial)
        reply.trial = trial_of(answer);
    if (reply.has_survey)
        reply.survey = (lh_control_survey){answer->survey.to, answer->survey.bytes_max};
    fill_relayed(&reply, answer);
    if (reply.has_leave)
        lh_worker_report_copy_error(reply.leave_reason, answer->leave_reason);
    COPY(reply.trust_sha256, answer->trust_sha256 ? answer->trust_sha256 : "");
    return lh_assignment_reply_render(&reply);
}

/* ---- Tensors ---- */

/* "NAME": what `digest_of` gives, for each tensor. */
static json_t *render_digests(const lh_model_file *file,
                              const uint8_t *(*digest_of)(const lh_model_file *, size_t)) {
    const lh_gguf *gguf = lh_model_file_gguf(file);
    json_t *tensors = json_object();
    for (size_t i = 0; tensors && i < lh_gguf_tensor_count(gguf); i++) {
        const lh_gguf_tensor *tensor = lh_gguf_tensor_at(gguf, i);
        char hex[LH_SHA256_HEX_BYTES];
        char *name = strndup(tensor->name.bytes, tensor->name.length);
        lh_sha256_render(digest_of(file, i), hex);
        if (!name || json_object_set_new(tensors, name, json_string(hex)) != 0) {
            json_decref(tensors);
            tensors = NULL;
        }
        free(name);
    }
    return tensors;
}

char *lh_control_json_render_tensors(const lh_fleet_model *model) {
    json_t *blocks = json_pack("{s:i, s:s, s:s, s:o}", "rows", (int)LH_TENSOR_BLOCK_ROWS, "url",
                               model->blocks_path, "pieces_url", model->pieces_path, "sha256",
                               render_digests(model->file, lh_model_file_blocks_digest));
    json_t *list =
        json_pack("{s:o, s:o}", "tensors", render_digests(model->file, lh_model_file_tensor_digest),
                  "blocks", blocks);
    char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    return text;
}
