/* kernels/neon/matmul.h with what every aarch64 has. */
#if defined(__aarch64__)
#include "kernels/neon/f32x16.h"

/* acc[i] + the dot of w[4i .. 4i + 3] with x[4 lane .. 4 lane + 3]. Products are at most 128 * 127,
 * so that two of them are added in 16 bits, four in 32. */
LANES_INLINE int32x4_t dot_group(int32x4_t acc, int8x16_t w, int8x16_t x, const int lane) {
    int8x16_t same = vreinterpretq_s8_s32(vdupq_n_s32(vreinterpretq_s32_s8(x)[lane]));
    int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(same)), high = vmull_high_s8(w, same);
    return vpadalq_s16(acc, vpaddq_s16(low, high));
}

#include "kernels/neon/matmul.h"

void lh_neon_matmul(float *y, size_t y_stride, const lh_activations *x, const lh_matrix *w,
                    lh_span in, lh_span out, bool continues) {
    multiply(kernel_for(w->dtype), y, y_stride, x, w, in, out, continues);
}
#endif
