/* TCP's congestion control of data connections, and what the kernel's settings make of it. Thread:
 * any. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>

/* Whether connections may be given this one (TCP_CONGESTION); "": the system's, always.
 * LH_ERR_INVALID: the message names those that there are. */
lh_status lh_congestion_control_check(const char *name, lh_error *error);
/* False, with errno: the kernel refuses it. */
bool lh_congestion_control_set(int descriptor, const char *name);

/* While a window is being opened on purpose, Reno stands in for Cubic, the kernel's usual
 * congestion control: Cubic's HyStart takes a round trip that is an eighth longer for a full link,
 * and then opens the window no further within any useful time. True: it was Cubic and is Reno now.
 */
bool lh_congestion_control_begin_opening(int descriptor);
/* After _begin_opening has returned true: Cubic again. */
void lh_congestion_control_end_opening(int descriptor);

/* Whether the kernel takes the window back when the connection has been idle, as TCP does unless
 * net.ipv4.tcp_slow_start_after_idle is 0 or the congestion control has a model of its own ("bbr").
 */
bool lh_congestion_control_decays(int descriptor);

/* The same of connections that are yet to be opened, with this congestion control ("": the
 * system's). */
bool lh_congestion_control_will_decay(const char *name);

/* Tells the log what the kernel's settings mean for connections with this congestion control ("":
 * the system's): whether a window stays open while a connection rests, and how much may be under
 * way. */
void lh_congestion_control_log(const char *name);
