/* Launches of kernels/cuda as functions of lh_kernels; the default stream, which the emulation runs
 * at once. */
extern "C" {
#include "tests/cuda/support/emulated_kernels.h"

#include "kernels/cuda/cuda_kernels.h"
}

#include <vector>

/* Each carries out lh_cuda_<name>(NULL stream, the same arguments). */
template <auto LAUNCH, typename... P> static void launched(P... arguments) {
    emulation::check(LAUNCH(nullptr, arguments...) == 0, "a kernel was not launched");
}

/* Where each row's position lies in its pages, as a worker would say it. */
static void store_kv(const lh_kv_view *view, uint32_t first, uint32_t rows, const float *keys,
                     size_t key_stride, const float *values, size_t value_stride) {
    std::vector<lh_cuda_kv_place> places;
    for (uint32_t row = 0; row < rows; row++) {
        const uint32_t page = (first + row) / LH_KV_PAGE_POSITIONS;
        places.push_back({view->key_pages ? view->key_pages[page] : nullptr,
                          view->value_pages[page], first + row});
    }
    const int error =
        lh_cuda_kv_store(nullptr, &view->shape, places.data(), 0, rows, keys, key_stride, values,
                         value_stride, {0, false, nullptr, nullptr});
    emulation::check(error == 0, "a kernel was not launched");
}

static void multiply(float *y, size_t y_stride, const lh_activations *x, const lh_matrix *w,
                     lh_span in, lh_span out, bool continues) {
    const lh_cuda_product product = {y, y_stride, *w, out, nullptr};
    const int error = lh_cuda_products(nullptr, &product, 1, x, in, continues, nullptr);
    emulation::check(error == 0, "a kernel was not launched");
}

void emulated_order(uint64_t seed) {
    emulation::set_seed(seed);
}

uint64_t emulated_launches(void) {
    return emulation::grids();
}

static lh_kernels emulated() {
    lh_kernels k = {};
    k.name = "cuda";
    k.pack_activations = launched<lh_cuda_pack_activations>;
    k.matmul = multiply;
    k.scale_rows = launched<lh_cuda_scale_rows>;
    k.scale_add_rows = launched<lh_cuda_scale_add_rows>;
    k.add_rows = launched<lh_cuda_add_rows>;
    k.norm_heads = launched<lh_cuda_norm_heads>;
    k.norm_add = launched<lh_cuda_norm_add>;
    k.silu_mul = launched<lh_cuda_silu_mul>;
    k.gelu_mul = launched<lh_cuda_gelu_mul>;
    k.swiglu_mul = launched<lh_cuda_swiglu_mul>;
    k.rope = launched<lh_cuda_rope>;
    k.kv_store = store_kv;
    return k;
}

const lh_kernels emulated_kernels = emulated();
