/* Which tensors a model has, and which of them a range of layers needs. */
#include "common/model/model_tensors.h"

#include "common/model/model_widths.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VOCABULARY_MAX (1u << 24)
#define NAME_BYTES     64

/* The sizes that tensors have. */
typedef enum size {
    ONE,
    VOCABULARY,
    WIDTH,
    WIDE,
    HEADS,
    QUERIES,
    KEYS,
    QUERIES_AND_KEYS,
    GATE_AND_UP,
    Q_NORM,
    K_NORM,
    QUERY_RANK,
    LATENT_KEY,
    RANK,
    HEAD_KEYS,
    HEAD_VALUES,
    KEYS_AND_VALUES,
    ATTENDED,
    ROPE_PAIRS,
    EXPERTS,
    EXPERT_WIDTH,
    SHARED_WIDTH,
    SIZES
} size;

/* Of which models a tensor is a part, whatever the architecture. */
typedef enum presence {
    BY_ARCHITECTURE,
    ALL_MODELS,
    DENSE_LAYERS,
    MIXTURES,
    OWN_QUERIES,    /* which are made of the layer's row */
    RANKED_QUERIES, /* which are made of a row of query_rank */
    OWN_KEYS,
    LATENT_KEYS
} presence;

/* How many matrices a tensor is. */
typedef enum stack { ONE_MATRIX, OF_EXPERTS, OF_HEADS } stack;

