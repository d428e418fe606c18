/* How many experts there are, how wide, and how a row's are chosen. */
#include "common/model/model_experts.h"

#include <math.h>

/* The greatest published mixtures have 512. */
#define EXPERTS_MAX      4096u
#define EXPERT_WIDTH_MAX (1u << 20)

/* GGUF's numbers of how logits become shares; 0: not said. */
enum { GATING_NONE, GATING_SOFTMAX, GATING_SIGMOID, GATING_SOFTMAX_OF_CHOSEN, GATINGS };

/* What we do not compute with, and the greatest value that changes nothing. */
static const struct refused {
    const char *suffix;
    double harmless;
} refused[] = {
    {"expert_group_count", 1},        {"expert_group_used_count", 1},
    {"leading_dense_block_count", 0}, {"interleave_moe_layer_step", 1},
    {"moe_every_n_layers", 1},
};

static lh_status number_or(const lh_metadata *metadata, const char *suffix, double fallback,
                           double *value) {
    lh_status status = lh_metadata_number(metadata, suffix, value);
    if (status == LH_ERR_NOT_FOUND) {
        *value = fallback;
        return LH_OK;
    }
    return status;
}

static lh_status refuse(const lh_metadata *metadata, const char *suffix, double value) {
    return lh_fail(metadata->error, LH_ERR_UNSUPPORTED,
                   "GGUF metadata: %s.%s = %g is not supported", metadata->architecture->name,
                   suffix, value);
}

static lh_status check_refused(const lh_metadata *metadata) {
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        double value;
        lh_status status = number_or(metadata, refused[i].suffix, 0, &value);
        if (status != LH_OK)
            return status;
        if (!(value >= 0 && value <= refused[i].harmless))
            return refuse(metadata, refused[i].suffix, value);
    }
    return LH_OK;
}

static lh_status read_widths(const lh_metadata *metadata, lh_model_config *config) {
    bool are_wide = metadata->architecture->experts_are_wide;
    double shared = 0;
    lh_status status =
        lh_metadata_count(metadata, "expert_feed_forward_length", EXPERT_WIDTH_MAX,
                          are_wide ? config->feed_forward_width : 0, &config->expert_width);
    if (status == LH_OK)
        status = number_or(metadata, "expert_shared_feed_forward_length", 0, &shared);
    if (status == LH_OK && shared != 0) {
        status = lh_metadata_count(metadata, "expert_shared_feed_forward_length", EXPERT_WIDTH_MAX,
                                   0, &config->shared_expert_width);
    }
    return status;
}

static lh_status read_routing(const lh_metadata *metadata, lh_model_config *config) {
    const lh_routing routings[GATINGS] = {[GATING_NONE] = metadata->architecture->routing,
                                          [GATING_SOFTMAX] = LH_ROUTING_SOFTMAX,
                                          [GATING_SIGMOID] = LH_ROUTING_SIGMOID,
                                          [GATING_SOFTMAX_OF_CHOSEN] =
                                              LH_ROUTING_SOFTMAX_OF_CHOSEN};
    double gating, scale, normalized;
    lh_status status = number_or(metadata, "expert_gating_func", GATING_NONE, &gating);
    if (status == LH_OK)
        status = number_or(metadata, "expert_weights_scale", 0, &scale);
    if (status == LH_OK) {
        status = number_or(metadata, "expert_weights_norm",
                           metadata->architecture->experts_normalized, &normalized);
    }
    if (status != LH_OK)
        return status;
    if (!(gating >= GATING_NONE && gating < GATINGS) || gating != trunc(gating))
        return refuse(metadata, "expert_gating_func", gating);
    if (!(scale >= 0) || !isfinite(scale))
        return refuse(metadata, "expert_weights_scale", scale);
    config->routing = routings[(int)gating];
    config->experts_scale = scale > 0 ? (float)scale : 1;
    config->experts_normalized = normalized != 0;
    return LH_OK;
}

lh_status lh_model_read_experts(const lh_metadata *metadata, lh_model_config *config) {
    lh_expert_use use = metadata->architecture->experts;
    double experts;
    lh_status status = number_or(metadata, "expert_count", 0, &experts);
    if (status != LH_OK)
        return status;
    if (experts == 0 && use != LH_EXPERTS_ALWAYS)
        return LH_OK;
    if (use == LH_EXPERTS_NEVER)
        return refuse(metadata, "expert_count", experts);
    status = lh_metadata_count(metadata, "expert_count", EXPERTS_MAX, 0, &config->experts);
    if (status == LH_OK) {
        status = lh_metadata_count(metadata, "expert_used_count", config->experts, 0,
                                   &config->experts_used);
    }
    if (status == LH_OK)
        status = check_refused(metadata);
    if (status == LH_OK)
        status = read_widths(metadata, config);
    return status == LH_OK ? read_routing(metadata, config) : status;
}
