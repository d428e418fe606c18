/* When to sample, and what to make of it. */
#include "common/http2/link.h"

#include "common/base/clock.h"
#include "common/net/congestion_control.h"

enum {
    SAMPLE_US_MIN = 1000,
    /* Acknowledgements of a fast link are through in milliseconds once they come; in slow start the
     * window's pauses must be seen; later the mean is enough. */
    BEGINNING_MS = 1,
    BEGINNING_US = 10000,
    FRESH_US = 1000000, /* an estimate of this age needs no such care */
    SLOW_START_MS = 2,
    SETTLED_MS = 10,
    /* Awake this long before the first acknowledgement may come: the interval that ends with it
     * counts nowhere. */
    EARLY_US = 1000,
    ASLEEP_US_MAX = 200000, /* the way may have got shorter than it is thought to be */
    /* What an urgent frame waits for at most: as long as this at the link's rate. Shorter would
     * idle the link where the loop shares a core with the arithmetic and comes late. */
    UNSENT_US = 8000,
    FRAME_US = 4000,
    /* the kernel asks for more when half of it is gone: one segment is left */
    UNSENT_BYTES_MIN = 4 << 10,
    UNSENT_BYTES_MAX = 512 << 10,
    UNSENT_BYTES_DEFAULT = 32 << 10,
    FRAME_BYTES_MIN = 2 << 10
};
/* Set anew when it has changed by more than this factor. */
static const double PACE_CHANGE = 1.25;

static void on_timer(uv_timer_t *timer);

void lh_h2_link_open(lh_h2_link *link, uv_loop_t *loop) {
    *link = (lh_h2_link){.transport = NULL};
    uv_timer_init(loop, &link->timer);
    link->timer.data = link;
}

void lh_h2_link_close(lh_h2_link *link, uv_close_cb on_closed, void *owner) {
    link->transport = NULL;
    link->timer.data = owner;
    uv_close((uv_handle_t *)&link->timer, on_closed);
}

/* ---- Pace ---- */

static uint32_t clamp(double value, uint32_t least, uint32_t most) {
    return value < least ? least : value > most ? most : (uint32_t)value;
}

static bool is_other(uint32_t value, uint32_t before) {
    return value > before * PACE_CHANGE || value < before / PACE_CHANGE;
}

static bool is_settled(const lh_link_estimate *estimate) {
    return !estimate->bytes_per_us_is_bound && !estimate->bytes_per_us_is_doubtful;
}

/* As the rate has it; but never more than the window, for while that is small it is what the kernel
 * sends in a whole round trip. */
static void suit_pace(lh_h2_link *link, uint64_t window_bytes) {
    lh_link_estimate estimate = lh_link_meter_read(&link->meter, lh_clock_us());
    bool is_known = is_settled(&estimate);
    double unsent = is_known ? estimate.bytes_per_us * UNSENT_US : UNSENT_BYTES_DEFAULT;
    double frame = is_known ? estimate.bytes_per_us * FRAME_US : LH_H2_FRAME_BYTES_MAX;
    unsent = unsent < (double)window_bytes ? unsent : (double)window_bytes;
    uint32_t unsent_bytes = clamp(unsent, UNSENT_BYTES_MIN, UNSENT_BYTES_MAX);
    uint32_t frame_bytes = clamp(frame, FRAME_BYTES_MIN, LH_H2_FRAME_BYTES_MAX);
    if (is_other(unsent_bytes, link->unsent_bytes)) {
        lh_h2_output_set_unsent_max(&link->transport->output, unsent_bytes);
        link->unsent_bytes = unsent_bytes;
    }
    if (is_other(frame_bytes, link->frame_bytes)) {
        lh_h2_session_set_frame_bytes(link->transport->session, frame_bytes);
        link->frame_bytes = frame_bytes;
    }
}

void lh_h2_link_attach(lh_h2_link *link, lh_h2_transport *transport) {
    uv_timer_stop(&link->timer);
    link->transport = transport;
    link->is_busy = false;
    link->acked_bytes = 0;
    link->sampled_us = 0;
    link->unsent_bytes = link->frame_bytes = 0;
    if (!transport)
        return;
    link->window_decays = lh_congestion_control_decays(lh_h2_output_descriptor(&transport->output));
    lh_link_meter_connected(&link->meter);
    suit_pace(link, UNSENT_BYTES_DEFAULT);
}

