/* Which names a request may be for, by its header Host.
 *
 * What for. A page that a browser shows may send requests to any address, and the browser keeps it
 * from reading the answers of another origin. DNS rebinding gets around that: the page comes from
 * evil.example, whose name then resolves to 127.0.0.1, so that for the browser this server *is*
 * evil.example, and its answers are the page's own. What cannot be forged so is the name: the
 * browser says `Host: evil.example`. A server that listens on this machine alone is asked for by a
 * name of this machine, or by a proxy for a name that the operator knows.
 *
 *     listens on loopback, no list   loopback names
 *     a list                         those, and loopback names, wherever it listens
 *     the list "*"                   any
 *     listens elsewhere, no list     any: its names are not known here
 *
 * Loopback names are localhost, all below it (RFC 6761, 6.3), 127.0.0.0/8 and [::1], with any port.
 * A request without Host (HTTP/1.0) passes: no browser sends one. An address is matched as text and
 * not resolved. What is refused gets 421 (RFC 9110, 15.5.20): the server is not the one that the
 * target's authority names, so that the request is misdirected rather than forbidden; a client may
 * repeat it elsewhere.
 *
 * Plain data; thread: any. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>

typedef struct lh_allowed_hosts {
    const char *list; /* lives as long; "": none */
    bool is_any;
} lh_allowed_hosts;

/* list: "a.example,192.0.2.1", "*", "" or NULL. LH_ERR_INVALID: an entry is no name and no address
 * (without scheme and port). */
lh_status lh_allowed_hosts_parse(const char *list, bool listens_on_loopback,
                                 lh_allowed_hosts *hosts, lh_error *error);
/* host: the value of the header Host, of one line; NULL: there is none. */
bool lh_allowed_hosts_permit(const lh_allowed_hosts *hosts, const char *host);
