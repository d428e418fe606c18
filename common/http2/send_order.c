/* One doubly linked list for each class. */
#include "common/http2/send_order.h"

#include <assert.h>
#include <stddef.h>

void lh_send_order_join(lh_send_order *order, lh_send_place *place, int send_class) {
    assert(send_class >= 0 && send_class < LH_SEND_CLASSES && !place->listed);
    lh_send_place *last = order->last[send_class];
    *place = (lh_send_place){.previous = last, .send_class = send_class, .listed = true};
    if (last)
        last->next = place;
    else
        order->first[send_class] = place;
    order->last[send_class] = place;
}

void lh_send_order_leave(lh_send_order *order, lh_send_place *place) {
    if (!place->listed)
        return;
    assert(place->send_class >= 0 && place->send_class < LH_SEND_CLASSES);
    assert(place->previous || order->first[place->send_class] == place);
    assert(place->next || order->last[place->send_class] == place);
    if (place->previous)
        place->previous->next = place->next;
    else
        order->first[place->send_class] = place->next;
    if (place->next)
        place->next->previous = place->previous;
    else
        order->last[place->send_class] = place->previous;
    *place = (lh_send_place){0};
}

lh_send_place *lh_send_order_pick(const lh_send_order *order,
                                  bool (*is_ready)(const lh_send_place *place)) {
    for (int i = 0; i < LH_SEND_CLASSES; i++)
        if (order->first[i] && is_ready(order->first[i]))
            return order->first[i];
    return NULL;
}
