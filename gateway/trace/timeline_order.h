/* Puts a timeline's spans in the order that timeline.h promises, and cuts what overlaps by the errors of clocks. Private to
 * timeline*.c. Thread: any. */
#pragma once

#include "gateway/trace/timeline.h"

void lh_timeline_order(lh_timeline *line);
