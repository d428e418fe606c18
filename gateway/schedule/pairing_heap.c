/* Fredman, Sedgewick, Sleator, Tarjan: The pairing heap (1986), with two passes. */
#include "gateway/schedule/pairing_heap.h"

/* Two trees become one. Either may be NULL. */
static lh_heap_node *meld(const lh_heap *heap, lh_heap_node *a, lh_heap_node *b) {
    if (!a || !b)
        return a ? a : b;
    if (heap->precedes(b, a)) {
        lh_heap_node *first = b;
        b = a;
        a = first;
    }
    b->previous = a;
    b->next = a->child;
    if (a->child)
        a->child->previous = b;
    a->child = b;
    return a;
}

static lh_heap_node *alone(lh_heap_node *node) {
    node->next = node->previous = NULL;
    return node;
}

/* Neighbours become one tree: first by pairs, which go on a stack, then the pairs one after the
 * other. */
static lh_heap_node *meld_all(const lh_heap *heap, lh_heap_node *first) {
    lh_heap_node *pairs = NULL, *all = NULL;
    while (first) {
        lh_heap_node *a = first, *b = a->next;
        first = b ? b->next : NULL;
        lh_heap_node *pair = meld(heap, alone(a), b ? alone(b) : NULL);
        pair->next = pairs;
        pairs = pair;
    }
    while (pairs) {
        lh_heap_node *pair = pairs;
        pairs = pair->next;
        all = meld(heap, all, alone(pair));
    }
    return all;
}

void lh_heap_push(lh_heap *heap, lh_heap_node *node) {
    *node = (lh_heap_node){0};
    heap->root = meld(heap, heap->root, node);
}

static void cut_off(lh_heap_node *node) {
    if (node->previous->child == node)
        node->previous->child = node->next;
    else
        node->previous->next = node->next;
    if (node->next)
        node->next->previous = node->previous;
}

void lh_heap_remove(lh_heap *heap, lh_heap_node *node) {
    lh_heap_node *below = meld_all(heap, node->child);
    if (node == heap->root) {
        heap->root = below;
        return;
    }
    cut_off(node);
    heap->root = meld(heap, heap->root, below);
}
