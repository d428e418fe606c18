/* The lesser of two. */
#include "gateway/openai/served_context.h"

uint32_t lh_openai_served_context(const lh_openai_service *service) {
    uint64_t positions = lh_engine_current_room(service->engine).positions_max;
    uint32_t context = service->model->context;
    return positions < context ? (uint32_t)positions : context;
}
