/* The model of one direction. */
#include "link/line.h"

#include <stdlib.h>

/* What is pushed as one packet takes at most so long to transmit, unless it is a single one. */
#define GRAIN_NS 200000
/* A queue holds this much at any rate: one packet in hand and one behind it. */
#define QUEUE_BYTES_MIN 3000.0
/* Until it is told otherwise: a router's buffer of the usual size. */
#define QUEUE_MS 50
/* The delay goes from one random value to the next within at least so long. */
#define WANDER_MIN_NS 10000000

static void list_push(lh_packet_list *list, lh_packet *p) {
    p->next = NULL;
    *list->end = p;
    list->end = &p->next;
}

static lh_packet *list_pop(lh_packet_list *list) {
    lh_packet *p = list->first;
    list->first = p->next;
    if (!list->first)
        list->end = &list->first;
    return p;
}

/* Uniform in [0, 1): xorshift64*. */
static double resync(lh_line *l) {
    l->dice ^= l->dice >> 12;
    l->dice ^= l->dice << 25;
    l->dice ^= l->dice >> 27;
    return (double)(l->dice * 0x2545f4914f6cdd1du >> 11) * 0x1p-53;
}

void lh_line_init(lh_line *l, uint64_t seed) {
    *l = (lh_line){.settings.queue_ms = QUEUE_MS, .dice = (seed + 1) * 0x9e3779b97f4a7c15u};
    l->queue.end = &l->queue.first;
    l->way.end = &l->way.first;
}

void lh_line_clear(lh_line *l) {
    while (l->queue.first)
        free(list_pop(&l->queue));
    while (l->way.first)
        free(list_pop(&l->way));
}

static int64_t transmission_ns(const lh_line *l, uint32_t bytes) {
    return l->settings.rate_mbit > 0 ? (int64_t)(bytes * 8000.0 / l->settings.rate_mbit) : 0;
}

static double queue_limit(const lh_line *l) {
    double bytes = l->settings.rate_mbit * 125 * l->settings.queue_ms;
    return bytes > QUEUE_BYTES_MIN ? bytes : QUEUE_BYTES_MIN;
}

/* Slow enough that a later packet never overtakes: by at most half of the time that passes. */
static double jitter_ns(lh_line *l, int64_t at_ns) {
    double jitter = l->settings.jitter_ms * 1e6;
    if (jitter <= 0)
        return 0;
    while (at_ns >= l->wander.until_ns) {
        int64_t period = (int64_t)(4 * jitter);
        l->wander.from_ns = l->wander.until_ns == 0 ? at_ns : l->wander.until_ns;
        l->wander.until_ns = l->wander.from_ns + (period > WANDER_MIN_NS ? period : WANDER_MIN_NS);
        l->wander.from = l->wander.to;
        l->wander.to = 2 * resync(l) - 1;
    }
    double part =
        (double)(at_ns - l->wander.from_ns) / (double)(l->wander.until_ns - l->wander.from_ns);
    return jitter * (l->wander.from + part * (l->wander.to - l->wander.from));
}

static void transmit(lh_line *l, lh_packet *p, int64_t start_ns) {
    l->free_ns = start_ns + transmission_ns(l, p->wire_bytes);
    if (l->settings.loss_percent > 0 && resync(l) * 100 < l->settings.loss_percent) {
        l->lost_packets++;
        free(p);
        return;
    }
    double way_ns = l->settings.delay_ms * 1e6 + jitter_ns(l, l->free_ns);
    p->due_ns = l->free_ns + (way_ns > 0 ? (int64_t)way_ns : 0);
    p->due_ns = p->due_ns > l->last_due_ns ? p->due_ns : l->last_due_ns;
    l->last_due_ns = p->due_ns;
    list_push(&l->way, p);
}

static int64_t start_of(const lh_line *l, const lh_packet *p) {
    return p->arrived_ns > l->free_ns ? p->arrived_ns : l->free_ns;
}

/* Begins every transmission whose time has come. */
static void advance(lh_line *l, int64_t now_ns) {
    while (l->queue.first && start_of(l, l->queue.first) <= now_ns) {
        lh_packet *p = list_pop(&l->queue);
        l->queue_bytes -= p->wire_bytes;
        transmit(l, p, start_of(l, p));
    }
}

void lh_line_set(lh_line *l, const lh_line_settings *settings, int64_t now_ns) {
    advance(l, now_ns);
    l->settings = *settings;
}

void lh_line_stall(lh_line *l, double ms, int64_t now_ns) {
    advance(l, now_ns);
    int64_t end_ns = now_ns + (int64_t)(ms * 1e6);
    l->free_ns = l->free_ns > end_ns ? l->free_ns : end_ns;
}

uint32_t lh_line_grain(const lh_line *l) {
    if (l->settings.loss_percent > 0)
        return 0; /* each packet is lost for itself */
    double bytes = l->settings.rate_mbit > 0 ? l->settings.rate_mbit * GRAIN_NS / 8000 : 65536;
    return bytes < 65536 ? (uint32_t)bytes : 65536;
}

void lh_line_push(lh_line *l, lh_packet *p, int64_t now_ns) {
    advance(l, now_ns);
    if (l->settings.rate_mbit > 0 && (double)(l->queue_bytes + p->wire_bytes) > queue_limit(l)) {
        l->queue_drops++;
        free(p);
        return;
    }
    p->arrived_ns = now_ns;
    l->queue_bytes += p->wire_bytes;
    list_push(&l->queue, p);
    advance(l, now_ns);
}

lh_packet *lh_line_pop(lh_line *l, int64_t now_ns) {
    advance(l, now_ns);
    if (!l->way.first || l->way.first->due_ns > now_ns)
        return NULL;
    lh_packet *p = list_pop(&l->way);
    int64_t late_us = (now_ns - p->due_ns) / 1000;
    l->late_max_us = late_us > l->late_max_us ? late_us : l->late_max_us;
    l->sent_packets++;
    l->sent_bytes += p->wire_bytes;
    return p;
}

int64_t lh_line_next_ns(const lh_line *l) {
    if (l->way.first)
        return l->way.first->due_ns;
    if (!l->queue.first)
        return INT64_MAX;
    /* Nothing on the way, so the next to come is the head of the queue, and not before this: */
    double way_ns = (l->settings.delay_ms - l->settings.jitter_ms) * 1e6;
    return start_of(l, l->queue.first) + transmission_ns(l, l->queue.first->wire_bytes) +
           (way_ns > 0 ? (int64_t)way_ns : 0);
}
