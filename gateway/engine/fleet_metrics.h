/* Chains, hops, workers and queues as metrics: what GET /fleet shows, in the form that Prometheus
 * reads. Rendered by those who own the figures, published for those who ask (published_text.h).
 * Thread: the engine's. */
#pragma once

#include "common/metrics/exposition.h"
#include "gateway/engine/fleet_view_json.h"

/* Appends all families. unix_s: the time of day, by which a reader sees how old the figures are. */
void lh_fleet_metrics_render(const lh_router *router, const lh_fleet_view *view, int64_t now_us,
                             double unix_s, lh_exposition *exposition);