static const struct role {
    const char *name;   /* of a layer's: what follows "blk.N." */
    size rows, columns; /* one row: a vector */
    presence presence;
    stack stack;    /* one such matrix for each */
    bool is_matrix; /* though of one row */
    bool is_plain;  /* F32 as it lies, though of several rows */
} roles[LH_TENSOR_ROLES] = {
    [LH_TENSOR_EMBEDDING] = {"token_embd.weight", VOCABULARY, WIDTH, ALL_MODELS},
    [LH_TENSOR_ROPE_FACTORS] = {"rope_freqs.weight", ONE, ROPE_PAIRS},
    [LH_TENSOR_ROPE_LONG_FACTORS] = {"rope_factors_long.weight", ONE, ROPE_PAIRS},
    [LH_TENSOR_ROPE_SHORT_FACTORS] = {"rope_factors_short.weight", ONE, ROPE_PAIRS},
    [LH_TENSOR_OUTPUT_NORM] = {"output_norm.weight", ONE, WIDTH, ALL_MODELS},
    [LH_TENSOR_HEAD] = {"output.weight", VOCABULARY, WIDTH},
    [LH_TENSOR_ATTN_NORM] = {"attn_norm.weight", ONE, WIDTH, ALL_MODELS},
    [LH_TENSOR_ATTN_Q] = {"attn_q.weight", QUERIES, WIDTH, OWN_QUERIES},
    [LH_TENSOR_ATTN_K] = {"attn_k.weight", KEYS, WIDTH, OWN_KEYS},
    [LH_TENSOR_ATTN_V] = {"attn_v.weight", KEYS, WIDTH, OWN_KEYS},
    [LH_TENSOR_ATTN_QKV] = {"attn_qkv.weight", QUERIES_AND_KEYS, WIDTH},
    [LH_TENSOR_ATTN_Q_A] = {"attn_q_a.weight", QUERY_RANK, WIDTH, RANKED_QUERIES},
    [LH_TENSOR_ATTN_Q_A_NORM] = {"attn_q_a_norm.weight", ONE, QUERY_RANK, RANKED_QUERIES},
    [LH_TENSOR_ATTN_Q_B] = {"attn_q_b.weight", QUERIES, QUERY_RANK, RANKED_QUERIES},
    [LH_TENSOR_ATTN_KV_A] = {"attn_kv_a_mqa.weight", LATENT_KEY, WIDTH, LATENT_KEYS},
    [LH_TENSOR_ATTN_KV_A_NORM] = {"attn_kv_a_norm.weight", ONE, RANK, LATENT_KEYS},
    [LH_TENSOR_ATTN_KV_B] = {"attn_kv_b.weight", KEYS_AND_VALUES, RANK},
    [LH_TENSOR_ATTN_K_B] = {"attn_k_b.weight", RANK, HEAD_KEYS, .stack = OF_HEADS},
    [LH_TENSOR_ATTN_V_B] = {"attn_v_b.weight", HEAD_VALUES, RANK, .stack = OF_HEADS},
    [LH_TENSOR_ATTN_OUTPUT] = {"attn_output.weight", WIDTH, ATTENDED, ALL_MODELS},
    [LH_TENSOR_ATTN_Q_BIAS] = {"attn_q.bias", ONE, QUERIES},
    [LH_TENSOR_ATTN_K_BIAS] = {"attn_k.bias", ONE, KEYS},
    [LH_TENSOR_ATTN_V_BIAS] = {"attn_v.bias", ONE, KEYS},
    [LH_TENSOR_ATTN_OUTPUT_BIAS] = {"attn_output.bias", ONE, WIDTH},
    [LH_TENSOR_ATTN_SINKS] = {"attn_sinks.weight", ONE, HEADS},
    [LH_TENSOR_ATTN_QKV_BIAS] = {"attn_qkv.bias", ONE, QUERIES_AND_KEYS},
    [LH_TENSOR_ATTN_Q_NORM] = {"attn_q_norm.weight", ONE, Q_NORM},
    [LH_TENSOR_ATTN_K_NORM] = {"attn_k_norm.weight", ONE, K_NORM},
    [LH_TENSOR_ATTN_POST_NORM] = {"post_attention_norm.weight", ONE, WIDTH},
    [LH_TENSOR_FFN_NORM] = {"ffn_norm.weight", ONE, WIDTH, ALL_MODELS},
    [LH_TENSOR_FFN_NORM_BEHIND] = {"post_attention_norm.weight", ONE, WIDTH},
    [LH_TENSOR_FFN_GATE] = {"ffn_gate.weight", WIDE, WIDTH, DENSE_LAYERS},
    [LH_TENSOR_FFN_UP] = {"ffn_up.weight", WIDE, WIDTH, DENSE_LAYERS},
    [LH_TENSOR_FFN_GATE_UP] = {"ffn_up.weight", GATE_AND_UP, WIDTH},
    [LH_TENSOR_FFN_DOWN] = {"ffn_down.weight", WIDTH, WIDE, DENSE_LAYERS},
    [LH_TENSOR_FFN_POST_NORM] = {"post_ffw_norm.weight", ONE, WIDTH},
    [LH_TENSOR_ROUTER] = {"ffn_gate_inp.weight", EXPERTS, WIDTH, MIXTURES},
    [LH_TENSOR_ROUTER_BIAS] = {"exp_probs_b.bias", ONE, EXPERTS},
    [LH_TENSOR_ROUTER_LOGIT_BIAS] = {"ffn_gate_inp.bias", ONE, EXPERTS},
    [LH_TENSOR_EXPERTS_GATE_BIAS] = {.name = "ffn_gate_exps.bias",
                                     .rows = EXPERTS,
                                     .columns = EXPERT_WIDTH,
                                     .is_plain = true},
    [LH_TENSOR_EXPERTS_UP_BIAS] = {.name = "ffn_up_exps.bias",
                                   .rows = EXPERTS,
                                   .columns = EXPERT_WIDTH,
                                   .is_plain = true},
    [LH_TENSOR_EXPERTS_DOWN_BIAS] = {.name = "ffn_down_exps.bias",
                                     .rows = EXPERTS,
                                     .columns = WIDTH,
                                     .is_plain = true},
    [LH_TENSOR_EXPERTS_GATE] = {"ffn_gate_exps.weight", EXPERT_WIDTH, WIDTH, MIXTURES, OF_EXPERTS},
    [LH_TENSOR_EXPERTS_UP] = {"ffn_up_exps.weight", EXPERT_WIDTH, WIDTH, MIXTURES, OF_EXPERTS},
    [LH_TENSOR_EXPERTS_DOWN] = {"ffn_down_exps.weight", WIDTH, EXPERT_WIDTH, MIXTURES, OF_EXPERTS},
    [LH_TENSOR_SHARED_ROUTER] = {.name = "ffn_gate_inp_shexp.weight",
                                 .rows = ONE,
                                 .columns = WIDTH,
                                 .is_matrix = true},
    [LH_TENSOR_SHARED_GATE] = {"ffn_gate_shexp.weight", SHARED_WIDTH, WIDTH},
    [LH_TENSOR_SHARED_UP] = {"ffn_up_shexp.weight", SHARED_WIDTH, WIDTH},
    [LH_TENSOR_SHARED_DOWN] = {"ffn_down_shexp.weight", WIDTH, SHARED_WIDTH},
};

