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
    {"interleave_moe_layer_step", 1},
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

/* Their width is given, or how many experts it is as wide as. */
static lh_status read_shared_width(const lh_metadata *metadata, lh_model_config *config) {
    static const char width[] = "expert_shared_feed_forward_length",
                      count[] = "expert_shared_count";
    double wide = 0, many = 0;
    uint32_t shared;
    lh_status status = number_or(metadata, width, 0, &wide);
    if (status == LH_OK && wide != 0)
        return lh_metadata_count(metadata, width, EXPERT_WIDTH_MAX, 0,
                                 &config->shared_expert_width);
    if (status == LH_OK)
        status = number_or(metadata, count, 0, &many);
    if (status != LH_OK || many == 0)
        return status;
    status =
        lh_metadata_count(metadata, count, EXPERT_WIDTH_MAX / config->expert_width, 0, &shared);
    if (status == LH_OK)
        config->shared_expert_width = shared * config->expert_width;
    return status;
}

static lh_status read_groups(const lh_metadata *metadata, lh_model_config *config) {
    uint32_t *groups = &config->expert_groups, *used = &config->expert_groups_used;
    double given;
    *groups = *used = 1;
    lh_status status = number_or(metadata, "expert_group_count", 0, &given);
    if (status != LH_OK || given == 0)
        return status;
    status = lh_metadata_count(metadata, "expert_group_count", LH_EXPERT_GROUPS_MAX, 0, groups);
    if (status == LH_OK)
        status = lh_metadata_count(metadata, "expert_group_used_count", *groups, *groups, used);
    if (status == LH_OK && (config->experts % *groups != 0 ||
                            config->experts / *groups * *used < config->experts_used)) {
        return lh_fail(metadata->error, LH_ERR_MALFORMED,
                       "GGUF metadata: %s: %u of %u groups of %u experts do not give %u to use",
                       metadata->architecture->name, *used, *groups, config->experts,
                       config->experts_used);
    }
    return status;
}

static lh_status read_leading_dense(const lh_metadata *metadata, lh_model_config *config) {
    static const char suffix[] = "leading_dense_block_count";
    double layers;
    lh_status status = number_or(metadata, suffix, 0, &layers);
    if (status != LH_OK || layers == 0)
        return status;
    return lh_metadata_count(metadata, suffix, config->layers, 0, &config->leading_dense);
}

static lh_status read_widths(const lh_metadata *metadata, lh_model_config *config) {
    bool are_wide = metadata->architecture->experts_are_wide;
    lh_status status =
        lh_metadata_count(metadata, "expert_feed_forward_length", EXPERT_WIDTH_MAX,
                          are_wide ? config->feed_forward_width : 0, &config->expert_width);
    return status != LH_OK ? status : read_shared_width(metadata, config);
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
    if (status == LH_OK)
        status = read_groups(metadata, config);
    if (status == LH_OK)
        status = read_leading_dense(metadata, config);
    return status == LH_OK ? read_routing(metadata, config) : status;
}
