/* Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434) in its absorbed form.
 *
 * Of a position only a latent row c[rank] and one rotated key r[rope_dims] are kept, for all heads
 * together. A head's key is (Wk c, r), its value Wv c; with a query (a, b) of the same two parts
 *
 *   a . Wk c + b . r  =  (Wk^T a) . c + b . r          so the query is taken to the latent space,
 *   sum of p[t] Wv c[t]  =  Wv (sum of p[t] c[t])      and the result is taken back from there,
 *
 * and keys and values are never made. Every row is computed so, those of a prompt too: the form
 * that multiplies out would be fewer operations for many rows, but other bits. Attention itself is
 * the kernel latent_attention, which reads the pages once for all heads.
 *
 * A part of the work is one run of rows and some heads: queries to the latent space, attention,
 * results back, in the scratch of its thread. Few rows, which see much, go in three steps instead:
 * queries by some heads; attention by 16 heads, which read a row together, and by blocks of keys;
 * and results by some heads. Neither shows in a result.
 *
 * Thread: the compute thread. */
#pragma once

#include "common/base/status.h"
#include "common/model/model.h"
#include "worker/compute/stage/ops.h"
#include "worker/compute/stage/parameters.h"

typedef struct lh_latent {
    lh_latent_shape shape;
    uint32_t heads, key_dim, rope_dims; /* key_dim: of a head, what is not rotated */
    float scale;
    lh_packed queries; /* [rows][query_rank], where queries are made of such rows */
    char *scratch;     /* [threads][scratch_bytes] */
    size_t scratch_bytes;
    lh_attention_partials partials;
    float *divided; /* [partials.rows][heads][rank + rope_dims]: queries of rows that are divided */
} lh_latent;

/* For steps of so many rows through these layers, which have latent attention.
 * LH_ERR_NO_MEMORY. */
lh_status lh_latent_init(lh_latent *latent, const lh_model_config *config,
                         const lh_parameters *weights, const lh_compute *compute, uint32_t rows,
                         uint32_t context, uint32_t threads, lh_error *error);
void lh_latent_reset(lh_latent *latent, const lh_compute *compute);
/* Of the scratch that lh_latent_init makes, what each thread has; 0: it would overflow. */
size_t lh_latent_thread_bytes(const lh_model_config *config);
/* Of what all threads share. */
uint64_t lh_latent_shared_bytes(const lh_model_config *config, uint32_t rows, uint32_t context,
                                uint32_t threads);

/* y[rows][heads][value_dim] = attention of q[rows][heads][key_dim + rope_dims] over the pages of
 * one layer; rows of both lh_row_stride apart. */
void lh_latent_attend(const lh_latent *latent, const lh_compute *compute, const lh_layer *layer,
                      const lh_position_run *runs, uint32_t count, uint32_t number, const float *q,
                      float *y);