/* Tensors of which others are the parts, and are not there then. */
static const struct fused {
    lh_tensor_role whole;
    uint32_t count;
    lh_tensor_role parts[LH_TENSOR_PARTS_MAX];
    bool is_by_architecture; /* or wherever its parts may be */
} fused[] = {
    {LH_TENSOR_ATTN_QKV, 3, {LH_TENSOR_ATTN_Q, LH_TENSOR_ATTN_K, LH_TENSOR_ATTN_V}, false},
    {LH_TENSOR_ATTN_QKV_BIAS,
     3,
     {LH_TENSOR_ATTN_Q_BIAS, LH_TENSOR_ATTN_K_BIAS, LH_TENSOR_ATTN_V_BIAS},
     false},
    {LH_TENSOR_FFN_GATE_UP, 2, {LH_TENSOR_FFN_GATE, LH_TENSOR_FFN_UP}, true},
};
#define FUSED (sizeof fused / sizeof fused[0])

bool lh_model_is_matrix(lh_tensor_role role) {
    return !roles[role].is_plain && (roles[role].rows != ONE || roles[role].is_matrix);
}

bool lh_model_is_of_experts(lh_tensor_role role) {
    return roles[role].stack == OF_EXPERTS;
}

bool lh_model_is_of_heads(lh_tensor_role role) {
    return roles[role].stack == OF_HEADS;
}

bool lh_model_has(const lh_model_config *config, lh_tensor_role role) {
    return (config->roles & LH_ROLE_BIT(role)) != 0;
}

bool lh_model_layer_is_mixture(const lh_model_config *config, uint32_t layer) {
    return config->experts > 0 && layer >= config->leading_dense;
}

/* Those of the feed-forward part are not in all layers where some of a mixture are dense. */
static bool is_in_layer(const lh_model_config *config, lh_tensor_role role, uint32_t layer) {
    if (role >= LH_TENSOR_FFN_GATE && role <= LH_TENSOR_FFN_DOWN)
        return !lh_model_layer_is_mixture(config, layer);
    return role < LH_TENSOR_ROUTER || role > LH_TENSOR_SHARED_DOWN ||
           lh_model_layer_is_mixture(config, layer);
}

bool lh_model_layer_has(const lh_model_config *config, lh_tensor_role role, uint32_t layer) {
    return lh_model_has(config, role) && is_in_layer(config, role, layer);
}

static uint64_t size_in(const lh_model_config *config, size name) {
    const uint64_t sizes[SIZES] = {
        [ONE] = 1,
        [VOCABULARY] = config->vocabulary,
        [WIDTH] = config->width,
        [WIDE] = config->feed_forward_width,
        [HEADS] = config->heads,
        [QUERIES] = (uint64_t)config->heads * config->head_dim,
        [QUERY_RANK] = config->latent.query_rank,
        [LATENT_KEY] = (uint64_t)config->latent.rank + config->rope_dims,
        [RANK] = config->latent.rank,
        [HEAD_KEYS] = config->head_dim - config->rope_dims,
        [HEAD_VALUES] = config->latent.value_dim,
        [KEYS_AND_VALUES] = (uint64_t)config->heads *
                            (config->head_dim - config->rope_dims + config->latent.value_dim),
        [ATTENDED] = lh_model_attended_width(config),
        [KEYS] = (uint64_t)config->kv_heads * config->head_dim,
        [QUERIES_AND_KEYS] = ((uint64_t)config->heads + 2 * config->kv_heads) * config->head_dim,
        [GATE_AND_UP] = 2 * (uint64_t)config->feed_forward_width,
        [Q_NORM] = (config->norms_whole_rows ? config->heads : 1) * (uint64_t)config->head_dim,
        [K_NORM] = (config->norms_whole_rows ? config->kv_heads : 1) * (uint64_t)config->head_dim,
        [ROPE_PAIRS] = config->rope_dims / 2,
        [EXPERTS] = config->experts,
        [EXPERT_WIDTH] = config->expert_width,
        [SHARED_WIDTH] = config->shared_expert_width,
    };
    return sizes[name];
}

static uint64_t length_of(const lh_model_config *config, lh_tensor_role role) {
    uint64_t rows = size_in(config, roles[role].rows);
    return lh_model_is_matrix(role) ? rows : rows * size_in(config, roles[role].columns);
}

