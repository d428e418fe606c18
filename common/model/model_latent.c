/* Older files give the sizes of a head as those of its key and value. Newer ones, whose matrix of
 * keys and values is in two parts, give the sizes of the one row that is kept there, and those of a
 * head under names of their own. */
#include "common/model/model_latent.h"

/* The greatest published models have a rank of 512, of queries 1536, heads of 192. */
#define RANK_MAX     8192u
#define HEAD_DIM_MAX 1024u

static lh_status read_size(const lh_metadata *metadata, const char *newer, const char *older,
                           uint32_t *size) {
    double value;
    lh_status status = lh_metadata_number(metadata, newer, &value);
    if (status != LH_OK && status != LH_ERR_NOT_FOUND)
        return status;
    return lh_metadata_count(metadata, status == LH_OK ? newer : older, HEAD_DIM_MAX, 0, size);
}

static lh_status read_query_rank(const lh_metadata *metadata, uint32_t *rank) {
    static const char suffix[] = "attention.q_lora_rank";
    double value = 0;
    lh_status status = lh_metadata_number(metadata, suffix, &value);
    if (status == LH_ERR_NOT_FOUND || (status == LH_OK && value == 0))
        return LH_OK;
    return status != LH_OK ? status : lh_metadata_count(metadata, suffix, RANK_MAX, 0, rank);
}

static lh_status check_rotated(const lh_metadata *metadata, const lh_model_config *config) {
    uint32_t rotated;
    lh_status status =
        lh_metadata_count(metadata, "rope.dimension_count", HEAD_DIM_MAX, 0, &rotated);
    if (status == LH_OK && rotated >= config->head_dim) {
        return lh_fail(metadata->error, LH_ERR_MALFORMED,
                       "GGUF metadata: %s.rope.dimension_count = %u leaves nothing of a head of %u",
                       metadata->architecture->name, rotated, config->head_dim);
    }
    return status;
}

lh_status lh_model_read_latent(const lh_metadata *metadata, lh_model_config *config) {
    lh_latent_shape *latent = &config->latent;
    config->kv_heads = 1;
    lh_status status =
        lh_metadata_count(metadata, "attention.kv_lora_rank", RANK_MAX, 0, &latent->rank);
    if (status == LH_OK)
        status = read_query_rank(metadata, &latent->query_rank);
    if (status == LH_OK) {
        status = read_size(metadata, "attention.key_length_mla", "attention.key_length",
                           &config->head_dim);
    }
    if (status == LH_OK) {
        status = read_size(metadata, "attention.value_length_mla", "attention.value_length",
                           &latent->value_dim);
    }
    return status != LH_OK ? status : check_rotated(metadata, config);
}
