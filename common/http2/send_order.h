/* Who may send now, among those that share one connection. Members have a class: one of class 0
 * that has something to send goes before any of class 1, and that before any of class 2. Within a
 * class members go whole, in the order in which they came: while the first has not left, the later
 * ones wait, also when it has nothing to send just now. Thread: the owner's. */
#pragma once

#include <stdbool.h>

enum { LH_SEND_CLASSES = 3 };

typedef struct lh_send_place {
    struct lh_send_place *next, *previous;
    int send_class;
    bool listed;
} lh_send_place;

/* All zeros is an order without members. */
typedef struct lh_send_order {
    lh_send_place *first[LH_SEND_CLASSES], *last[LH_SEND_CLASSES];
} lh_send_order;

/* Puts a place (zeroed, embedded in the member) behind all others of its class. */
void lh_send_order_join(lh_send_order *order, lh_send_place *place, int send_class);
/* Takes it out; one that is not in is left alone. */
void lh_send_order_leave(lh_send_order *order, lh_send_place *place);
/* The place whose turn it is: the first of its class, and ready; NULL when there is none. */
lh_send_place *lh_send_order_pick(const lh_send_order *order,
                                  bool (*is_ready)(const lh_send_place *place));
