/* Each dimension is cut at the multiple of its unit that is next to what the weights ask for. */
#include "worker/compute/stage/division.h"

#include "common/model/model_widths.h"

/* What attention gives of one head. */
static uint32_t attended_dim(const lh_model_config *config) {
    return config->latent.rank > 0 ? config->latent.value_dim : config->head_dim;
}

/* Query heads whose attended values are whole blocks. */
static uint32_t head_unit(const lh_model_config *config) {
    uint32_t unit = 1;
    while ((uint64_t)unit * attended_dim(config) % LH_SPAN_COLUMNS != 0)
        unit++;
    return unit;
}

static uint64_t weight_of(const lh_membership *membership, uint32_t member) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < membership->members; i++)
        sum += membership->weights[i];
    return sum > 0 ? membership->weights[member] : 1;
}

/* What is left of `units` for the members from `member` on is divided by what they weigh; each of
 * them has at least one. */
static uint32_t units_of(const lh_membership *membership, uint32_t member, uint32_t units) {
    const uint32_t behind = membership->members - 1 - member;
    const uint64_t own = weight_of(membership, member);
    uint64_t sum = 0;
    for (uint32_t i = member; i < membership->members; i++)
        sum += weight_of(membership, i);
    const uint64_t share = sum > 0 ? (own * units + sum / 2) / sum : 1;
    return share < 1 ? 1 : share > units - behind ? units - behind : (uint32_t)share;
}

static lh_status cut(const char *what, uint32_t count, uint32_t unit,
                     const lh_membership *membership, lh_division_spans *spans, lh_error *error) {
    uint32_t units = (uint32_t)(((uint64_t)count + unit - 1) / unit), begin = 0;
    if (units < membership->members) {
        return lh_fail(error, LH_ERR_LIMIT,
                       "a stage of %u members: the model has %u %s, and they can be divided in %u",
                       membership->members, count, what, units);
    }
    for (uint32_t i = 0; i < membership->members; i++) {
        const uint32_t mine = units_of(membership, i, units);
        const uint64_t end = begin + (uint64_t)mine * unit;
        units -= mine;
        spans->of[i] = (lh_span){begin, end < count ? (uint32_t)end : count};
        begin = spans->of[i].end;
    }
    return LH_OK;
}

/* What a model has none of is nobody's. */
static lh_status cut_if_there(const char *what, uint32_t count, const lh_membership *membership,
                              lh_division_spans *spans, lh_error *error) {
    return count > 0 ? cut(what, count, LH_SPAN_COLUMNS, membership, spans, error) : LH_OK;
}

static lh_span times(lh_span span, uint32_t factor) {
    return (lh_span){span.begin * factor, span.end * factor};
}

static void divide_attention(lh_division *division, const lh_model_config *config) {
    for (uint32_t i = 0; i < division->members; i++) {
        const lh_span heads = division->heads.of[i];
        const lh_span shared = {heads.begin / division->group,
                                (heads.end - 1) / division->group + 1};
        division->kv_heads.of[i] =
            config->latent.rank > 0 ? (lh_span){0, config->kv_heads} : shared;
        division->kept.of[i] = times(division->kv_heads.of[i], config->head_dim);
        division->queries.of[i] = times(heads, config->head_dim);
        division->attended.of[i] = times(heads, attended_dim(config));
    }
}

static void make_alone(const lh_model_config *config, lh_division *division) {
    division->members = 1;
    division->heads.of[0] = (lh_span){0, config->heads};
    division->kv_heads.of[0] = (lh_span){0, config->kv_heads};
    division->attended.of[0] = (lh_span){0, lh_model_attended_width(config)};
    division->gated.of[0] = (lh_span){0, config->feed_forward_width};
    division->mixed.of[0] = (lh_span){0, config->expert_width};
    division->shared.of[0] = (lh_span){0, config->shared_expert_width};
    division->columns.of[0] = (lh_span){0, config->width};
    division->tokens.of[0] = (lh_span){0, config->vocabulary};
}

