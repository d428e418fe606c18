/* Carries out what a handler says to answer, through libmicrohttpd: whole replies, streamed ones,
 * and waiting for either. Private to gateway/http/. Thread: the exchange's server thread. */
#pragma once

#include "gateway/http/connection.h"

/* The library's memory for a connection: its headers, and a buffer each way. */
#define LH_HTTP_CONNECTION_MEMORY (64u << 10)

/* Hands a reply to the library; takes its body. What the library's callback is to return. */
enum MHD_Result lh_http_response_queue(lh_http_exchange *exchange, lh_http_reply *reply);
/* Carries out `progress`, which the handler said with *reply: queues the reply, waits (and asks
 * again), or cuts the connection. */
enum MHD_Result lh_http_response_proceed(lh_http_exchange *exchange, lh_http_progress progress,
                                         lh_http_reply *reply);
