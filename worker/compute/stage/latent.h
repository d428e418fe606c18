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
 * Here is how CPUs do it, the operations of lh_ops, whose contracts these are. A part of the work
 * is one run of rows and some heads: queries to the latent space, attention, results back, in the
 * scratch of its thread. Few rows, which see much, go in three steps instead: queries by some
 * heads; attention by 16 heads, which read a row together, and by blocks of keys; and results by
 * some heads. Neither shows in a result.
 *
 * Thread: the compute thread. */
#pragma once

#include "common/model/model.h"
#include "worker/compute/stage/ops.h"

void *lh_latent_open(const lh_compute *compute, const lh_model_config *config, uint32_t rows,
                     uint32_t context);
void lh_latent_close(const lh_compute *compute, void *latent);
/* Of the scratch that lh_latent_open makes, what each thread has; 0: it would overflow. */
size_t lh_latent_thread_bytes(const lh_model_config *config);
/* Of what all threads share. */
uint64_t lh_latent_shared_bytes(const lh_model_config *config, uint32_t rows, uint32_t context,
                                uint32_t threads);
void lh_latent_attend(const lh_compute *compute, void *latent, const lh_expert_matrices *k_b,
                      const lh_expert_matrices *v_b, const lh_position_run *runs, uint32_t count,
                      uint32_t layer, const float *q, float *y);

/* What scores are multiplied by; on any device. */
float lh_latent_scale(const lh_model_config *config);
