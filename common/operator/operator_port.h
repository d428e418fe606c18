/* The operator's port of a program: a few pages over HTTP/1.1 that tell how it is, for Prometheus,
 * probes and people. It takes GET and HEAD alone, without a body, and one thread of its own renders
 * the pages, so that it competes with nobody for a thread, and a page must not wait for others.
 *
 * Bounds: 64 connections at a time, of which each is closed when it is silent; headers of a few
 * kilobytes. On loopback it answers for localhost alone (allowed_hosts.h): no page of a browser
 * reads the figures by DNS rebinding. Thread: open and close by one thread. */
#pragma once

#include "common/base/text_buffer.h"

#include <stddef.h>
#include <stdint.h>

typedef struct lh_operator_port lh_operator_port;

/* One page. */
typedef struct lh_operator_page {
    const char *path, *content_type; /* static */
    /* Fills *body, which is empty, and returns the HTTP status. The port's thread; what it cannot
     * fill for want of memory it leaves empty, with 500. */
    unsigned (*render)(void *context, lh_text_buffer *body);
    void *context;
} lh_operator_page;

typedef struct lh_operator_port_options {
    /* "HOST:PORT"; "off": none; "": `usual`, where a port that is taken is no error */
    const char *listen;
    const char *usual;
    const char *allowed_hosts;     /* beside localhost (allowed_hosts.h); "": none */
    const lh_operator_page *pages; /* [page_count]; outlive the port */
    size_t page_count;
} lh_operator_port_options;

/* Starts to serve. *port is NULL where there is none, and the log says why. LH_ERR_INVALID: the
 * address is malformed; LH_ERR_IO: it cannot be listened on; LH_ERR_NO_MEMORY. */
lh_status lh_operator_port_open(const lh_operator_port_options *options, lh_operator_port **port,
                                lh_error *error);
/* NULL is allowed. */
void lh_operator_port_close(lh_operator_port *port);
/* The TCP port; 0: there is none (port is NULL). */
uint16_t lh_operator_port_number(const lh_operator_port *port);

/* LH_ERR_INVALID: --metrics-listen is neither an address with a host nor "off". Any thread. */
lh_status lh_operator_port_check(const char *listen, lh_error *error);
/* The address that the options come to; "": none. For the sandbox. */
const char *lh_operator_port_address(const char *listen, const char *usual);
