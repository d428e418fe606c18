/* The gateways that run on this machine, for whoever has asked at the wrong port. Thread: any. */
#pragma once

#include "common/base/status.h"

/* A transfer to `url` has failed by *cause. The same for a person: where nobody or somebody else
 * listens there, *error also says where a gateway of this machine has its API, as far as that is
 * seen (port_owner.h), and how to say so; that is LH_ERR_UNAVAILABLE. Returns error's status. */
lh_status lh_running_api_explain(const char *url, const lh_error *cause, lh_error *error);
