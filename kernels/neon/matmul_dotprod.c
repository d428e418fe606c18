/* kernels/neon/matmul.h with the dot product instructions (FEAT_DotProd). */
#if defined(__aarch64__)
#include "kernels/neon/f32x16.h"

/* acc[i] + the dot of w[4i .. 4i + 3] with x[4 lane .. 4 lane + 3]. */
LANES_INLINE int32x4_t dot_group(int32x4_t acc, int8x16_t w, int8x16_t x, const int lane) {
    switch (lane) { /* the instruction holds the lane's number */
    case 0:
        return vdotq_laneq_s32(acc, w, x, 0);
    case 1:
        return vdotq_laneq_s32(acc, w, x, 1);
    case 2:
        return vdotq_laneq_s32(acc, w, x, 2);
    default:
        return vdotq_laneq_s32(acc, w, x, 3);
    }
}

#include "kernels/neon/matmul.h"

void lh_dotprod_matmul(float *y, size_t y_stride, const lh_activations *x, const lh_matrix *w,
                       lh_span in, lh_span out, bool continues) {
    multiply(kernel_for(w->dtype), y, y_stride, x, w, in, out, continues);
}
#endif
