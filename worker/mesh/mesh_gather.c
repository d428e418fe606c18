/* Number n of step s is the mesh's gather s * 2^32 + n. */
#include "worker/mesh/mesh_gather.h"

static uint64_t number_of(const lh_mesh_step *step, uint32_t number) {
    return (uint64_t)step->step << 32 | number;
}

static lh_status open(void *context, uint32_t number, size_t length, void **bytes,
                      lh_error *error) {
    const lh_mesh_step *step = context;
    (void)number;
    return lh_mesh_open(step->mesh, length, bytes, error);
}

static lh_status post(void *context, uint32_t number, lh_error *error) {
    const lh_mesh_step *step = context;
    return lh_mesh_post_gather(step->mesh, number_of(step, number), error);
}

static lh_status take(void *context, uint32_t number, uint32_t member, size_t length,
                      const void **bytes, lh_error *error) {
    const lh_mesh_step *step = context;
    return lh_mesh_take_gather(step->mesh, number_of(step, number), member, length, bytes, error);
}

lh_gather lh_mesh_gather(lh_mesh_step *step) {
    return (lh_gather){step, open, post, take};
}