uint32_t lh_model_tensor_parts(const lh_model_config *config, lh_tensor_role role,
                               lh_tensor_part parts[LH_TENSOR_PARTS_MAX]) {
    uint64_t first = 0;
    for (size_t i = 0; i < FUSED; i++) {
        if (fused[i].whole != role)
            continue;
        for (uint32_t j = 0; j < fused[i].count; j++) {
            uint64_t count = length_of(config, fused[i].parts[j]);
            parts[j] = (lh_tensor_part){fused[i].parts[j], first, count};
            first += count;
        }
        return fused[i].count;
    }
    parts[0] = (lh_tensor_part){role, 0, length_of(config, role)};
    return 1;
}

const lh_gguf_tensor *lh_model_tensor(const lh_gguf *gguf, lh_tensor_role role, uint32_t layer) {
    char name[NAME_BYTES];
    if (role < LH_TENSOR_LAYER_FIRST)
        return lh_gguf_tensor_find(gguf, roles[role].name);
    snprintf(name, sizeof name, "blk.%u.%s", layer, roles[role].name);
    return lh_gguf_tensor_find(gguf, name);
}

/* "blk.N.rest" -> N and rest; false for any other name. */
static bool split_layer_name(const char *name, uint32_t *layer, const char **rest) {
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9' ||
        (name[4] == '0' && name[5] != '.')) {
        return false;
    }
    char *end;
    unsigned long number = strtoul(name + 4, &end, 10);
    if (*end != '.' || number > UINT32_MAX)
        return false;
    *layer = (uint32_t)number;
    *rest = end + 1;
    return true;
}

/* The role of a tensor, LH_TENSOR_ROLES for one that the computation does not know or this model
 * has not. */
static lh_tensor_role role_of(const lh_model_config *config, const char *name) {
    uint32_t layer;
    unsigned first = 0, last = LH_TENSOR_LAYER_FIRST;
    layer = 0;
    if (split_layer_name(name, &layer, &name)) {
        if (layer >= config->layers)
            return LH_TENSOR_ROLES;
        first = LH_TENSOR_LAYER_FIRST;
        last = LH_TENSOR_ROLES;
    }
    for (unsigned role = first; role < last; role++)
        if (lh_model_layer_has(config, (lh_tensor_role)role, layer) &&
            strcmp(name, roles[role].name) == 0)
            return (lh_tensor_role)role;
    return LH_TENSOR_ROLES;
}

static lh_status refuse_type(const lh_gguf_tensor *tensor, const char *name, lh_error *error) {
    static const char types[] =
#define X(dtype, number, text, elements, bytes) text ", "
        LH_DTYPE_TABLE(X)
#undef X
        ;
    return lh_fail(error, LH_ERR_UNSUPPORTED, "GGUF tensor %s: type %s is not supported (%.*s are)",
                   name, lh_dtype_ggml_name(tensor->type), (int)sizeof types - 3, types);
}

static lh_status check_tensor(const lh_model_config *config, const lh_gguf_tensor *tensor,
                              lh_tensor_role role, const char *name, lh_error *error) {
    uint64_t rows = size_in(config, roles[role].rows),
             columns = size_in(config, roles[role].columns);
    const uint64_t counts[] = {
        [ONE_MATRIX] = 1, [OF_EXPERTS] = config->experts, [OF_HEADS] = config->heads};
    uint64_t matrices = counts[roles[role].stack];
    if (tensor->shape[0] != columns || tensor->shape[1] != rows || tensor->shape[2] != matrices ||
        tensor->shape[3] != 1) {
        return lh_fail(error, LH_ERR_MALFORMED,
                       "GGUF tensor %s: shape [%llu, %llu, %llu, %llu], but the metadata asks for "
                       "[%llu, %llu, %llu]",
                       name, (unsigned long long)tensor->shape[0],
                       (unsigned long long)tensor->shape[1], (unsigned long long)tensor->shape[2],
                       (unsigned long long)tensor->shape[3], (unsigned long long)columns,
                       (unsigned long long)rows, (unsigned long long)matrices);
    }
    const lh_dtype_info *info = lh_dtype_lookup(tensor->type);
    if (!info)
        return refuse_type(tensor, name, error);
    if (!lh_model_is_matrix(role) && info->dtype != LH_DTYPE_F32) {
        return lh_fail(error, LH_ERR_UNSUPPORTED,
                       "GGUF tensor %s: type %s is not supported here (F32 is)", name,
                       lh_dtype_ggml_name(tensor->type));
    }
    if (columns % info->block_elements != 0) {
        return lh_fail(error, LH_ERR_MALFORMED,
                       "GGUF tensor %s: rows of %llu are not whole blocks of %s", name,
                       (unsigned long long)columns, info->name);
    }
    return LH_OK;
}

