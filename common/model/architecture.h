/* What an architecture is: one row says what its layers have besides what every one of them has
 * (RMSNorm, rotary positions, grouped-query attention, a gated feed-forward part). The layer is one
 * function for all (worker/compute/stage/layer.c). For common/model/ alone: what the others
 * need is in lh_model_config. Thread: read-only, any. */
#pragma once

#include "common/base/status.h"
#include "common/gguf/gguf.h"
#include "common/model/model.h"

#define LH_ROLE_BIT(role) (UINT64_C(1) << (role))

/* Whether it is a mixture of experts. */
typedef enum lh_expert_use {
    LH_EXPERTS_NEVER,
    LH_EXPERTS_PERHAPS,
    LH_EXPERTS_ALWAYS
} lh_expert_use;

/* How layers with a window are rotated, and those that see all positions. */
typedef enum lh_window_rope {
    LH_WINDOW_ROPE_OWN,  /* by a base of their own, without the scaling of the others */
    LH_WINDOW_ROPE_SAME, /* all alike */
    LH_WINDOW_ROPE_ONLY  /* likewise, but where there are windows the others are not rotated */
} lh_window_rope;

/* A period that no layer ends: all have a window. */
#define LH_WINDOW_EVERYWHERE UINT32_MAX

typedef struct lh_architecture {
    const char *name;      /* general.architecture, and the prefix of its keys */
    bool rope_interleaved; /* pairs (2i, 2i + 1): its converter has reordered the rows of q and k */
    bool embedding_scaled; /* by sqrt(width) */
    lh_gate gate;
    uint64_t required, optional; /* LH_ROLE_BIT of tensors, besides those of every architecture */
    uint64_t lacking;            /* of those that every other one has */
    /* where the metadata give a window, each layer of this number sees all; 0: there is none */
    uint32_t window_period;
    lh_window_rope window_rope;
    /* of LH_WINDOW_ROPE_OWN, where the metadata say nothing else; 0: as the others */
    double window_rope_base;
    /* of so many layers the last one is not rotated; 0: all are */
    uint32_t rope_period;
    lh_expert_use experts;
    bool experts_normalized; /* where the metadata do not say, as the next */
    lh_routing routing;
    /* the width of an expert is feed_forward_length; otherwise expert_feed_forward_length */
    bool experts_are_wide;
    bool norms_whole_rows; /* of q and k */
    bool norms_are_late;   /* those of q and k: behind the rotation */
    bool is_latent;        /* its attention is latent */
    bool has_scales;       /* residual_scale and logit_scale, embedding_scale */
    bool requires_scales;  /* where they are not given, they are not 1 */
    /* a model of so many layers scales attention by 1 / sqrt(width / heads); 0: none does */
    uint32_t per_width_layers;
} lh_architecture;

/* The row for a file's general.architecture. LH_ERR_MALFORMED: the key is missing or no text.
 * LH_ERR_UNSUPPORTED. */
lh_status lh_architecture_find(const lh_gguf *gguf, const lh_architecture **architecture,
                               lh_error *error);
