/* A pairing heap of nodes inside the caller's records: push, remove and first in O(log n) on
 * average, no memory of its own. What decides a node's order must not change while it is in a heap:
 * take it out, change it, push it again. Thread: one at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct lh_heap_node lh_heap_node;
struct lh_heap_node {
    lh_heap_node *child, *next,
        *previous; /* previous: of a first child its parent, else its left neighbour */
};

typedef struct lh_heap {
    lh_heap_node *root; /* the first one; NULL: empty */
    bool (*precedes)(const lh_heap_node *a, const lh_heap_node *b);
} lh_heap;

void lh_heap_push(lh_heap *heap, lh_heap_node *node);
/* The node must be in the heap. */
void lh_heap_remove(lh_heap *heap, lh_heap_node *node);

/* The record that a node is a member of. */
#define LH_HEAP_RECORD(node, type, member) ((type *)((char *)(node) - offsetof(type, member)))