static lh_status read_vocabulary(const lh_gguf *gguf, lh_model_config *config, lh_error *error) {
    const lh_gguf_tensor *embedding = lh_model_tensor(gguf, LH_TENSOR_EMBEDDING, 0);
    if (!embedding)
        return lh_fail(error, LH_ERR_MALFORMED, "GGUF tensor token_embd.weight is missing");
    if (embedding->shape[1] == 0 || embedding->shape[1] > VOCABULARY_MAX) {
        return lh_fail(error, LH_ERR_LIMIT,
                       "GGUF tensor token_embd.weight: %llu rows are not in 1..%u",
                       (unsigned long long)embedding->shape[1], VOCABULARY_MAX);
    }
    config->vocabulary = (uint32_t)embedding->shape[1];
    return LH_OK;
}

static bool is_everywhere(const lh_model_config *config, presence where) {
    switch (where) {
    case ALL_MODELS:
        return true;
    case DENSE_LAYERS:
        return config->experts == 0 || config->leading_dense > 0;
    case MIXTURES:
        return lh_model_layer_is_mixture(config, config->layers - 1);
    case OWN_QUERIES:
        return config->latent.query_rank == 0;
    case RANKED_QUERIES:
        return config->latent.query_rank > 0;
    case OWN_KEYS:
        return config->latent.rank == 0;
    case LATENT_KEYS:
        return config->latent.rank > 0;
    case BY_ARCHITECTURE:
        break;
    }
    return false;
}

static bool is_in_file(const lh_gguf *gguf, lh_tensor_role role) {
    return lh_model_tensor(gguf, role, 0);
}

/* A tensor that holds others is there instead of them. `possible`: those that may be there. */
static void replace_by_fused(const lh_gguf *gguf, uint64_t possible, lh_model_config *config) {
    for (size_t i = 0; i < FUSED; i++) {
        uint64_t parts = 0;
        for (uint32_t j = 0; j < fused[i].count; j++)
            parts |= LH_ROLE_BIT(fused[i].parts[j]);
        if (!fused[i].is_by_architecture && (possible & parts) == parts &&
            is_in_file(gguf, fused[i].whole)) {
            config->roles |= LH_ROLE_BIT(fused[i].whole);
        }
        if (lh_model_has(config, fused[i].whole))
            config->roles &= ~parts;
    }
}

/* The matrix of keys and values is whole in older files, and in two parts in newer ones. */
static uint64_t latent_roles(const lh_gguf *gguf, const lh_model_config *config) {
    if (config->latent.rank == 0)
        return 0;
    return lh_model_tensor(gguf, LH_TENSOR_ATTN_KV_B, 0)
               ? LH_ROLE_BIT(LH_TENSOR_ATTN_KV_B)
               : LH_ROLE_BIT(LH_TENSOR_ATTN_K_B) | LH_ROLE_BIT(LH_TENSOR_ATTN_V_B);
}

/* What may be absent counts as there where the first layer that may have it does: then all
 * must. */
static void read_roles(const lh_gguf *gguf, const lh_architecture *architecture,
                       lh_model_config *config) {
    const uint64_t long_short =
        LH_ROLE_BIT(LH_TENSOR_ROPE_LONG_FACTORS) | LH_ROLE_BIT(LH_TENSOR_ROPE_SHORT_FACTORS);
    uint64_t optional = architecture->optional | LH_ROLE_BIT(LH_TENSOR_HEAD);
    config->roles = architecture->required | latent_roles(gguf, config);
    if (config->experts > 0)
        optional |= LH_ROLE_BIT(LH_TENSOR_ROUTER_BIAS);
    for (unsigned i = 0; i < LH_TENSOR_ROLES; i++) {
        lh_tensor_role role = (lh_tensor_role)i;
        uint32_t layer = is_in_layer(config, role, 0) ? 0 : config->leading_dense;
        if (is_everywhere(config, roles[role].presence) ||
            ((optional & LH_ROLE_BIT(role)) != 0 && lh_model_tensor(gguf, role, layer)))
            config->roles |= LH_ROLE_BIT(role);
    }
    config->roles &= ~architecture->lacking;
    if ((config->roles & long_short) != 0) /* one of them alone will be missed */
        config->roles |= long_short;
    replace_by_fused(gguf, config->roles | optional, config);
}

