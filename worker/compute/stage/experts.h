/* A mixture of experts: which rows go to which, and the rows in the order of their experts.
 * (Outrageously large networks, arXiv:1701.06538; Mixtral, arXiv:2401.04088; shared experts,
 * DeepSeekMoE, arXiv:2401.06066.)
 *
 * A router gives each row a logit for every expert. Of a row's logits become shares: with
 *   softmax   p[e] = exp(l[e] - max) / sum, the sum by lanes and tree (kernels.h)
 *   sigmoid   p[e] = 1 / (1 + exp(-l[e]))
 * and the row goes through those experts whose p + bias is greatest, of equal ones the first. A
 * softmax of the chosen ones alone comes after the choice, which is then by l + bias. Where experts
 * are in groups, only those of the best groups count: a group is as good as its best expert
 * (softmax: DeepSeek-V2, arXiv:2405.04434) or its two best together (sigmoid: DeepSeek-V3,
 * arXiv:2412.19437), p + bias again. Where
 * shares are normalized, those of the chosen ones are divided by their sum, in the order of experts
 * (at least 2^-14, so that none is divided by nothing); at last they are multiplied by a scale.
 *
 * A slot is one row at one expert. Slots lie in the order of experts, and of rows within an expert:
 * so an expert's rows are neighbours, and its matrices, of which a step reads only those that some
 * row has chosen, are multiplied with all of them at once. What an expert makes of a row is
 * multiplied by its share before the down projection. So that projection is, for each column of a
 * row, one chain over the inputs of all its experts in ascending order, which goes on from the
 * residual: batch, chunks and threads do not change a bit of it, and a column is complete on its
 * own, as that of a dense layer is. What an expert adds besides, its bias times the share, follows
 * its inputs. The shared expert, which all rows go through, comes last.
 *
 * Thread: the compute thread. */
#pragma once

#include "common/base/status.h"
#include "common/model/model.h"
#include "worker/compute/stage/ops.h"
#include "worker/compute/stage/parameters.h"

typedef struct lh_experts {
    float *logits;                  /* [rows][experts], rows lh_row_stride apart */
    void *slots;                    /* where rows go: the device's (open_slots of lh_ops) */
    void *later_slots;              /* the same for the later half (halves.h) of a step of several
                                       members; NULL: alone */
    lh_packed gated_packed;         /* [rows * used][expert_width], of all members */
    float *gate, *up;               /* [rows * used][expert_width], rows lh_row_stride apart */
    lh_packed gated_shared;         /* [rows][shared_expert_width], of all members */
    float *shared_gate, *shared_up; /* [rows][shared_expert_width], rows lh_row_stride apart */
    float *shared_logit;            /* [rows], lh_row_stride(1) apart */
    float *shared_share;            /* [rows]: the sigmoid of it */
} lh_experts;

/* For steps of so many rows through these layers; the config and the layers are a member's
 * (division.h), whose gates begin at the numbers of its own columns. LH_ERR_NO_MEMORY. */
lh_status lh_experts_init(lh_experts *experts, const lh_model_config *config,
                          const lh_division *division, const lh_parameters *weights,
                          const lh_compute *compute, uint32_t rows, lh_error *error);
void lh_experts_reset(lh_experts *experts, const lh_compute *compute);

/* Of one row: logits[experts] become shares; chosen[used], shares[used]. bias[experts] may be NULL.
 * Pure. */
void lh_experts_choose(const lh_kernels *kernels, const lh_model_config *config, const float *bias,
                       float *logits, uint32_t *chosen, float *shares);
/* 1 / (1 + exp(-x)). */
float lh_experts_sigmoid(float x);