/* ---- Samples ---- */

/* What has begun is watched until little is left of it. */
static bool is_bulk(const lh_h2_link *link, const lh_tcp_state *state) {
    uint64_t bytes = state->in_flight_bytes + state->unsent_bytes;
    return bytes >= (link->is_busy ? LH_LINK_TAIL_BYTES : LH_LINK_BULK_BYTES) ||
           (!link->transport->dry && state->in_flight_bytes > 0);
}

/* Of what has just made it busy nothing can be acknowledged before a round trip. */
static void note_beginning(lh_h2_link *link, const lh_tcp_state *state) {
    if (!link->is_busy) {
        lh_link_estimate estimate = lh_link_meter_read(&link->meter, link->sampled_us);
        link->begun_bytes = state->acked_bytes;
        int64_t asleep_us = estimate.round_trip_us - EARLY_US;
        link->begun_us = link->sampled_us + (asleep_us < ASLEEP_US_MAX ? asleep_us : ASLEEP_US_MAX);
    } else if (state->acked_bytes == link->begun_bytes && link->begun_us < link->sampled_us) {
        link->begun_us = link->sampled_us;
    }
}

/* Half of what is on its way, by the estimate. */
static uint64_t half_ms(const lh_tcp_state *state, double bytes_per_us) {
    double us = (double)(state->in_flight_bytes + state->unsent_bytes) / bytes_per_us / 2;
    return clamp(us / 1000, SLOW_START_MS,
                 lh_tcp_is_in_slow_start(state) ? SLOW_START_MS : SETTLED_MS);
}

static uint64_t interval_ms(const lh_h2_link *link, const lh_tcp_state *state) {
    lh_link_estimate estimate = lh_link_meter_read(&link->meter, link->sampled_us);
    if (link->begun_us - link->sampled_us > SLOW_START_MS * 1000)
        return (uint64_t)(link->begun_us - link->sampled_us) / 1000;
    bool is_fresh = is_settled(&estimate) && estimate.age_us < FRESH_US;
    if (!is_fresh && link->sampled_us - link->begun_us < BEGINNING_US)
        return BEGINNING_MS;
    return half_ms(state, estimate.bytes_per_us);
}

static void sample(lh_h2_link *link) {
    lh_tcp_state state;
    if (!lh_socket_tcp_state(lh_h2_output_descriptor(&link->transport->output), &state)) {
        link->is_busy = false;
        uv_timer_stop(&link->timer);
        return;
    }
    link->sampled_us = lh_clock_us();
    note_beginning(link, &state);
    link->acked_bytes = state.acked_bytes;
    lh_link_meter_sample(&link->meter, link->sampled_us, &state);
    suit_pace(link, state.window_bytes);
    link->is_busy = is_bulk(link, &state);
    if (link->is_busy)
        uv_timer_start(&link->timer, on_timer, interval_ms(link, &state), 0);
    else
        uv_timer_stop(&link->timer);
}

static void on_timer(uv_timer_t *timer) {
    lh_h2_link *link = timer->data;
    if (link->transport && !link->transport->closing)
        sample(link);
}

void lh_h2_link_on_pumped(lh_h2_link *link, bool more_follows) {
    uint64_t position = link->transport->output.bytes_sent + 1; /* TCP counts the SYN */
    if (link->transport->dry && !more_follows)
        lh_link_meter_ran_dry(&link->meter, position);
    if (position >= link->acked_bytes + LH_LINK_BULK_BYTES &&
        lh_clock_us() - link->sampled_us >= SAMPLE_US_MIN)
        sample(link);
}

void lh_h2_link_on_round_trip(lh_h2_link *link, int64_t round_trip_us) {
    lh_link_meter_round_trip(&link->meter, lh_clock_us(), round_trip_us, link->is_busy);
}

uint64_t lh_h2_link_read_window(const lh_h2_link *link, int64_t *least_round_trip_us) {
    lh_tcp_state state;
    *least_round_trip_us = 0;
    if (!link->transport ||
        !lh_socket_tcp_state(lh_h2_output_descriptor(&link->transport->output), &state))
        return 0;
    *least_round_trip_us = state.round_trip_min_us;
    return lh_link_ready_bytes(&state, link->window_decays);
}