lh_status lh_division_make(const lh_model_config *config, const lh_membership *membership,
                           lh_division *division, lh_error *error) {
    *division = (lh_division){.members = membership->members,
                              .own = membership->number,
                              .group = config->heads / config->kv_heads};
    if (membership->members > LH_MEMBERS_MAX ||
        membership->number >= (membership->members > 0 ? membership->members : 1)) {
        return lh_fail(error, LH_ERR_INVALID, "a stage of %u members has no number %u (up to %u)",
                       membership->members, membership->number, LH_MEMBERS_MAX);
    }
    if (membership->members < 2) {
        make_alone(config, division);
        return LH_OK;
    }
    lh_status status =
        cut("heads", config->heads, head_unit(config), membership, &division->heads, error);
    if (status == LH_OK)
        status = cut_if_there("feed-forward rows", config->feed_forward_width, membership,
                              &division->gated, error);
    if (status == LH_OK)
        status = cut_if_there("rows of an expert", config->expert_width, membership,
                              &division->mixed, error);
    if (status == LH_OK)
        status = cut_if_there("rows of the shared expert", config->shared_expert_width, membership,
                              &division->shared, error);
    if (status == LH_OK)
        status =
            cut("columns", config->width, LH_SPAN_COLUMNS, membership, &division->columns, error);
    if (status == LH_OK)
        status = cut("tokens", config->vocabulary, LH_SPAN_COLUMNS, membership, &division->tokens,
                     error);
    if (status == LH_OK)
        divide_attention(division, config);
    return status;
}

static uint32_t length_of(lh_span span) {
    return span.end - span.begin;
}

static uint32_t whole_of(const lh_division *division, const lh_division_spans *spans) {
    return spans->of[division->members > 0 ? division->members - 1 : 0].end;
}

uint64_t lh_division_gathered_max(const lh_division *division, const lh_model_config *config) {
    const uint64_t widths[] = {whole_of(division, &division->columns),
                               whole_of(division, &division->queries),
                               whole_of(division, &division->kept),
                               whole_of(division, &division->attended),
                               whole_of(division, &division->gated),
                               whole_of(division, &division->shared),
                               (uint64_t)whole_of(division, &division->mixed) *
                                   config->experts_used};
    uint64_t most = 0;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        most = widths[i] > most ? widths[i] : most;
    return most;
}

lh_model_config lh_division_config(const lh_division *division, const lh_model_config *config) {
    lh_model_config own = *config;
    own.heads = length_of(lh_division_own(division, &division->heads));
    own.kv_heads = length_of(lh_division_own(division, &division->kv_heads));
    own.feed_forward_width = length_of(lh_division_own(division, &division->gated));
    own.expert_width = length_of(lh_division_own(division, &division->mixed));
    own.shared_expert_width = length_of(lh_division_own(division, &division->shared));
    return own;
}

/* The rows of a matrix, or the elements of a vector, that the member holds; NULL: all of them. */
static const lh_division_spans *spans_of(const lh_division *division, lh_tensor_role role) {
    switch (role) {
    case LH_TENSOR_ATTN_Q:
    case LH_TENSOR_ATTN_Q_B:
    case LH_TENSOR_ATTN_Q_BIAS:
        return &division->queries;
    case LH_TENSOR_ATTN_K:
    case LH_TENSOR_ATTN_V:
    case LH_TENSOR_ATTN_K_BIAS:
    case LH_TENSOR_ATTN_V_BIAS:
        return &division->kept;
    case LH_TENSOR_FFN_GATE:
    case LH_TENSOR_FFN_UP:
        return &division->gated;
    case LH_TENSOR_ATTN_SINKS:
        return &division->heads;
    case LH_TENSOR_EXPERTS_GATE:
    case LH_TENSOR_EXPERTS_UP:
    case LH_TENSOR_EXPERTS_GATE_BIAS:
    case LH_TENSOR_EXPERTS_UP_BIAS:
        return &division->mixed;
    case LH_TENSOR_SHARED_GATE:
    case LH_TENSOR_SHARED_UP:
        return &division->shared;
    case LH_TENSOR_ATTN_OUTPUT:
    case LH_TENSOR_FFN_DOWN:
    case LH_TENSOR_EXPERTS_DOWN:
    case LH_TENSOR_EXPERTS_DOWN_BIAS:
    case LH_TENSOR_SHARED_DOWN:
        return &division->columns;
    case LH_TENSOR_HEAD:
        return &division->tokens;
    default:
        return NULL;
    }
}

void lh_division_cut(const lh_division *division, lh_tensor_role role, lh_tensor_part *part) {
    const lh_division_spans *spans = spans_of(division, role);
    if (division->members < 2 || !spans)
        return;
    const lh_span own = lh_division_own(division, spans);
    part->first += own.begin;
    part->count = length_of(own);
}
