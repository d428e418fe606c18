/* One direction of an emulated link, as a pure model on a clock that the caller tells: a queue with
 * a bound, a transmitter with a rate, and the way, with its delay.
 *
 *     push --> [ queue: drops what does not fit ] --> [ rate; loss ] --> [ delay, jitter ] --> pop
 *
 * A packet's times are fixed when its transmission begins, so that a change of rate holds for what
 * still waits. Late callers make single packets late, but never slow the line down: times follow
 * from each other, not from when they are asked for. Thread: one at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_line_settings {
    double rate_mbit; /* of IP packets; 0: without bound */
    double delay_ms;  /* one way */
    /* the delay wanders by so much to either side, and packets stay in order */
    double jitter_ms;
    double loss_percent; /* of packets, independent of each other */
    double queue_ms;     /* the queue holds what the rate sends in this time */
} lh_line_settings;

/* What a line carries: a packet, or several that a network card would have handed over as one.
 * malloc'd. */
typedef struct lh_packet {
    struct lh_packet *next;
    int64_t arrived_ns, due_ns;
    uint32_t wire_bytes; /* with the headers of all packets in it */
    uint32_t length;
    uint8_t bytes[]; /* as the device wants them */
} lh_packet;

typedef struct lh_packet_list {
    lh_packet *first, **end;
} lh_packet_list;

typedef struct lh_line {
    lh_line_settings settings;
    lh_packet_list queue, way;
    uint64_t queue_bytes;
    int64_t free_ns; /* the transmitter is busy until then */
    int64_t last_due_ns;
    uint64_t dice;
    struct {
        int64_t from_ns, until_ns;
        double from, to; /* -1 .. 1 of the jitter */
    } wander;
    uint64_t sent_packets, sent_bytes, queue_drops, lost_packets;
    int64_t late_max_us; /* popped after its time, by so much */
} lh_line;

/* Without bound and delay; its queue is to hold 50 ms once it has a rate. */
void lh_line_init(lh_line *l, uint64_t seed);
/* Frees what it holds. */
void lh_line_clear(lh_line *l);
/* Rates, delays and bounds are not negative. */
void lh_line_set(lh_line *l, const lh_line_settings *settings, int64_t now_ns);
/* For so long nothing is transmitted. */
void lh_line_stall(lh_line *l, double ms, int64_t now_ns);
/* How many bytes may be pushed as one packet without making the line coarse. */
uint32_t lh_line_grain(const lh_line *l);
/* Takes the packet over; a dropped one is freed. */
void lh_line_push(lh_line *l, lh_packet *p, int64_t now_ns);
/* A packet that is due, the caller's; NULL: none. */
lh_packet *lh_line_pop(lh_line *l, int64_t now_ns);
/* When to ask again. INT64_MAX: not before the next push. */
int64_t lh_line_next_ns(const lh_line *l);
