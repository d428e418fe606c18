/* Positions are taken from the end of a sequence alone, so what a step can lose is what it stands
 * on. */
#include "worker/compute/stage/kv_reservation.h"

static lh_status continue_sequence(lh_kv_cache *cache, const lh_step_segment *segment,
                                   lh_kv_reservation *reservation, lh_error *error) {
    lh_kv_sequence *sequence = lh_kv_cache_find(cache, segment->sequence);
    uint32_t length = sequence ? lh_kv_sequence_length(sequence) : 0;
    if (segment->first_position != length) {
        return lh_fail(error, LH_ERR_INVALID,
                       "sequence %llu has %u positions, but the step goes on at %u",
                       (unsigned long long)segment->sequence, length, segment->first_position);
    }
    /* checked against the context before */
    uint32_t positions = segment->first_position + segment->rows;
    lh_status status = lh_kv_cache_reserve(cache, segment->sequence, positions, &sequence, error);
    if (status != LH_OK)
        return status;
    lh_kv_sequence_pin(sequence);
    lh_kv_sequence_set_length(sequence, positions);
    *reservation = (lh_kv_reservation){.sequence = sequence,
                                       .first_position = segment->first_position,
                                       .rows = segment->rows,
                                       .before = segment->forks ? 0 : segment->first_position};
    return LH_OK;
}

static lh_status reserve_segment(lh_kv_cache *cache, const lh_step_segment *segment,
                                 lh_kv_reservation *reservation, lh_error *error) {
    if (!segment->forks)
        return continue_sequence(cache, segment, reservation, error);
    lh_status status =
        lh_kv_cache_fork(cache, segment->sequence, segment->source, segment->first_position, error);
    if (status != LH_OK)
        return status;
    status = continue_sequence(cache, segment, reservation, error);
    if (status != LH_OK)
        lh_kv_cache_truncate(cache, segment->sequence, 0);
    return status;
}

lh_status lh_kv_reservations_take(lh_kv_cache *cache, const lh_batch *batch,
                                  lh_kv_reservation *reservations, lh_error *error) {
    for (uint32_t i = 0; i < batch->segment_count; i++) {
        lh_status status = reserve_segment(cache, &batch->segments[i], &reservations[i], error);
        if (status != LH_OK) {
            for (uint32_t j = i; j-- > 0;)
                lh_kv_sequence_shorten(cache, reservations[j].sequence, reservations[j].before);
            lh_kv_reservations_drop(cache, reservations, i);
            return status;
        }
    }
    return LH_OK;
}

lh_status lh_kv_reservations_start(const lh_kv_reservation *reservations, uint32_t count,
                                   lh_error *error) {
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (reservations[i].stale) {
            return lh_fail(error, LH_ERR_CANCELLED,
                           "positions below %u were taken back by an earlier step",
                           reservations[i].first_position);
        }
        wanted += !lh_kv_sequence_is_freed(reservations[i].sequence);
    }
    if (wanted == 0)
        return lh_fail(error, LH_ERR_CANCELLED, "every sequence of the step has been freed");
    for (uint32_t i = 0; i < count; i++) {
        uint32_t written = lh_kv_sequence_written(reservations[i].sequence);
        if (written != reservations[i].first_position) {
            return lh_fail(error, LH_ERR_INVALID,
                           "the step goes on at position %u, but only %u are written: steps of a "
                           "sequence finish in order",
                           reservations[i].first_position, written);
        }
        lh_kv_sequence_set_written(reservations[i].sequence, written + reservations[i].rows);
    }
    return LH_OK;
}

void lh_kv_reservations_take_back(lh_kv_cache *cache, const lh_kv_reservation *reservations,
                                  uint32_t count) {
    for (uint32_t i = count; i-- > 0;)
        if (!reservations[i].stale)
            lh_kv_sequence_shorten(cache, reservations[i].sequence, reservations[i].before);
}

void lh_kv_reservations_go_stale(lh_kv_reservation *reservations, uint32_t count,
                                 const lh_kv_reservation *gone, uint32_t gone_count) {
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < gone_count; j++) {
            reservations[i].stale |= !gone[j].stale &&
                                     reservations[i].sequence == gone[j].sequence &&
                                     reservations[i].first_position > gone[j].first_position;
        }
    }
}

void lh_kv_reservations_drop(lh_kv_cache *cache, const lh_kv_reservation *reservations,
                             uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        lh_kv_cache_unpin(cache, reservations[i].sequence);
}
