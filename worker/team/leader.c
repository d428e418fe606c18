/* Orders into frames. */
#include "worker/team/leader.h"

#include "worker/team/order_code.h"

static lh_status post(lh_mesh *mesh, const lh_stage_order *order, lh_error *error) {
    void *bytes;
    lh_status status = lh_mesh_open(mesh, lh_order_bytes(order), &bytes, error);
    if (status != LH_OK)
        return status;
    status = lh_order_encode(order, bytes, error);
    if (status == LH_OK)
        status = lh_mesh_post_order(mesh, error);
    else
        lh_mesh_end(mesh); /* a frame is open that nobody can close */
    /* What has not gone is lost with the mesh, which may be destroyed next; and nobody writes for a
     * thread that goes to sleep. */
    bool is_last = order->kind == LH_ORDER_END || order->kind == LH_ORDER_REST;
    return status == LH_OK && is_last ? lh_mesh_flush(mesh, error) : status;
}

static lh_status on_order(void *context, const lh_stage_order *order, lh_error *error) {
    lh_leader *leader = context;
    lh_error why;
    lh_status status = post(leader->finishing.mesh, order, &why);
    if (order->kind == LH_ORDER_FINISH)
        leader->finishing.step = leader->finished++;
    if (status == LH_OK)
        return LH_OK;
    if (error)
        *error = why;
    if (!leader->has_failed)
        leader->on_failed(leader->context, &why);
    leader->has_failed = true;
    return status;
}

static lh_gather gather(void *context) {
    lh_leader *leader = context;
    leader->first_gather = lh_mesh_count(leader->finishing.mesh).gathers;
    return lh_mesh_gather(&leader->finishing);
}

static uint32_t gather_times(void *context, lh_gather_times *times, uint32_t count) {
    const lh_leader *leader = context;
    return lh_mesh_gather_times(leader->finishing.mesh, leader->first_gather, times, count);
}

void lh_leader_init(lh_leader *leader, lh_mesh *mesh,
                    void (*on_failed)(void *context, const lh_error *error), void *context) {
    *leader = (lh_leader){.finishing = {.mesh = mesh}, .on_failed = on_failed, .context = context};
}

lh_status lh_leader_rest(lh_leader *leader, lh_error *error) {
    const lh_stage_order rest = {.kind = LH_ORDER_REST};
    return post(leader->finishing.mesh, &rest, error);
}

lh_stage_leading lh_leader_leading(lh_leader *leader) {
    return (lh_stage_leading){leader, on_order, gather, gather_times};
}