static bool is_of_drafting_layer(const lh_model_config *config, const char *name) {
    uint32_t layer;
    return split_layer_name(name, &layer, &name) && layer >= config->layers &&
           layer - config->layers < config->drafting_layers;
}

/* Every tensor of the file has a role. */
static lh_status check_known(const lh_gguf *gguf, const lh_model_config *config, lh_error *error) {
    for (size_t i = 0; i < lh_gguf_tensor_count(gguf); i++) {
        const lh_gguf_tensor *tensor = lh_gguf_tensor_at(gguf, i);
        char name[NAME_BYTES + 1];
        size_t length = tensor->name.length < NAME_BYTES ? tensor->name.length : NAME_BYTES;
        memcpy(name, tensor->name.bytes, length);
        name[length] = '\0';
        if (is_of_drafting_layer(config, name))
            continue;
        lh_tensor_role role = role_of(config, name);
        if (role == LH_TENSOR_ROLES || strlen(name) != tensor->name.length) {
            return lh_fail(error, LH_ERR_UNSUPPORTED,
                           "GGUF tensor %s is not known to this architecture", name);
        }
        lh_status status = check_tensor(config, tensor, role, name, error);
        if (status != LH_OK)
            return status;
    }
    return LH_OK;
}

static lh_status check_complete(const lh_gguf *gguf, const lh_model_config *config,
                                lh_error *error) {
    for (unsigned role = 0; role < LH_TENSOR_ROLES; role++) {
        bool layered = role >= LH_TENSOR_LAYER_FIRST;
        for (uint32_t layer = 0; layer < (layered ? config->layers : 1); layer++) {
            if (!lh_model_layer_has(config, (lh_tensor_role)role, layer) ||
                lh_model_tensor(gguf, (lh_tensor_role)role, layer)) {
                continue;
            }
            if (layered) {
                return lh_fail(error, LH_ERR_MALFORMED, "GGUF tensor blk.%u.%s is missing", layer,
                               roles[role].name);
            }
            return lh_fail(error, LH_ERR_MALFORMED, "GGUF tensor %s is missing", roles[role].name);
        }
    }
    return LH_OK;
}

lh_status lh_model_check_tensors(const lh_metadata *metadata, lh_model_config *config) {
    lh_status status = read_vocabulary(metadata->gguf, config, metadata->error);
    read_roles(metadata->gguf, metadata->architecture, config);
    if (status == LH_OK)
        status = check_known(metadata->gguf, config, metadata->error);
    return status != LH_OK ? status : check_complete(metadata->gguf, config, metadata->error);
}

/* Every range needs the roles that its layers have. */
static bool range_needs(const lh_model_config *config, lh_layer_range range, lh_tensor_role role) {
    bool first = range.first == 0, last = range.last == config->layers;
    switch (role) {
    case LH_TENSOR_EMBEDDING:
        return first || (last && !lh_model_has(config, LH_TENSOR_HEAD));
    case LH_TENSOR_HEAD:
    case LH_TENSOR_OUTPUT_NORM:
        return last && lh_model_has(config, role);
    default:
        return lh_model_has(config, role);
    }
}

lh_status lh_model_visit_tensors(const lh_gguf *gguf, const lh_model_config *config,
                                 lh_layer_range range, lh_tensor_visitor *visit, void *context,
                                 lh_error *error) {
    assert(range.first < range.last && range.last <= config->layers);
    lh_status status = LH_OK;
    for (unsigned i = 0; i < LH_TENSOR_LAYER_FIRST && status == LH_OK; i++) {
        lh_tensor_role role = (lh_tensor_role)i;
        if (range_needs(config, range, role))
            status = visit(context, role, 0, lh_model_tensor(gguf, role, 0), error);
    }
    for (uint32_t layer = range.first; layer < range.last; layer++) {
        for (unsigned i = LH_TENSOR_LAYER_FIRST; i < LH_TENSOR_ROLES && status == LH_OK; i++) {
            lh_tensor_role role = (lh_tensor_role)i;
            if (lh_model_layer_has(config, role, layer))
                status = visit(context, role, layer, lh_model_tensor(gguf, role, layer), error);
        }
    }
    return status;
}
