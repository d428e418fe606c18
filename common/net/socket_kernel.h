/* What the kernel offers to connections between sites, and how it is set up for them. Thread: any.
 */
#pragma once

#include "common/base/status.h"

/* Whether connections may be given this congestion control (TCP_CONGESTION); "": the system's,
 * always. LH_ERR_INVALID: the message names those that there are. */
lh_status lh_socket_check_congestion_control(const char *name, lh_error *error);

/* Tells the log what the kernel's settings mean for connections with this congestion control:
 * whether a window stays open while a connection rests, and how much may be under way. */
void lh_socket_log_kernel(const char *congestion_control);
